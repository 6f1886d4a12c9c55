"""GPU types: facts of the silicon, before any node is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class Vendor(StrEnum):
    """Who makes the GPU; decides the engine image and which dtypes are gated how."""

    NVIDIA = "nvidia"
    AMD = "amd"


class Interconnect(StrEnum):
    """What joins the GPUs of one node; decides the communication buffers outside PyTorch."""

    NVLINK = "nvlink"
    XGMI = "xgmi"
    PCIE = "pcie"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for one GPU and hour, and where the figure is from."""

    usd_per_hour: Decimal
    source: str


@dataclass(frozen=True, slots=True)
class GpuType:
    """One kind of GPU, as the engine sees it.

    ``usable_bytes`` is the total the framework reports (what ``--gpu-memory-utilization`` multiplies), less than the
    label's and than the marketing figure. ``compute_capability`` is CUDA's ``(major, minor)``; AMD parts carry their
    ``gfx`` target instead. ``scale_up_gpus`` is how many GPUs reach each other without the network.
    """

    name: str
    vendor: Vendor
    product_labels: tuple[str, ...]
    usable_bytes: int
    total_bytes: int
    compute_capability: tuple[int, int] | None
    gfx: str | None
    interconnect: Interconnect
    scale_up_gpus: int
    memory_bandwidth_gb_per_second: int
    price: Price | None = None
