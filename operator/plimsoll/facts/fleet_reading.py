"""From node and pod objects to a fleet: labels read with suspicion, every left-out node with its reason.

Label rules: NVIDIA's GPU Feature Discovery and AMD's node labeller. The node's own memory label is trusted over the
catalogue, which gives what labels do not: what the engine sees of it, bandwidth, topology, price.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.domain.fleet import Fleet, GpuNode, IgnoredNode, Taint
from plimsoll.domain.gpus import GpuType, Price
from plimsoll.domain.reasons import NodeReason
from plimsoll.domain.units import MIB, parse_quantity
from plimsoll.facts.gpu_match import match_gpu, usable_bytes_from_label

Body = Mapping[str, Any]

NVIDIA_RESOURCE = "nvidia.com/gpu"
AMD_RESOURCE = "amd.com/gpu"
RESOURCES = (NVIDIA_RESOURCE, AMD_RESOURCE)

_NVIDIA_PRODUCT = "nvidia.com/gpu.product"
_AMD_PRODUCT = "amd.com/gpu.product-name"
_AMD_DEVICE = "amd.com/gpu.device-id"

_ENDED = ("Succeeded", "Failed")
"""Pod phases that hold nothing any more."""


@dataclass(frozen=True, slots=True)
class _Card:
    """What a node's labels say about its GPUs."""

    resource: str
    selector: tuple[str, str]
    memory_mib: int | None
    compute_capability: tuple[int, int] | None


def read_fleet(
    nodes: Iterable[Body],
    pods: Iterable[Body],
    types: Sequence[GpuType],
    prices: Mapping[str, Price] | None = None,
) -> Fleet:
    """The fleet at one moment.

    Args:
        nodes: Node objects.
        pods: every Pod object that may hold GPUs, whoever owns it.
        types: the GPU catalogue.
        prices: prices by type name that replace the catalogue's.
    """
    held = _held_by_node(pods)
    priced = [_repriced(gpu, prices or {}) for gpu in types]
    usable: list[GpuNode] = []
    ignored: list[IgnoredNode] = []
    for node in nodes:
        seen = _read_node(node, priced, held)
        if isinstance(seen, GpuNode):
            usable.append(seen)
        elif seen is not None:
            ignored.append(seen)
    return Fleet(tuple(sorted(usable, key=lambda node: node.name)), tuple(sorted(ignored, key=lambda node: node.name)))


def gpus_held(pod: Body, resource: str) -> int:
    """GPUs of one resource that a pod holds: the larger of its containers' sum and any init container."""
    spec = pod.get("spec") or {}
    running = sum(_requested(container, resource) for container in spec.get("containers") or ())
    starting = max((_requested(container, resource) for container in spec.get("initContainers") or ()), default=0)
    return max(running, starting)


def holds_gpus(pod: Body) -> bool:
    """Whether a pod asks for any GPU we know of."""
    return any(gpus_held(pod, resource) for resource in RESOURCES)


def _requested(container: Body, resource: str) -> int:
    resources = container.get("resources") or {}
    asked = (resources.get("requests") or {}).get(resource) or (resources.get("limits") or {}).get(resource) or 0
    return _count(asked)


def _count(quantity: Any) -> int:
    try:
        return max(0, int(parse_quantity(str(quantity))))
    except ValueError:
        return 0


def _held_by_node(pods: Iterable[Body]) -> dict[tuple[str, str], int]:
    held: dict[tuple[str, str], int] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        for resource in RESOURCES:
            held[node, resource] = held.get((node, resource), 0) + gpus_held(pod, resource)
    return held


def _repriced(gpu: GpuType, prices: Mapping[str, Price]) -> GpuType:
    return replace(gpu, price=prices[gpu.name]) if gpu.name in prices else gpu


def _read_node(
    node: Body, types: Sequence[GpuType], held: Mapping[tuple[str, str], int]
) -> GpuNode | IgnoredNode | None:
    """A usable node, a node left out with its reason, or None where there is no sign of a GPU."""
    name = str((node.get("metadata") or {}).get("name"))
    labels: dict[str, str] = (node.get("metadata") or {}).get("labels") or {}
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    card = _card(labels)
    if card is None:
        return _unlabelled(name, labels, allocatable)
    odd = _odd_labels(labels, card, _count(allocatable.get(card.resource, 0)), allocatable)
    if odd is not None:
        return IgnoredNode(name, *odd)
    gpu = match_gpu(_product(labels, card), card.memory_mib, card.compute_capability, types)
    if gpu is None:
        detail = f"{card.selector[1]} with {card.memory_mib} MiB is not in the GPU catalogue"
        return IgnoredNode(name, NodeReason.UNKNOWN_GPU, detail)
    away = _out_of_service(node)
    if away is not None:
        return IgnoredNode(name, *away)
    if card.memory_mib is not None and card.resource == NVIDIA_RESOURCE:
        gpu = replace(
            gpu, usable_bytes=usable_bytes_from_label(gpu, card.memory_mib), total_bytes=card.memory_mib * MIB
        )
    return GpuNode(
        name=name,
        gpu=gpu,
        resource=card.resource,
        selector=card.selector,
        allocatable=_count(allocatable[card.resource]),
        held=held.get((name, card.resource), 0),
        labels=tuple(sorted(labels.items())),
        taints=_taints(node),
    )


