"""The class of hardware of a card: vendor and generation, as far as cards of a class behave alike."""

from __future__ import annotations

from benchmarks.accuracy.reading.gpus import UNNAMED
from plimsoll.domain.cluster.gpus import GpuType, Vendor

_OF_CAPABILITY = (
    ((12, 0), "NVIDIA Blackwell, graphics"),
    ((10, 0), "NVIDIA Blackwell, data centre"),
    ((9, 0), "NVIDIA Hopper"),
    ((8, 9), "NVIDIA Ada"),
    ((8, 0), "NVIDIA Ampere"),
    ((7, 5), "NVIDIA Turing"),
    ((7, 0), "NVIDIA Volta"),
)
"""The oldest compute capability of each generation (https://developer.nvidia.com/cuda-gpus)."""

_CDNA = ("gfx908", "gfx90a", "gfx94", "gfx95")


def hardware_of(gpu: GpuType | None) -> str:
    """Return the class; cards with the host's memory are one, and so are those of an unknown type."""
    if gpu is None:
        return "no card stated"
    if gpu.name.startswith(UNNAMED):
        return "card without a name"
    if gpu.unified_memory:
        return "unified memory"
    if gpu.vendor is Vendor.AMD:
        return "AMD CDNA" if (gpu.gfx or "").startswith(_CDNA) else "AMD RDNA"
    capability = gpu.compute_capability or (0, 0)
    return next((name for oldest, name in _OF_CAPABILITY if capability >= oldest), f"other {gpu.vendor.value}")
