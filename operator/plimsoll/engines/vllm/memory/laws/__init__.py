"""What differs between releases of vLLM, and which of its code runs for a model on a GPU."""
