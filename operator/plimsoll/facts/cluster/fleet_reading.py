"""From node and pod objects to a fleet: labels read with suspicion, every left-out node with its reason.

Label rules: NVIDIA's GPU Feature Discovery and AMD's node labeller. The node's own memory label is trusted over the
catalogue, which gives what labels do not: what the engine sees of it, bandwidth, topology, price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from plimsoll.domain.fleet import Fleet, GpuNode, IgnoredNode, Taint
from plimsoll.domain.gpus import GpuType, Price
from plimsoll.domain.reasons import NodeReason
from plimsoll.domain.units import MIB, parse_quantity
from plimsoll.facts.cluster.gpu_labels import (
    AMD_DEVICE,
    AMD_PRODUCT,
    AMD_RESOURCE,
    MIG_RESOURCES,
    NVIDIA_PRODUCT,
    NVIDIA_RESOURCE,
    GpuLabels,
    is_gpu_resource,
    main_labels,
    slice_labels,
)
from plimsoll.facts.cluster.gpu_match import match_gpu, usable_bytes_from_label
from plimsoll.facts.cluster.host_reading import REQUESTS, host_room, is_bound, taken_by_node

Body = Mapping[str, Any]


_QUOTED_CHARACTERS = 200


def read_fleet(
    nodes: Iterable[Body],
    pods: Iterable[Body],
    types: Sequence[GpuType],
    prices: Mapping[str, Price] | None = None,
) -> Fleet:
    """The fleet at one moment.

    Args:
        nodes: Node objects.
        pods: every Pod object of the nodes, whoever owns it: those without GPUs take processors and memory.
        types: the GPU catalogue.
        prices: prices by type name that replace the catalogue's; a card's price is that of its slices too, in part.
    """
    pods = tuple(pods)
    held, taken = _held_by_node(pods), taken_by_node(pods)
    priced = [_repriced(gpu, prices or {}) for gpu in types]
    nodes = list(nodes)
    seen = [each for node in nodes for each in _read_whole(node, priced, held, taken)]
    hosted = [each for each in seen if isinstance(each, GpuNode)]
    usable, unreachable = _reached_one_way(hosted)
    ignored = [*(each for each in seen if isinstance(each, IgnoredNode)), *unreachable]
    return Fleet(
        tuple(sorted(usable, key=lambda node: (node.name, node.resource))),
        tuple(sorted(ignored, key=lambda node: (node.name, node.detail))),
    )


def gpus_held(pod: Body, resource: str) -> int:
    """GPUs of one resource that a pod holds: the larger of its containers' sum and any init container."""
    spec = pod.get("spec") or {}
    running = sum(_requested(container, resource) for container in spec.get("containers") or ())
    starting = max((_requested(container, resource) for container in spec.get("initContainers") or ()), default=0)
    return max(running, starting)


def holds_gpus(pod: Body) -> bool:
    """Whether a pod asks for any GPU or slice we know of."""
    return any(gpus_held(pod, resource) for resource in _gpu_resources(pod))


def _gpu_resources(pod: Body) -> set[str]:
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    sections = ((container.get("resources") or {}).get(key) or {} for container in containers for key in _SECTIONS)
    return {name for section in sections for name in section if is_gpu_resource(name)}


_SECTIONS = ("requests", "limits")


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
        if REQUESTS in pod or not is_bound(pod):
            continue  # cut down to its requests: it holds no GPU
        node = pod["spec"]["nodeName"]
        for resource in _gpu_resources(pod):
            held[node, resource] = held.get((node, resource), 0) + gpus_held(pod, resource)
    return held


def _read_whole(
    node: Body,
    types: Sequence[GpuType],
    held: Mapping[tuple[str, str], int],
    taken: Mapping[str, tuple[int, int, int]],
) -> list[GpuNode | IgnoredNode]:
    """The GPUs of a node with what it offers besides them; a node that cannot be read is left out and named."""
    name = _name(node)
    try:
        host = host_room((node.get("status") or {}).get("allocatable") or {})
        free = host.less(*taken.get(name, (0, 0, 0)))
        parts = list(_read_node(node, types, held))
        return [replace(each, host=host, host_free=free) if isinstance(each, GpuNode) else each for each in parts]
    except Exception as error:  # noqa: BLE001 - one odd node must not cost the others their fleet
        return [IgnoredNode(name, NodeReason.UNREADABLE, f"{type(error).__name__}: {error}"[:_QUOTED_CHARACTERS])]


def _name(node: Body) -> str:
    return str((node.get("metadata") or {}).get("name"))


def _repriced(gpu: GpuType, prices: Mapping[str, Price]) -> GpuType:
    if gpu.name in prices:
        return replace(gpu, price=prices[gpu.name])
    if gpu.mig is not None and gpu.mig.card in prices:
        return replace(gpu, price=gpu.mig.price(prices[gpu.mig.card]))
    return gpu


