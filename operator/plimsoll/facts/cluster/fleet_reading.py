"""Make a fleet from node and pod objects. Check the labels, and give a reason for every ignored node.

The labels are those of NVIDIA's GPU Feature Discovery and AMD's node labeller. The memory label of a node replaces the
catalogue's figure. The catalogue adds the facts that no label has: usable memory, bandwidth, topology, price.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from plimsoll.domain.cluster.fleet import Fleet, GpuNode, IgnoredNode, Placeholders, Taint
from plimsoll.domain.cluster.gpus import CapacityType, GpuType
from plimsoll.domain.cluster.host import Amounts
from plimsoll.domain.cluster.node_rules import DRIVER_LABEL, OS_LABEL
from plimsoll.domain.cluster.spot import spot_type
from plimsoll.domain.public_words import NodeReason
from plimsoll.domain.units import MIB, from_rfc3339, parse_quantity
from plimsoll.facts.cluster.cloud_labels import GPU_TYPE_LABEL, capacity_type, part_of_card
from plimsoll.facts.cluster.gpu_count import (
    GFD_COUNT,
    GPU_COUNT_LABEL,
    most_uncounted,
    physical_gpus,
    sharing,
)
from plimsoll.facts.cluster.gpu_labels import (
    AMD_DEVICE,
    AMD_PRODUCT,
    AMD_RESOURCE,
    MIG_RESOURCES,
    NVIDIA_PRODUCT,
    NVIDIA_RESOURCE,
    GpuLabels,
    cloud_labels,
    is_gpu_resource,
    main_labels,
    match_gpu,
    slice_labels,
    usable_bytes_from_label,
)
from plimsoll.facts.cluster.host_reading import REQUESTS, host_room, is_bound, needed, taken_by_node
from plimsoll.facts.cluster.other_devices import SHARED_RESOURCE, claimed_by_node, left_to_dra, other_devices
from plimsoll.facts.cluster.priority_reading import placeholder_priority
from plimsoll.facts.cluster.taints import DISRUPTION_TAINTS
from plimsoll.facts.prices.repricing import OwnPrices, repriced

Body = Mapping[str, Any]
Parts = Sequence[GpuNode | IgnoredNode]
"""The GPUs of one node by resource, or why they are ignored."""

_QUOTED_CHARACTERS = 200


def read_fleet(
    nodes: Iterable[Body],
    pods: Iterable[Body],
    types: Sequence[GpuType],
    prices: OwnPrices | None = None,
    read: Callable[[Body, Sequence[GpuType]], Parts] | None = None,
    slices: Iterable[Body] = (),
    claims: Iterable[Body] = (),
    less: Callable[[GpuNode, NodeUse], GpuNode] | None = None,
) -> Fleet:
    """Return the fleet at one moment.

    Args:
        nodes: Node objects.
        pods: every Pod object of the nodes, with any owner: pods without GPUs also use CPU and memory.
        types: the GPU catalogue.
        prices: prices by type name, which replace the catalogue's. A slice costs its share of its card's price.
        read: :func:`read_node`, or what remembers its answers.
        slices: ResourceSlices: GPUs that only DRA publishes are named.
        claims: ResourceClaims: the GPUs that they hold are held, even if a device plugin offers them.
        less: :func:`without`, or what remembers its answers.
    """
    nodes, pods, slices, read, less = tuple(nodes), tuple(pods), tuple(slices), read or read_node, less or without
    use = _Use(_use_of(pods), _placeholders(pods), claimed_by_node(claims, slices))
    priced = [repriced(gpu, prices or {}) for gpu in types]
    parts = [each for node in nodes for each in read(node, priced)]
    seen = [less(each, use.of(each)) if isinstance(each, GpuNode) else each for each in parts]
    seen = left_to_dra(seen, {_name(node): _born(node) for node in nodes}, slices)
    hosted = [each for each in seen if isinstance(each, GpuNode)]
    usable, unreachable = _reached_one_way(hosted)
    ignored = [*(each for each in seen if isinstance(each, IgnoredNode)), *unreachable]
    return Fleet(
        tuple(sorted(usable, key=lambda node: (node.name, node.resource))),
        tuple(sorted(ignored, key=lambda node: (node.name, node.detail))),
    )


def read_node(node: Body, types: Sequence[GpuType]) -> Parts:
    """Return the GPUs of a node without pods, with its other resources. A node that cannot be read is ignored."""
    try:
        host = host_room((node.get("status") or {}).get("allocatable") or {})
        parts = list(_read_node(node, types))
        born = _born(node)
        return [
            replace(each, since=born, host=host, host_free=host)
            if isinstance(each, GpuNode)
            else replace(each, since=born)
            for each in parts
        ]
    except Exception as error:  # noqa: BLE001 - one bad node must not hide all other nodes
        detail = f"{type(error).__name__}: {error}"[:_QUOTED_CHARACTERS]
        return [IgnoredNode(_name(node), NodeReason.UNREADABLE, detail)]


class _Held(NamedTuple):
    """The GPUs that pods hold, by node and resource, and the rest by node."""

    gpus: Mapping[tuple[str, str], int]
    rest: Mapping[str, tuple[int, int, int, Amounts]]


class NodeUse(NamedTuple):
    """The share of one node that is held: GPUs, those that claims hold, the rest, and what only keeps a place.

    ``rest`` is CPU in thousandths, bytes, pods and others; None if no pod is there.
    """

    held: int
    claimed: int
    rest: tuple[int, int, int, Amounts] | None
    placeholders: tuple[Placeholders, ...]


class _Use(NamedTuple):
    """The holdings of all pods, those of pods that only keep a place, by their priority, and those of claims.

    Claims hold GPUs by node and resource.
    """

    pods: _Held
    placeholders: Mapping[int, _Held]
    claimed: Mapping[tuple[str, str], int]

    def of(self, part: GpuNode) -> NodeUse:
        """Return what is held of one node."""
        account, rest = (part.name, part.resource), self.pods.rest.get(part.name)
        claimed = self.claimed.get(account, 0)
        if rest is None:
            return NodeUse(claimed, claimed, None, ())
        giving_way = [
            Placeholders(priority, of.gpus.get(account, 0), *of.rest[part.name])
            for priority, of in self.placeholders.items()
            if part.name in of.rest
        ]
        return NodeUse(self.pods.gpus.get(account, 0) + claimed, claimed, rest, tuple(giving_way))


def _use_of(pods: Sequence[Body]) -> _Held:
    return _Held(_held_by_node(pods), taken_by_node(pods))


def _placeholders(pods: Iterable[Body]) -> Mapping[int, _Held]:
    found: dict[int, list[Body]] = {}
    stated = [pod for pod in pods if "priority" in (pod.get("spec") or ())]  # the store keeps no other pod's priority
    for pod in stated:
        priority = placeholder_priority(pod)
        if priority:
            found.setdefault(priority, []).append(pod)
    return {priority: _use_of(found[priority]) for priority in sorted(found)}


def without(part: GpuNode, use: NodeUse) -> GpuNode:
    """Return a part of a node without what pods and claims hold of it."""
    if use.rest is None and not use.claimed:
        return part
    free = part.host if use.rest is None else part.host.less(*use.rest)
    return replace(part, held=use.held, host_free=free, placeholders=use.placeholders, claimed=use.claimed)


def gpus_held(pod: Body, resource: str) -> int:
    """Return how many GPUs of one resource a pod holds, as the scheduler counts it."""
    return needed(pod.get("spec") or {}, resource, 1)


def holds_gpus(pod: Body) -> bool:
    """Whether a pod requests any GPU or slice that we know."""
    return any(gpus_held(pod, resource) for resource in held_resources(pod))


def held_resources(pod: Body) -> set[str]:
    """Return the resources of GPUs and slices that a pod asks for."""
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    sections = ((container.get("resources") or {}).get(key) or {} for container in containers for key in _SECTIONS)
    return {name for section in sections for name in section if is_gpu_resource(name)}


_SECTIONS = ("requests", "limits")


def _count(quantity: Any) -> int:
    try:
        return max(0, int(parse_quantity(str(quantity))))
    except ValueError:
        return 0


def _held_by_node(pods: Iterable[Body]) -> dict[tuple[str, str], int]:
    held: dict[tuple[str, str], int] = {}
    for pod in pods:
        if REQUESTS in pod or not is_bound(pod):
            continue  # only its summed requests are kept, so it holds no GPU
        node = pod["spec"]["nodeName"]
        for resource in held_resources(pod):
            held[node, resource] = held.get((node, resource), 0) + gpus_held(pod, resource)
    return held


def _born(node: Body) -> float | None:
    return from_rfc3339(str((node.get("metadata") or {}).get("creationTimestamp")))


def _name(node: Body) -> str:
    return str((node.get("metadata") or {}).get("name"))


def _reached_one_way(nodes: Sequence[GpuNode]) -> tuple[list[GpuNode], list[IgnoredNode]]:
    """Keep one resource for each type of slice: the one with more slices. The other nodes are ignored.

    The pods of a pool request one resource, but two MIG strategies offer the same slice as two resources.
    """
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
            left.append(IgnoredNode(node.name, NodeReason.MIG_SLICES, detail, node.allocatable))
    return kept, left


def _read_node(node: Body, types: Sequence[GpuType]) -> Iterator[GpuNode | IgnoredNode]:
    """Yield the usable GPUs of a node by resource, or why they are ignored; nothing for a node without devices."""
    name = _name(node)
    labels: dict[str, str] = (node.get("metadata") or {}).get("labels") or {}
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    sliced = _slices(node, labels)
    if labels.get(OS_LABEL, "linux") != "linux":
        yield from _other_system(name, labels[OS_LABEL], allocatable)
        return
    main = main_labels(labels) or _by_cloud(labels, allocatable)
    if main is None:
        yield from _unlabelled(name, labels, allocatable)
    elif not sliced or _count(allocatable.get(main.resource, 0)):
        yield _read_part(node, main, types)
    for resource in sliced:
        found = slice_labels(labels, resource)
        if found is None:
            detail = f"has {resource} but no label {resource}.product"
            yield IgnoredNode(name, NodeReason.NO_PRODUCT_LABEL, detail, _count(allocatable[resource]))
        else:
            yield _read_part(node, found, types)
    yield from _others(name, allocatable)


def _slices(node: Body, labels: Mapping[str, str]) -> list[str]:
    """Return the resources of a node's slices. Those that are all unhealthy count if a label still speaks of them.

    A node whose cards were cut anew keeps the capacity of its earlier slices for some minutes.
    """
    status = node.get("status") or {}
    known = {*(status.get("allocatable") or {}), *(status.get("capacity") or {})}
    counts = {name: _counts(node, name) for name in sorted(known) if name.startswith(MIG_RESOURCES)}
    return [name for name, (count, unhealthy) in counts.items() if count or (unhealthy and f"{name}.product" in labels)]


def _read_part(node: Body, found: GpuLabels, types: Sequence[GpuType]) -> GpuNode | IgnoredNode:
    name = _name(node)
    labels: dict[str, str] = (node.get("metadata") or {}).get("labels") or {}
    count, unhealthy = _counts(node, found.resource)
    annotations: dict[str, str] = (node.get("metadata") or {}).get("annotations") or {}
    odd = _odd_labels(labels, annotations, found, count)
    if odd is not None and odd[0] is NodeReason.NO_DEVICES and unhealthy:
        return _all_unhealthy(name, found.resource, unhealthy)
    if odd is not None:
        return IgnoredNode(name, *odd, gpus=count)
    matches = (match_gpu(product, found.memory_mib, found.compute_capability, types) for product in found.products)
    gpu = next((match for match in matches if match is not None), None)
    if gpu is None:
        sliced = "-MIG-" in found.products[0]
        memory = "" if found.memory_mib is None else f" with {found.memory_mib} MiB"
        detail = f"{found.selector[1]}{memory} is not in the GPU catalogue"
        return IgnoredNode(name, NodeReason.MIG_SLICES if sliced else NodeReason.UNKNOWN_GPU, detail, count)
    part = part_of_card(labels, gpu.total_bytes)
    if part:
        return IgnoredNode(name, NodeReason.SHARED_GPUS, f"has a part of one {gpu.name} ({part})", count)
    away = _uncounted(labels, annotations, found, count, gpu) or _out_of_service(node)
    if away is not None:
        return IgnoredNode(name, *away, gpus=count)
    if found.memory_mib is not None and found.resource != AMD_RESOURCE:
        gpu = replace(
            gpu, usable_bytes=usable_bytes_from_label(gpu, found.memory_mib), total_bytes=found.memory_mib * MIB
        )
    capacity = capacity_type(labels)
    return GpuNode(
        name=name,
        gpu=spot_type(gpu) if capacity is CapacityType.SPOT else gpu,
        resource=found.resource,
        selector=found.selector,
        allocatable=count,
        held=0,
        labels=tuple(sorted({**dict(gpu.own_labels), **labels}.items())),
        taints=_taints(node),
        capacity_type=capacity,
        unhealthy=unhealthy,
        driver=_driver(labels),
    )


def _driver(labels: Mapping[str, str]) -> int | None:
    """Return the branch of a node's NVIDIA driver; None if no label says it."""
    branch = labels.get(DRIVER_LABEL, "")
    return int(branch) if _BRANCH.fullmatch(branch) else None


