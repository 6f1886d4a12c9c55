"""Engines as users choose them, their images, and why one did not start."""
