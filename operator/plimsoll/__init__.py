"""Plimsoll: the load line for GPU memory.

A Kubernetes operator that computes the VRAM an LLM deployment needs, picks the GPU type and tensor-parallel degree that
fit it, runs the vLLM pods, and rebalances them on live KV-cache use.
"""

__version__ = "0.1.0"