_BRANCH = re.compile(r"[1-9][0-9]{2,3}", re.ASCII)


def _counts(node: Body, resource: str) -> tuple[int, int]:
    """Return how many GPUs a node offers, and how many more it has: its device plugin reports these as unhealthy.

    The kubelet counts healthy devices as allocatable, and all as capacity (``GetCapacity`` in
    ``pkg/kubelet/cm/devicemanager/manager.go``). Nothing is reserved of extended resources.
    """
    status = node.get("status") or {}
    offered = _count((status.get("allocatable") or {}).get(resource, 0))
    return offered, max(0, _count((status.get("capacity") or {}).get(resource, 0)) - offered)


def _all_unhealthy(name: str, resource: str, gpus: int) -> IgnoredNode:
    detail = f"allocatable {resource} is 0 of {gpus}: the device plugin reports all of them as unhealthy"
    return IgnoredNode(name, NodeReason.NO_DEVICES, detail, gpus)


def _by_cloud(labels: Mapping[str, str], allocatable: Body) -> GpuLabels | None:
    present = [resource for resource in (NVIDIA_RESOURCE, AMD_RESOURCE) if _count(allocatable.get(resource, 0))]
    return cloud_labels(labels, present[0]) if present else None


GPU_WORKLOAD = "nvidia.com/gpu.workload.config"
"""How the GPU operator gives a node's GPUs away: to containers, or whole or in parts to virtual machines
(https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-kubevirt.html)."""

