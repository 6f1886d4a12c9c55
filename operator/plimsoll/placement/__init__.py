"""From estimate and fleet to outcome: which GPU type, which split, and why not the others."""
