"""Memory outside the budget of PyTorch: CUDA, NCCL, and CUDA graphs."""