def _card(labels: Mapping[str, str]) -> _Card | None:
    if labels.get(_NVIDIA_PRODUCT):
        return _Card(
            NVIDIA_RESOURCE,
            (_NVIDIA_PRODUCT, labels[_NVIDIA_PRODUCT]),
            _memory_mib(labels.get("nvidia.com/gpu.memory")),
            _capability(labels),
        )
    for key in (_AMD_PRODUCT, _AMD_DEVICE):
        if labels.get(key):
            return _Card(AMD_RESOURCE, (key, labels[key]), _vram_mib(labels.get("amd.com/gpu.vram")), None)
    return None


def _product(labels: Mapping[str, str], card: _Card) -> str:
    """AMD's device id is the robust key, the product name depends on the driver; NVIDIA has one label."""
    return labels.get(_AMD_DEVICE) or card.selector[1]


def _memory_mib(text: str | None) -> int | None:
    """GFD writes plain MiB; people who label by hand write 80GB or 81920MiB."""
    match = re.fullmatch(r"(\d+)\s*(MiB|Mi|GiB|Gi|GB|G)?", (text or "").strip())
    if match is None or int(match[1]) == 0:
        return None
    return int(match[1]) * (1024 if (match[2] or "").startswith("G") else 1)


def _vram_mib(text: str | None) -> int | None:
    """AMD's labeller rounds to whole GiB: ``192G``."""
    return _memory_mib(text)


def _capability(labels: Mapping[str, str]) -> tuple[int, int] | None:
    major, minor = labels.get("nvidia.com/gpu.compute.major", ""), labels.get("nvidia.com/gpu.compute.minor", "")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _unlabelled(name: str, labels: Mapping[str, str], allocatable: Body) -> IgnoredNode | None:
    """GPUs without a product label: somebody forgot GPU Feature Discovery, and should hear of it."""
    present = [resource for resource in RESOURCES if _count(allocatable.get(resource, 0))]
    if not present and labels.get("nvidia.com/gpu.present") != "true":
        return None
    if AMD_RESOURCE in present:
        missing = f"no {_AMD_PRODUCT} or {_AMD_DEVICE} label: run AMD's node labeller"
    else:
        missing = f"no {_NVIDIA_PRODUCT} label: run GPU Feature Discovery"
    return IgnoredNode(name, NodeReason.NO_PRODUCT_LABEL, f"has {', '.join(present) or 'GPUs'} but {missing}")


def _odd_labels(labels: Mapping[str, str], card: _Card, count: int, allocatable: Body) -> tuple[NodeReason, str] | None:
    """Traps in what the labels say: slices, shared GPUs, mixed GPUs, none at all."""
    product = card.selector[1]
    slices = [resource for resource in allocatable if resource.startswith("nvidia.com/mig-")]
    if "-MIG-" in product or (slices and any(_count(allocatable[resource]) for resource in slices)):
        return NodeReason.MIG_SLICES, "MIG slices are not planned for yet"
    replicas = labels.get("nvidia.com/gpu.replicas", "1")
    if product.endswith("-SHARED") or (replicas.isdigit() and int(replicas) > 1):
        return NodeReason.SHARED_GPUS, f"GPUs are shared {replicas} ways without memory isolation"
    if count == 0:
        return NodeReason.NO_DEVICES, f"allocatable {card.resource} is 0"
    labelled = labels.get("nvidia.com/gpu.count", "")
    if labelled.isdigit() and count > int(labelled):
        return NodeReason.MIXED_GPUS, f"{count} GPUs allocatable, labels describe {labelled} of one kind"
    return None


def _out_of_service(node: Body) -> tuple[NodeReason, str] | None:
    if (node.get("spec") or {}).get("unschedulable"):
        return NodeReason.CORDONED, "spec.unschedulable is set"
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((condition for condition in conditions if condition.get("type") == "Ready"), None)
    if ready is not None and ready.get("status") != "True":
        return NodeReason.NOT_READY, str(ready.get("reason") or "not ready")
    return None


def _taints(node: Body) -> tuple[Taint, ...]:
    listed = (node.get("spec") or {}).get("taints") or ()
    return tuple(Taint(t.get("key", ""), t.get("value") or "", t.get("effect", "")) for t in listed)
