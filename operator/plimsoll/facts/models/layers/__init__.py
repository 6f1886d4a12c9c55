"""Layers: their shapes, their MLPs and experts, and which of them belong together."""
