"""The vLLM releases that serve a model: by its class and by its quantization method."""
