"""What the labels of a node say about its GPUs, one answer for each resource that pods can ask for.

NVIDIA's device plugin shows slices in two ways. With strategy ``single`` they are ``nvidia.com/gpu`` and the product
label ends in ``-MIG-<profile>``; with ``mixed`` each profile is a resource of its own (``nvidia.com/mig-3g.40gb``),
with labels that begin with its name, beside the card's own labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

NVIDIA_RESOURCE = "nvidia.com/gpu"
AMD_RESOURCE = "amd.com/gpu"
MIG_RESOURCES = "nvidia.com/mig-"
"""How the resources of strategy ``mixed`` begin."""

NVIDIA_PRODUCT = "nvidia.com/gpu.product"
AMD_PRODUCT = "amd.com/gpu.product-name"
AMD_DEVICE = "amd.com/gpu.device-id"


@dataclass(frozen=True, slots=True)
class GpuLabels:
    """What a node's labels say about its GPUs of one resource.

    ``products`` are names of the GPU, the most reliable first; ``selector`` is the label that pods select by.
    """

    resource: str
    selector: tuple[str, str]
    products: tuple[str, ...]
    memory_mib: int | None
    compute_capability: tuple[int, int] | None
    replicas: str = "1"

    @property
    def is_mixed_slice(self) -> bool:
        """Whether these are slices with a resource of their own."""
        return self.resource.startswith(MIG_RESOURCES)


def is_gpu_resource(name: str) -> bool:
    """Whether a resource name stands for GPUs or slices of them."""
    return name in (NVIDIA_RESOURCE, AMD_RESOURCE) or name.startswith(MIG_RESOURCES)


def main_labels(labels: Mapping[str, str]) -> GpuLabels | None:
    """The GPUs behind ``nvidia.com/gpu`` or ``amd.com/gpu``; None without a product label."""
    product = labels.get(NVIDIA_PRODUCT)
    if product:
        return GpuLabels(
            NVIDIA_RESOURCE,
            (NVIDIA_PRODUCT, product),
            (product,),
            _memory_mib(labels.get("nvidia.com/gpu.memory")),
            _capability(labels),
            labels.get("nvidia.com/gpu.replicas", "1"),
        )
    # AMD's device id is the robust key, the product name depends on the driver.
    named = {key: labels[key] for key in (AMD_PRODUCT, AMD_DEVICE) if labels.get(key)}
    if not named:
        return None
    products = tuple(named[key] for key in (AMD_DEVICE, AMD_PRODUCT) if key in named)
    return GpuLabels(AMD_RESOURCE, next(iter(named.items())), products, _vram_mib(labels), None)


def slice_labels(labels: Mapping[str, str], resource: str) -> GpuLabels | None:
    """The slices behind a resource of strategy ``mixed``; None where neither they nor their card have a product."""
    own, card = labels.get(f"{resource}.product"), labels.get(NVIDIA_PRODUCT)
    if not own and not card:
        return None
    product = own or f"{card}-MIG-{resource.removeprefix(MIG_RESOURCES)}"
    return GpuLabels(
        resource,
        (f"{resource}.product", own) if own else (NVIDIA_PRODUCT, card or ""),
        (product,),
        _memory_mib(labels.get(f"{resource}.memory")),
        _capability(labels),
        labels.get(f"{resource}.replicas", "1"),
    )


def _memory_mib(text: str | None) -> int | None:
    """GFD writes plain MiB; people who label by hand write 80GB or 81920MiB."""
    match = re.fullmatch(r"(\d+)\s*(MiB|Mi|GiB|Gi|GB|G)?", (text or "").strip())
    if match is None or int(match[1]) == 0:
        return None
    return int(match[1]) * (1024 if (match[2] or "").startswith("G") else 1)


def _vram_mib(labels: Mapping[str, str]) -> int | None:
    """AMD's labeller rounds to whole GiB: ``192G``."""
    return _memory_mib(labels.get("amd.com/gpu.vram"))


def _capability(labels: Mapping[str, str]) -> tuple[int, int] | None:
    major, minor = labels.get("nvidia.com/gpu.compute.major", ""), labels.get("nvidia.com/gpu.compute.minor", "")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
