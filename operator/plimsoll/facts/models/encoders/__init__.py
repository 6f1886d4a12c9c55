"""Vision and audio towers: weights, and how large their largest item is."""
