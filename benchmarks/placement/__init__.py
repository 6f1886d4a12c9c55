"""How near to the proven optimum each solver places a fleet: ``python -m benchmarks.placement``."""
