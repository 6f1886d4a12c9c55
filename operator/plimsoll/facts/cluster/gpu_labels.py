"""Read the GPU labels of a node: one result for each resource that pods can request.

NVIDIA's device plugin shows slices in two ways. With strategy ``single`` they are ``nvidia.com/gpu`` and the product
label ends in ``-MIG-<profile>``. With ``mixed`` each profile is a separate resource (``nvidia.com/mig-3g.40gb``). Its
labels begin with the name of the resource, and the node also has the card's own labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from plimsoll.facts.cluster.cloud_labels import named_type

NVIDIA_RESOURCE = "nvidia.com/gpu"
AMD_RESOURCE = "amd.com/gpu"
MIG_RESOURCES = "nvidia.com/mig-"
"""The prefix of the resources of strategy ``mixed``."""

NVIDIA_PRODUCT = "nvidia.com/gpu.product"
AMD_PRODUCT = "amd.com/gpu.product-name"
AMD_DEVICE = "amd.com/gpu.device-id"


@dataclass(frozen=True, slots=True)
class GpuLabels:
    """The GPUs of one resource of a node, as its labels describe them.

    ``products`` are names of the GPU, the most reliable first; ``selector`` is the label that pods use to select nodes.
    """

    resource: str
    selector: tuple[str, str]
    products: tuple[str, ...]
    memory_mib: int | None
    compute_capability: tuple[int, int] | None
    replicas: str = "1"

    @property
    def is_mixed_slice(self) -> bool:
        """Whether these are slices of strategy ``mixed``, where each profile is a separate resource."""
        return self.resource.startswith(MIG_RESOURCES)

    @property
    def is_slice(self) -> bool:
        """Whether these are slices of cards, of either strategy."""
        return self.is_mixed_slice or any("-MIG-" in product for product in self.products)

    @property
    def is_labelled(self) -> bool:
        """Whether NVIDIA's GPU Feature Discovery has named them."""
        return self.selector[0] == NVIDIA_PRODUCT


def is_gpu_resource(name: str) -> bool:
    """Whether a resource name means GPUs or slices of GPUs."""
    return name in (NVIDIA_RESOURCE, AMD_RESOURCE) or name.startswith(MIG_RESOURCES)


def main_labels(labels: Mapping[str, str]) -> GpuLabels | None:
    """Return the GPUs of ``nvidia.com/gpu`` or ``amd.com/gpu``; None without a product label."""
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
    # AMD's device id is reliable; the product name depends on the driver.
    named = {key: labels[key] for key in (AMD_PRODUCT, AMD_DEVICE) if labels.get(key)}
    if not named:
        return None
    products = tuple(named[key] for key in (AMD_DEVICE, AMD_PRODUCT) if key in named)
    return GpuLabels(AMD_RESOURCE, next(iter(named.items())), products, _vram_mib(labels), None)


def cloud_labels(labels: Mapping[str, str], resource: str) -> GpuLabels | None:
    """Return the GPUs of a resource as a cloud's label or the admin's own label names them; None without one.

    A node may have GPUs of a vendor whose labeller does not run.
    """
    found = named_type(labels)
    if found is None:
        return None
    label, gpu_type = found
    return GpuLabels(resource, label, (gpu_type,), None, _capability(labels))


def slice_labels(labels: Mapping[str, str], resource: str) -> GpuLabels | None:
    """Return the slices of a resource of strategy ``mixed``; None if neither slice nor card has a product label."""
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
    """Parse a memory label to MiB. GFD writes plain MiB; people who label by hand write 80GB or 81920MiB."""
    match = re.fullmatch(r"(\d+)\s*(MiB|Mi|GiB|Gi|GB|G)?", (text or "").strip())
    if match is None or int(match[1]) == 0:
        return None
    return int(match[1]) * (1024 if (match[2] or "").startswith("G") else 1)


def _vram_mib(labels: Mapping[str, str]) -> int | None:
    """Return the memory of an AMD GPU. AMD's labeller rounds it to whole GiB: ``192G``."""
    return _memory_mib(labels.get("amd.com/gpu.vram"))


def _capability(labels: Mapping[str, str]) -> tuple[int, int] | None:
    major, minor = labels.get("nvidia.com/gpu.compute.major", ""), labels.get("nvidia.com/gpu.compute.minor", "")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
