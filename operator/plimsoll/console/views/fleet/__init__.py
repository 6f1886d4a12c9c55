"""The GPUs of the cluster."""
