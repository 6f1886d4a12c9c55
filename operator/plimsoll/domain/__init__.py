"""The domain values: frozen values that every other layer uses. No I/O, no clock, no pydantic, no Kubernetes."""
