"""How long a pass over a large cluster takes: ``python -m benchmarks.planning``."""
