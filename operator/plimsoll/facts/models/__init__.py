"""What a model is: its configuration and its checkpoint's headers, read into layers, weights and caches."""
