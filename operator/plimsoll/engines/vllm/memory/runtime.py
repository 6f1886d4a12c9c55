"""What a running engine takes beside weights, activations and cache: one door to graphs, CUDA and NCCL."""

from __future__ import annotations

from plimsoll.engines.vllm.memory.cuda_graphs import GraphMemory, captured_sizes, cuda_graphs_bytes
from plimsoll.engines.vllm.memory.non_torch import non_torch_bytes, outside_bytes

__all__ = ["GraphMemory", "captured_sizes", "cuda_graphs_bytes", "non_torch_bytes", "outside_bytes"]
