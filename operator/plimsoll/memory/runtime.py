"""What CUDA, NCCL and graph capture take on one rank, inside and outside the engine's budget."""

from __future__ import annotations

from plimsoll.domain.gpus import GpuType, Interconnect
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.units import GIB

MAX_CAPTURE = 512
"""Largest batch that vLLM captures by default (``config/vllm.py``; 1,024 on compute capability 10)."""

_FULL_SET = 51
"""Captured sizes with the largest set: 1, 2, 4, then 8 to 255 in steps of 8, then 256 to 512 in steps of 16."""

_NON_TORCH = {Interconnect.NVLINK: 2.2, Interconnect.XGMI: 2.2, Interconnect.PCIE: 1.0}
"""GiB of NCCL and all-reduce buffers at TP > 1: 2.06 to 2.21 on H100 with NVLink, 0.2 to 1.7 over PCIe (logs)."""


def cuda_graphs_bytes(model: ModelFacts, *, sequences: int, batched_tokens: int) -> int:
    """CUDA graphs of one rank: a base and a part per layer, by how many batch sizes are captured.

    Fitted to the estimates in 36 starts of vLLM 0.19.0 on H100 (0.7 to 1.9 GiB at 512); with 8 sequences one log shows
    0.24 GiB where the default took 2.25.
    """
    share = captured_sizes(min(2 * sequences, MAX_CAPTURE, batched_tokens)) / _FULL_SET
    moe = 0.5 if model.experts else 0.0
    return int((0.2 + share * (0.15 + 0.018 * model.layers + moe)) * GIB)


def captured_sizes(largest: int) -> int:
    """How many batch sizes are captured up to ``largest`` (vLLM: ``[1, 2, 4] + 8..255 step 8 + 256.. step 16``)."""
    small = sum(1 for size in (1, 2, 4) if size <= largest)
    medium = len(range(8, min(largest, 255) + 1, 8))
    large = len(range(256, largest + 1, 16))
    return small + medium + large


def overhead_bytes(gpu: GpuType, split: Split) -> int:
    """Allocated outside PyTorch after the engine's first snapshot, so inside its budget.

    0.24 to 0.46 GiB on one GPU (vLLM 0.19.0, H100); see ``_NON_TORCH`` for more.
    """
    gib = 0.46 if split.gpus == 1 else _NON_TORCH[gpu.interconnect]
    return int(gib * GIB)


def outside_bytes(split: Split) -> int:
    """CUDA context and NCCL set-up before the snapshot: beside the budget, in what utilization leaves.

    0.51 GiB on one GPU, 1.43 to 1.99 GiB with tensor parallelism (vLLM 0.19.0, H100).
    """
    return int((0.6 if split.gpus == 1 else 2.0) * GIB)
