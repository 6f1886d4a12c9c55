"""Models: their parts, their caches, and the formats of their numbers."""