def _reached_one_way(nodes: Sequence[GpuNode]) -> tuple[list[GpuNode], list[IgnoredNode]]:
    """A pool's pods ask for one resource, so of slices that two strategies offer the larger lot counts."""
    lots: dict[str, Counter[str]] = {}
    for node in nodes:
        if node.gpu.is_slice:
            lots.setdefault(node.gpu.name, Counter())[node.resource] += node.allocatable
    chosen = {name: max(sorted(lot), key=lot.__getitem__) for name, lot in lots.items()}
    kept, left = [], []
    for node in nodes:
        resource = chosen.get(node.gpu.name, node.resource)
        if node.resource == resource:
            kept.append(node)
        else:
            detail = f"{node.gpu.name} is {node.resource} here and {resource} on most nodes: use one strategy"
            left.append(IgnoredNode(node.name, NodeReason.MIG_SLICES, detail))
    return kept, left


def _read_node(
    node: Body, types: Sequence[GpuType], held: Mapping[tuple[str, str], int]
) -> Iterator[GpuNode | IgnoredNode]:
    """The usable GPUs of a node by resource, or why they are left out; nothing where there is no sign of a GPU."""
    name = _name(node)
    labels: dict[str, str] = (node.get("metadata") or {}).get("labels") or {}
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    sliced = sorted(key for key in allocatable if key.startswith(MIG_RESOURCES) and _count(allocatable[key]))
    main = main_labels(labels)
    if main is None:
        yield from _unlabelled(name, labels, allocatable)
    elif not sliced or _count(allocatable.get(main.resource, 0)):
        yield _read_part(node, main, types, held)
    for resource in sliced:
        told = slice_labels(labels, resource)
        if told is None:
            yield IgnoredNode(name, NodeReason.NO_PRODUCT_LABEL, f"has {resource} but no label {resource}.product")
        else:
            yield _read_part(node, told, types, held)


def _read_part(
    node: Body, told: GpuLabels, types: Sequence[GpuType], held: Mapping[tuple[str, str], int]
) -> GpuNode | IgnoredNode:
    """The GPUs of one resource of a node."""
    name = _name(node)
    labels: dict[str, str] = (node.get("metadata") or {}).get("labels") or {}
    count = _count(((node.get("status") or {}).get("allocatable") or {}).get(told.resource, 0))
    odd = _odd_labels(labels, told, count)
    if odd is not None:
        return IgnoredNode(name, *odd)
    matches = (match_gpu(product, told.memory_mib, told.compute_capability, types) for product in told.products)
    gpu = next((match for match in matches if match is not None), None)
    if gpu is None:
        sliced = "-MIG-" in told.products[0]
        detail = f"{told.selector[1]} with {told.memory_mib} MiB is not in the GPU catalogue"
        return IgnoredNode(name, NodeReason.MIG_SLICES if sliced else NodeReason.UNKNOWN_GPU, detail)
    away = _out_of_service(node)
    if away is not None:
        return IgnoredNode(name, *away)
    if told.memory_mib is not None and told.resource != AMD_RESOURCE:
        gpu = replace(
            gpu, usable_bytes=usable_bytes_from_label(gpu, told.memory_mib), total_bytes=told.memory_mib * MIB
        )
    return GpuNode(
        name=name,
        gpu=gpu,
        resource=told.resource,
        selector=told.selector,
        allocatable=count,
        held=held.get((name, told.resource), 0),
        labels=tuple(sorted(labels.items())),
        taints=_taints(node),
    )


def _unlabelled(name: str, labels: Mapping[str, str], allocatable: Body) -> Iterator[IgnoredNode]:
    """GPUs without a product label: somebody forgot GPU Feature Discovery, and should hear of it."""
    present = [resource for resource in (NVIDIA_RESOURCE, AMD_RESOURCE) if _count(allocatable.get(resource, 0))]
    if not present and labels.get("nvidia.com/gpu.present") != "true":
        return
    if AMD_RESOURCE in present:
        missing = f"no {AMD_PRODUCT} or {AMD_DEVICE} label: run AMD's node labeller"
    else:
        missing = f"no {NVIDIA_PRODUCT} label: run GPU Feature Discovery"
    yield IgnoredNode(name, NodeReason.NO_PRODUCT_LABEL, f"has {', '.join(present) or 'GPUs'} but {missing}")


def _odd_labels(labels: Mapping[str, str], told: GpuLabels, count: int) -> tuple[NodeReason, str] | None:
    """Traps in what the labels say: failed slices, shared GPUs, mixed GPUs, none at all."""
    product = told.products[0]
    if product.endswith("-MIG-INVALID"):
        return NodeReason.MIG_SLICES, "cutting its GPUs into MIG slices failed"
    if product.endswith("-SHARED") or (told.replicas.isdigit() and int(told.replicas) > 1):
        return NodeReason.SHARED_GPUS, f"GPUs are shared {told.replicas} ways without memory isolation"
    if count == 0:
        return NodeReason.NO_DEVICES, f"allocatable {told.resource} is 0"
    labelled = "" if told.is_mixed_slice else labels.get("nvidia.com/gpu.count", "")
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
