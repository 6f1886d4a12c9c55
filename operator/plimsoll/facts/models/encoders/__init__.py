"""Vision and audio towers: their weights, and the size of their largest item."""
