"""Facts about a model: its layers, weights and caches, read from its configuration and its checkpoint's headers."""
