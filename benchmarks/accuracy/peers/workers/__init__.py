"""Scripts that run inside a peer's own environment."""
