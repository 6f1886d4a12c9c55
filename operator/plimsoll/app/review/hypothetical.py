"""Nodes and fields that nobody has changed yet: the answers to ``--what-if``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from plimsoll.adapters.cluster.kinds import NODES
from plimsoll.app.review.values import AddNodes, DeploymentWish, RemoveNodes, SetField, WhatIf
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import parse_quantity
from plimsoll.facts.cluster.gpu_labels import (
    AMD_PRODUCT,
    AMD_RESOURCE,
    NVIDIA_PRODUCT,
    NVIDIA_RESOURCE,
    is_gpu_resource,
)
from plimsoll.facts.cluster.host_reading import REQUESTS

Body = Mapping[str, Any]

CPUS_PER_GPU = 16
MEMORY_PER_GPU = 128 * 2**30
"""The CPU and the memory of a node without an example in the cluster: somewhat less than clouds give with one GPU of
a large node, so that the answer is not too good."""

_LONG_AGO = "2000-01-01T00:00:00Z"
_EXCLUDING = {"concurrency": "totalConcurrency", "totalConcurrency": "concurrency"}
"""Fields of which a spec has one: a new value for one removes the other."""


def after_changes(
    nodes: Sequence[Body], pods: Sequence[Body], changes: Iterable[WhatIf], fleet: Fleet, types: Sequence[GpuType]
) -> tuple[Sequence[Body], Sequence[Body]]:
    """Return nodes and pods after all changes. ``fleet`` is what is read from them before."""
    for change in changes:
        match change:
            case AddNodes():
                nodes = (*nodes, *_added(nodes, change, fleet, types))
            case RemoveNodes():
                nodes, pods = _without(nodes, pods, change.gpu_type, fleet)
            case SetField():
                pass  # it is no change of the nodes
    return nodes, pods


def _added(nodes: Sequence[Body], change: AddNodes, fleet: Fleet, types: Sequence[GpuType]) -> Iterator[Body]:
    like = {node.name: node.resource for node in fleet.of_type(change.gpu_type) if node.allocatable}
    example = next((body for body in nodes if body["metadata"]["name"] in like), None)
    (gpu,) = [gpu for gpu in types if gpu.name == change.gpu_type]
    for number in range(change.count):
        name = f"what-if-{change.gpu_type}-{len(nodes) + number}"
        if example is None:
            yield _new(gpu, name, change.gpus)
        else:
            yield _like(example, like[example["metadata"]["name"]], name, change.gpus)


def _like(example: Body, resource: str, name: str, gpus: int) -> Body:
    """A node like one of the cluster, with CPU and memory in proportion to its GPUs. No pod and no slice is on it."""
    announced = example["status"]["allocatable"]
    allocatable = {each: announced[each] for each in announced if each == resource or not is_gpu_resource(each)}
    share = gpus / parse_quantity(str(allocatable[resource]))
    for each in {"cpu", "memory"} & allocatable.keys():
        allocatable[each] = str(int(parse_quantity(str(allocatable[each])) * share))
    allocatable[resource] = str(gpus)
    own = {"kubernetes.io/hostname": name, "nvidia.com/gpu.count": str(gpus)}
    labels = example["metadata"]["labels"]
    labels = {**labels, **{label: value for label, value in own.items() if label in labels}}
    head = {**example["metadata"], "name": name, "uid": name, "labels": labels}
    status = {name: value for name, value in example["status"].items() if name != "capacity"}
    return {**example, "metadata": head, "status": {**status, "allocatable": allocatable}}


def _new(gpu: GpuType, name: str, gpus: int) -> Body:
    is_amd = gpu.vendor is Vendor.AMD
    label, resource = (AMD_PRODUCT, AMD_RESOURCE) if is_amd else (NVIDIA_PRODUCT, NVIDIA_RESOURCE)
    allocatable = {
        resource: str(gpus),
        "cpu": str(CPUS_PER_GPU * gpus),
        "memory": str(MEMORY_PER_GPU * gpus),
        "pods": "110",
    }
    labels = {label: gpu.product_labels[0], "kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": NODES.kind,
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": labels},
        "spec": {},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _without(
    nodes: Sequence[Body], pods: Sequence[Body], gpu_type: str, fleet: Fleet
) -> tuple[tuple[Body, ...], tuple[Body, ...]]:
    """Return what is left. A pod without GPUs counts only on its node, so it goes with the node."""
    gone = {node.name for node in fleet.of_type(gpu_type)}
    kept = tuple(body for body in nodes if body["metadata"]["name"] not in gone)
    left = (pod for pod in pods if not (REQUESTS in pod and pod["spec"]["nodeName"] in gone))
    return kept, tuple(_homeless(pod) if (pod.get("spec") or {}).get("nodeName") in gone else pod for pod in left)


def _homeless(pod: Body) -> Body:
    """The pod that its controller makes instead: no node has room for it."""
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        "lastTransitionTime": _LONG_AGO,
    }
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    return {**pod, "spec": spec, "status": {"phase": "Pending", "conditions": [scheduled]}}


def with_fields(
    wishes: Sequence[DeploymentWish], live: Mapping[ObjectKey, Body], changes: Sequence[WhatIf]
) -> list[DeploymentWish]:
    """Return the wishes with these fields; a live object that no file holds becomes a wish of its own.

    Raises:
        InvalidInput: there is no such object, or there are several.
    """
    found = {wish.key: wish for wish in wishes}
    for change in changes:
        if isinstance(change, SetField):
            key = _key(change, {*found, *live})
            known = found.get(key) or DeploymentWish(f"--what-if {change.text}", _manifest(live[key]), is_whole=True)
            spec = _with_field(known.body["spec"], change.path, change.value)
            if change.value is not None and change.path[0] in _EXCLUDING:
                spec = _with_field(spec, (_EXCLUDING[change.path[0]],), None)
            found[key] = DeploymentWish(known.where, {**known.body, "spec": spec}, known.is_whole)
    return list(found.values())


def _key(change: SetField, keys: set[ObjectKey]) -> ObjectKey:
    matching = sorted(key for key in keys if key.name == change.name and change.namespace in ("", key.namespace))
    if len(matching) == 1:
        return matching[0]
    fix = f"Write one of {', '.join(map(str, matching))} before the field." if matching else "There is no such object."
    raise InvalidInput("--what-if", change.text, fix)


def _manifest(live: Body) -> Body:
    head = {"name": live["metadata"]["name"], "namespace": live["metadata"]["namespace"]}
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": head, "spec": live["spec"]}


def _with_field(spec: Body, path: Sequence[str], value: Any) -> dict[str, Any]:
    name, *rest = path
    if rest:
        inner = spec.get(name)
        return {**spec, name: _with_field(inner if isinstance(inner, Mapping) else {}, rest, value)}
    left = {each: known for each, known in spec.items() if each != name}
    return left if value is None else {**left, name: value}
