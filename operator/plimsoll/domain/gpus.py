"""GPU types: facts of the hardware, independent of any node."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from plimsoll.domain.speed import GpuSpeed


class Vendor(StrEnum):
    """Who makes the GPU; decides the engine image and which dtypes are gated how."""

    NVIDIA = "nvidia"
    AMD = "amd"


class Interconnect(StrEnum):
    """The link between the GPUs of one node. The communication buffers outside PyTorch depend on it."""

    NVLINK = "nvlink"
    XGMI = "xgmi"
    PCIE = "pcie"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for one GPU and hour, and where the figure is from."""

    usd_per_hour: Decimal
    source: str


@dataclass(frozen=True, slots=True)
class MigSlice:
    """A slice of a partitioned GPU.

    ``card`` names the whole GPU's type. ``profile`` is NVIDIA's profile (``3g.40gb``). ``share`` is the part of the
    card that no other pod can use: the larger of its compute slices and its memory slices.
    """

    card: str
    profile: str
    share: Fraction

    def price(self, card: Price) -> Price:
        """Return the slice's share of the card's price, to a hundredth of a cent."""
        usd = (card.usd_per_hour * self.share.numerator / self.share.denominator).quantize(Decimal("0.0001"))
        return Price(usd, f"{card.source}, {self.share} of {self.card}")


@dataclass(frozen=True, slots=True)
class GpuType:
    """One kind of GPU, as the engine sees it.

    ``usable_bytes`` is the total that the framework reports and that ``--gpu-memory-utilization`` multiplies. It is
    less than the figure of the label and the marketing figure. ``compute_capability`` is CUDA's ``(major, minor)``;
    AMD GPUs have their ``gfx`` target instead. ``scale_up_gpus`` is how many GPUs reach each other without the network.
    ``unified_memory`` means that the GPU shares the host's memory (GB10, Jetson). The engine then reads the free memory
    from the operating system, and memory that other processes take during its start counts as its own.
    ``host_bandwidth_gb_per_second`` is the bandwidth of copies from the host in one direction. ``mig`` is None for a
    whole GPU. A slice is a separate type, and two slices cannot serve one engine, because NCCL does not join them.
    ``speed`` is None where nothing is known of it; the bandwidths are always known.
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
    host_bandwidth_gb_per_second: int = 25
    price: Price | None = None
    unified_memory: bool = False
    mig: MigSlice | None = None
    speed: GpuSpeed | None = None

    @property
    def is_slice(self) -> bool:
        """Whether this is a slice of a GPU and no whole one."""
        return self.mig is not None
