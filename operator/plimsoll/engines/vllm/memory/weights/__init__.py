"""The weights on the GPU: as they are loaded, laid out and allocated."""