_CONTAINERS = "container"


def _unlabelled(name: str, labels: Mapping[str, str], allocatable: Body) -> Iterator[IgnoredNode]:
    """Report GPUs without a product label: GPU Feature Discovery or AMD's node labeller does not run."""
    present = [resource for resource in (NVIDIA_RESOURCE, AMD_RESOURCE) if _count(allocatable.get(resource, 0))]
    if not present and labels.get("nvidia.com/gpu.present") != "true":
        return
    workload = labels.get(GPU_WORKLOAD, _CONTAINERS)
    if not present and workload != _CONTAINERS:
        yield IgnoredNode(
            name, NodeReason.NOT_SUPPORTED, f"{GPU_WORKLOAD}={workload}: its GPUs are for virtual machines"
        )
        return
    if AMD_RESOURCE in present:
        missing = f"no {AMD_PRODUCT} or {AMD_DEVICE} label: run AMD's node labeller, or label the node {GPU_TYPE_LABEL}"
    else:
        missing = f"no {NVIDIA_PRODUCT} label: run GPU Feature Discovery, or label the node {GPU_TYPE_LABEL}"
    missing += f" and {GPU_COUNT_LABEL} (its cards, not their shares)"
    gpus = sum(_count(allocatable[resource]) for resource in present)
    yield IgnoredNode(name, NodeReason.NO_PRODUCT_LABEL, f"has {', '.join(present) or 'GPUs'} but {missing}", gpus)


