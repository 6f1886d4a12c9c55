"""Facts of models and GPUs, read from what others publish and judged without a single guess."""
