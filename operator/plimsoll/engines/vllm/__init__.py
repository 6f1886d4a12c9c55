"""vLLM: its memory law by release, its settings, flags, metrics, error texts and images."""
