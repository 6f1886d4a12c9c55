"""Read the GPU labels of a node, one result for each resource that pods can request, and find the catalogued GPU.

NVIDIA's device plugin shows slices in two ways. With strategy ``single`` they are ``nvidia.com/gpu`` and the product
label ends in ``-MIG-<profile>``. With ``mixed`` each profile is a separate resource (``nvidia.com/mig-3g.40gb``). Its
labels begin with the name of the resource, and the node also has the card's own labels.

The labels are those of NVIDIA's GPU feature discovery and AMD's node labeller, or an administrator wrote them by hand.
A wrong match places an engine on a GPU it does not fit, so ambiguous or contradictory labels match no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import KIB, MIB
from plimsoll.facts.cluster.cloud_labels import named_type

NVIDIA_RESOURCE = "nvidia.com/gpu"
AMD_RESOURCE = "amd.com/gpu"
MIG_RESOURCES = "nvidia.com/mig-"
"""The prefix of the resources of strategy ``mixed``."""

NVIDIA_PRODUCT = "nvidia.com/gpu.product"
AMD_PRODUCT = "amd.com/gpu.product-name"
AMD_DEVICE = "amd.com/gpu.device-id"

MEMORY_TOLERANCE = 0.07
"""Largest difference between a node's memory and its type's. Error correction, drivers and rounding change it by up to
6.7 %."""

_SPLIT = re.compile(r"[^A-Z0-9]+")
_MEMORY = re.compile(r"^(\d{1,4})GI?B?$")
_FORM = re.compile(r"^(SXM|PCIE|NVL)\d{0,2}$")
_STACK = re.compile(r"^HBM\d[A-Z]?$")
_NOISE = frozenset(
    {"NVIDIA", "TESLA", "GEFORCE", "AMD", "INSTINCT", "OAM", "GENERATION", "BLACKWELL", "EDITION", "CORE"}
)
_SHARED = re.compile(r"-SHARED$", re.IGNORECASE)
_SLICE = re.compile(r"^(?P<card>.+)-MIG-(?P<profile>\dg\.\d+gb)(?:[.+-](?:me(?:\.all)?|gfx))?$", re.IGNORECASE)
"""The label of a slice: the card's label, the profile, and a suffix for media or graphics engines. The suffix does not
change the memory."""

SLICE_TOLERANCE = 0.12
"""Largest difference between a slice's memory and the catalogue's. It may be wide because the profile already names the
slice. For cards whose slice sizes are not published, the catalogue has the smallest size that any card leaves: up to
8 % below what other cards leave."""


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
        """Whether these are slices of strategy ``mixed``, in which each profile is a separate resource."""
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
    # AMD's labeller rounds the memory to whole GiB: ``192G``.
    memory_mib = _memory_mib(labels.get("amd.com/gpu.vram"))
    return GpuLabels(AMD_RESOURCE, next(iter(named.items())), products, memory_mib, None)


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


def _capability(labels: Mapping[str, str]) -> tuple[int, int] | None:
    major, minor = labels.get("nvidia.com/gpu.compute.major", ""), labels.get("nvidia.com/gpu.compute.minor", "")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def match_gpu(
    product_label: str,
    memory_mib: int | None,
    compute_capability: tuple[int, int] | None,
    types: Sequence[GpuType],
) -> GpuType | None:
    """Find the one type that the labels describe.

    An exact name, product label or device id comes first, then the same words in another order, then the same chip in
    the same form with the same memory. Memory and compute capability must always agree, if the node states them.
    The label of a MIG slice is its card's label and the profile; its memory label is the memory of the slice.

    Args:
        product_label: ``nvidia.com/gpu.product``, ``amd.com/gpu.product-name`` or ``amd.com/gpu.device-id``.
        memory_mib: the memory of one GPU in MiB, if the node states it.
        compute_capability: the CUDA compute capability, if the node states it.
        types: the catalogue.

    Returns:
        The type; None for an unknown, ambiguous or contradictory description. None for shared GPUs too, because one
        share does not have the memory of the whole card.
    """
    if _SHARED.search(product_label):
        return None
    sliced = _SLICE.match(product_label)
    if sliced is not None:
        return _match_slice(sliced["card"], sliced["profile"].lower(), memory_mib, compute_capability, types)
    agreeing = [gpu for gpu in types if not gpu.is_slice and _agrees(gpu, memory_mib, compute_capability)]
    wanted = _Words.of(product_label)
    for matches in (_labelled, _worded, _described):
        found = [gpu for gpu in agreeing if matches(gpu, product_label, wanted)]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def same_chip(label: str, types: Sequence[GpuType]) -> tuple[GpuType, ...]:
    """Return the whole GPUs whose chip a label names, whatever it says of form and memory. They are suggestions only.

    A label with more words than the chip (``RTX 4090 Laptop``) names it too, and so does one with fewer (``RTX PRO``).
    """
    chip = _Words.of(label).chip
    return tuple(gpu for gpu in types if chip and not gpu.is_slice and any(_overlap(chip, own) for own in _chips(gpu)))


def of_this_name(label: str, types: Sequence[GpuType]) -> tuple[GpuType, ...]:
    """Return the whole GPUs that a name may mean: of exactly this chip, in the form and the size that it states.

    People leave form and size out (``A100``), and drivers name some cards of two sizes alike (``RTX 3080``).
    """
    wanted = _Words.of(label)
    return tuple(gpu for gpu in types if not gpu.is_slice and _may_be_called(gpu, wanted))


def states_size(label: str) -> bool:
    """Whether a name states the gigabytes of the card."""
    return _Words.of(label).gigabytes is not None


def _may_be_called(gpu: GpuType, wanted: _Words) -> bool:
    own = _Words.of(gpu.name)
    if not wanted.chip or wanted.chip not in (own.chip, *_chips(gpu)):
        return False
    if wanted.gigabytes is not None and not _is_near(wanted.gigabytes * KIB, gpu):
        return False
    return wanted.form in (None, own.form)


def _chips(gpu: GpuType) -> list[frozenset[str]]:
    return [_Words.of(label).chip for label in gpu.product_labels]


def _overlap(chip: frozenset[str], own: frozenset[str]) -> bool:
    """Whether one of two sets of words, neither of them empty, is part of the other."""
    return bool(own) and (own <= chip or chip <= own)


def _match_slice(
    card_label: str,
    profile: str,
    memory_mib: int | None,
    compute_capability: tuple[int, int] | None,
    types: Sequence[GpuType],
) -> GpuType | None:
    card = match_gpu(card_label, None, compute_capability, types)
    slices = (gpu for gpu in types if gpu.mig and card and (gpu.mig.card, gpu.mig.profile) == (card.name, profile))
    found = next(slices, None)
    if found is None or memory_mib is None or _is_near(memory_mib, found, SLICE_TOLERANCE):
        return found
    return None


def usable_bytes_from_label(gpu: GpuType, memory_mib: int) -> int:
    """Return the memory that the framework can use on a node that states its own memory.

    The node's figure replaces the catalogue's total, because error correction and drivers change the total. The part
    that the framework cannot use does not change from node to node, so it comes from the catalogue.

    Args:
        gpu: the type of the node's GPUs.
        memory_mib: the node's ``nvidia.com/gpu.memory``, or its AMD counterpart in MiB.

    Raises:
        InvalidInput: the figure leaves no usable memory, or is not above 0.
    """
    usable = memory_mib * MIB - (gpu.total_bytes - gpu.usable_bytes)
    if memory_mib <= 0 or usable <= 0:
        raise InvalidInput("nvidia.com/gpu.memory", memory_mib, f"Label the node with the MiB of one {gpu.name}.")
    return usable


def _agrees(gpu: GpuType, memory_mib: int | None, compute_capability: tuple[int, int] | None) -> bool:
    if memory_mib is not None and not _is_near(memory_mib, gpu):
        return False
    return None in (compute_capability, gpu.compute_capability) or compute_capability == gpu.compute_capability


def _is_near(memory_mib: int, gpu: GpuType, tolerance: float = MEMORY_TOLERANCE) -> bool:
    total_mib = gpu.total_bytes / MIB
    return abs(memory_mib - total_mib) <= tolerance * total_mib


@dataclass(frozen=True, slots=True)
class _Words:
    """The parts of a label: the words of the chip, the form of the card, the gigabytes in the name, and all words."""

    chip: frozenset[str]
    form: str | None
    gigabytes: int | None
    everything: frozenset[str]

    @classmethod
    def of(cls, label: str) -> _Words:
        tokens = {token for token in _SPLIT.split(label.upper()) if token and token not in _NOISE}
        forms = {match[1] for token in tokens if (match := _FORM.match(token))}
        sizes = {int(match[1]) for token in tokens if (match := _MEMORY.match(token))}
        other = {t for t in tokens if not (_FORM.match(t) or _MEMORY.match(t) or _STACK.match(t))}
        return cls(
            chip=frozenset(other),
            form=forms.pop() if len(forms) == 1 else None,
            gigabytes=sizes.pop() if len(sizes) == 1 else None,
            everything=frozenset(tokens),
        )


def _labelled(gpu: GpuType, label: str, _wanted: _Words) -> bool:
    return label.casefold() in {known.casefold() for known in (gpu.name, *gpu.product_labels)}


def _worded(gpu: GpuType, _label: str, wanted: _Words) -> bool:
    """Whether the label has the same words, in any order, with or without the vendor's name."""
    return any(_Words.of(known).everything == wanted.everything for known in gpu.product_labels)


def _described(gpu: GpuType, _label: str, wanted: _Words) -> bool:
    """Whether the label names the same chip, and the same form and gigabytes if it names them."""
    if wanted.gigabytes is not None and not _is_near(wanted.gigabytes * KIB, gpu):
        return False
    own_form = _Words.of(gpu.name).form
    return any(
        words.chip == wanted.chip and wanted.form in (None, words.form or own_form)
        for words in map(_Words.of, gpu.product_labels)
        if words.chip
    )
