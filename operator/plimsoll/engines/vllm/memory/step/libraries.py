"""The memory that PyTorch's kernels keep by GPU: the workspace of matrix products, and rows for each multiprocessor."""

from __future__ import annotations

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.units import KIB, MIB

_WORKSPACE_BYTES = 2 * 4096 * KIB + 8 * 16 * KIB
_LARGE_WORKSPACE_BYTES = 32 * MIB
_LARGE_SINCE = 9
_INSTINCT = ("gfx94", "gfx95")

_MULTIPROCESSORS = {
    (7, 0): 80,
    (7, 5): 72,
    (8, 0): 108,
    (8, 6): 84,
    (8, 7): 16,
    (8, 9): 142,
    (9, 0): 132,
    (10, 0): 148,
    (10, 3): 160,
    (12, 0): 188,
    (12, 1): 48,
}
"""The most multiprocessors of any GPU of a compute capability: the maker's white papers of the architectures."""

_INSTINCT_UNITS, _GRAPHICS_UNITS = 304, 96
_UNKNOWN_GPU = 132


def workspace_bytes(gpu: GpuType | None) -> int:
    """Return the workspace that the first matrix product allocates and that stays allocated.

    An unknown GPU counts as Hopper. Source: PyTorch ``aten/src/ATen/cuda/CublasHandlePool.cpp``,
    ``parseChosenWorkspaceSize``: ``:4096:2:16:8`` (in KiB) up to Ada, 32 MiB on Hopper. Blackwell has 32 MiB in newer
    releases of PyTorch and the smaller one in older; this counts the larger. It is 0 on AMD's GPUs: the same function
    says 32 and 128 MiB, but Qwen3 with 1,024 sequences logged 5.59 GiB on MI300X, and 5.58 are computed without it.
    What a library keeps there is among the weights (``allocator.py``).
    """
    if gpu is None:
        return _LARGE_WORKSPACE_BYTES
    if gpu.vendor is Vendor.AMD:
        return 0
    capability = gpu.compute_capability
    is_large = capability is None or capability[0] >= _LARGE_SINCE
    return _LARGE_WORKSPACE_BYTES if is_large else _WORKSPACE_BYTES


def multiprocessors(gpu: GpuType | None) -> int:
    """Return an upper bound of the multiprocessors (compute units on AMD's GPUs); an unknown GPU counts as an H100.

    The catalogue does not have the number. The bound is 5 % too high for an RTX 3090 or an A10G, 10 % for an RTX 4090
    or 5090, and more than twice too high for an L4, which costs 0.05 GiB with 152,000 tokens of vocabulary.
    """
    if gpu is None:
        return _UNKNOWN_GPU
    if gpu.vendor is Vendor.AMD:
        return _INSTINCT_UNITS if (gpu.gfx or "").startswith(_INSTINCT) else _GRAPHICS_UNITS
    return _MULTIPROCESSORS.get(gpu.compute_capability or (0, 0), max(_MULTIPROCESSORS.values()))