def _other_system(name: str, system: str, allocatable: Body) -> Iterator[IgnoredNode]:
    """Report GPUs of a node that runs no Linux: engines' images are for Linux."""
    gpus = sum(_count(allocatable[resource]) for resource in allocatable if is_gpu_resource(resource))
    if gpus:
        yield IgnoredNode(name, NodeReason.NOT_SUPPORTED, f"its system is {system}: engines run on Linux", gpus)


def _others(name: str, allocatable: Body) -> Iterator[IgnoredNode]:
    """Report the devices of a node that no engine is planned for: those of other vendors, and shares of GPUs."""
    for resource, kind in other_devices(allocatable):
        count = _count(allocatable[resource])
        if count:
            detail = f"has {count} {resource} ({kind}): engines are planned for NVIDIA and AMD GPUs"
            yield IgnoredNode(name, NodeReason.NOT_SUPPORTED, detail, count)
    shares = _count(allocatable.get(SHARED_RESOURCE, 0))
    if shares:
        yield IgnoredNode(
            name, NodeReason.SHARED_GPUS, f"has {shares} {SHARED_RESOURCE}: engines take whole GPUs", shares
        )


def _odd_labels(
    labels: Mapping[str, str], annotations: Mapping[str, str], found: GpuLabels, count: int
) -> tuple[NodeReason, str] | None:
    """Return why GPUs with these labels cannot be used: failed slices, shared GPUs, mixed GPUs, no GPUs at all."""
    product = found.products[0]
    if product.endswith("-MIG-INVALID"):
        return NodeReason.MIG_SLICES, "cutting its GPUs into MIG slices failed"
    if product.endswith("-SHARED") or (found.replicas.isdigit() and int(found.replicas) > 1):
        return NodeReason.SHARED_GPUS, f"GPUs are shared {found.replicas} ways without memory isolation"
    if found.is_mixed_slice:
        return None if count else (NodeReason.NO_DEVICES, f"allocatable {found.resource} is 0")
    shared = sharing(labels, sliced=found.is_slice)
    if shared:
        return NodeReason.SHARED_GPUS, f"GPUs are shared ({shared}): engines take whole GPUs"
    if count == 0:
        return NodeReason.NO_DEVICES, f"allocatable {found.resource} is 0"
    return _beyond_count(labels, annotations, found, count)


