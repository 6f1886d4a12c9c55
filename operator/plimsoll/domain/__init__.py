"""The vocabulary: frozen values that every other layer speaks. No I/O, no clock, no pydantic, no Kubernetes."""
