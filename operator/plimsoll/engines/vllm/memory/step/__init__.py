"""The memory of one step: forward pass, encoder, sampler, and the scratch of kernels."""