def _beyond_count(
    labels: Mapping[str, str], annotations: Mapping[str, str], found: GpuLabels, count: int
) -> tuple[NodeReason, str] | None:
    """Return why a node offers more GPUs than it has: they are shared, or are of several kinds."""
    physical = physical_gpus(labels, annotations, sliced=found.is_slice)
    if physical is None or count <= physical[0]:
        return None
    cards, source = physical
    if source == GFD_COUNT and found.is_labelled:  # its other labels say that nothing is shared
        return NodeReason.MIXED_GPUS, f"{count} GPUs allocatable, labels describe {cards} of one kind"
    return NodeReason.SHARED_GPUS, f"{count} {found.resource} allocatable, and {source} counts {cards}: GPUs are shared"


def _uncounted(
    labels: Mapping[str, str], annotations: Mapping[str, str], found: GpuLabels, count: int, gpu: GpuType
) -> tuple[NodeReason, str] | None:
    """Return why a node that offers many GPUs is left out if nothing counts its cards."""
    most = most_uncounted(gpu.name)
    if count <= most or gpu.is_slice or physical_gpus(labels, annotations, sliced=found.is_slice) is not None:
        return None
    seen = f"{count} {found.resource} allocatable, and no label counts the cards: GPUs seem to be shared"
    return NodeReason.SHARED_GPUS, f"{seen}. If it has as many {gpu.name}, label it {GPU_COUNT_LABEL}={count}"


def _out_of_service(node: Body) -> tuple[NodeReason, str] | None:
    head = node.get("metadata") or {}
    if (node.get("spec") or {}).get("unschedulable"):
        return NodeReason.CORDONED, "spec.unschedulable is set"
    if head.get("deletionTimestamp"):
        return NodeReason.LEAVING, "it is being deleted"
    goes = next((taint.key for taint in _taints(node) if taint.key in DISRUPTION_TAINTS), None)
    if goes is not None:
        return NodeReason.LEAVING, f"taint {goes}"
    conditions = {each.get("type"): each for each in (node.get("status") or {}).get("conditions") or ()}
    for kind in HEALTH_CONDITIONS:
        if kind in conditions and conditions[kind].get("status") != "True":
            why = str(conditions[kind].get("reason") or "not ready")
            return NodeReason.NOT_READY, why if kind == _READY else f"{kind} is not True: {why}"
    cutting = (head.get("labels") or {}).get(MIG_STATE)
    if cutting in _CUTTING:
        return NodeReason.NOT_READY, f"{MIG_STATE}={cutting}: its GPUs are being cut into MIG slices"
    return None


_READY = "Ready"

HEALTH_CONDITIONS = (_READY, "AcceleratedHardwareReady")
"""Conditions without which no engine is placed on a node. Pods that run there stay. The second one is of EKS' node
monitoring agent: its GPUs work (https://docs.aws.amazon.com/eks/latest/userguide/node-health.html)."""

MIG_STATE = "nvidia.com/mig.config.state"
_CUTTING = ("pending", "rebooting")
"""States in which NVIDIA's MIG manager cuts GPUs, and ends their pods before (https://github.com/NVIDIA/mig-parted)."""


def _taints(node: Body) -> tuple[Taint, ...]:
    listed = (node.get("spec") or {}).get("taints") or ()
    return tuple(Taint(t.get("key", ""), t.get("value") or "", t.get("effect", "")) for t in listed)
