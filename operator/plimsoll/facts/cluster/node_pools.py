"""Read Karpenter's NodePools: the GPU machines that it may start, as node groups that can grow.

A NodePool says by requirements which machines it may start. Its GPU machines are known by their machine types, by the
names and counts of GPUs that Karpenter's provider for AWS writes on nodes, or by labels that its nodes get. A pool
that names none of these can start any machine, and says nothing about GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from plimsoll.domain.cluster.fleet import Labels, Taint
from plimsoll.domain.cluster.gpus import CapacityType, GpuType, Vendor
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.cluster.spot import spot_type
from plimsoll.domain.units import parse_quantity
from plimsoll.facts.cluster.cloud_labels import AWS_LABELS, named_type
from plimsoll.facts.cluster.gpu_count import COUNTS, INSTANCE_TYPE, MACHINES
from plimsoll.facts.cluster.gpu_labels import AMD_RESOURCE, NVIDIA_PRODUCT, NVIDIA_RESOURCE, match_gpu

Body = Mapping[str, Any]
Requirements = Mapping[str, tuple[str, ...]]
"""The allowed values by label, of requirements that list them."""

POOL_LABEL = "karpenter.sh/nodepool"
CAPACITY_LABEL = "karpenter.sh/capacity-type"

_MOST_GROUPS = 16
"""The most groups of one pool: a pool with all GPU machines of a cloud would be a price list."""


def read_node_pools(pools: Iterable[Body], types: Sequence[GpuType]) -> tuple[NodeGroup, ...]:
    """Return the groups of all pools that are ready, by name. A pool that cannot be read is left out."""
    found: list[NodeGroup] = []
    for pool in pools:
        try:
            found += list(_groups(pool, types))[:_MOST_GROUPS]
        except (AttributeError, KeyError, TypeError, ValueError):
            continue  # nothing is placed on these nodes: a suggestion less does no harm
    return tuple(sorted(found, key=lambda group: (group.name, group.gpu.name, group.gpus)))


def _groups(pool: Body, types: Sequence[GpuType]) -> Iterator[NodeGroup]:
    if _is_unready(pool):
        return
    name = str(pool["metadata"]["name"])
    template = pool["spec"]["template"]
    own: dict[str, str] = dict((template.get("metadata") or {}).get("labels") or {})
    required = _required(template["spec"].get("requirements") or ())
    single = {key: values[0] for key, values in required.items() if len(values) == 1}
    capacities = _capacities(required)
    for gpu, count in sorted(set(_machines(own, required, types)), key=lambda each: (each[0].name, each[1])):
        resource = NVIDIA_RESOURCE if gpu.vendor is Vendor.NVIDIA else AMD_RESOURCE
        for capacity in capacities:
            labels = {**single, **own, POOL_LABEL: name, CAPACITY_LABEL: capacity.value}
            yield NodeGroup(
                name=name,
                gpu=spot_type(gpu) if capacity is CapacityType.SPOT else gpu,
                resource=resource,
                gpus=count,
                most_gpus=_limit(pool, resource),
                labels=tuple(sorted(labels.items())),
                taints=_taints(template["spec"]),
                members=((POOL_LABEL, name),),
            )


def _is_unready(pool: Body) -> bool:
    conditions = (pool.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "False" for each in conditions)


def _required(requirements: Iterable[Body]) -> Requirements:
    listed = (each for each in requirements if each.get("operator") == "In")
    return {str(each["key"]): tuple(str(value) for value in each.get("values") or ()) for each in listed}


def _capacities(required: Requirements) -> list[CapacityType]:
    """Return the capacity types of a pool. Without a requirement Karpenter starts machines on demand."""
    stated = required.get(CAPACITY_LABEL, (CapacityType.ON_DEMAND.value,))
    return [capacity for capacity in CapacityType if capacity.value in stated]


def _machines(
    own: Mapping[str, str], required: Requirements, types: Sequence[GpuType]
) -> Iterator[tuple[GpuType, int]]:
    by_name = {gpu.name: gpu for gpu in types}
    for machine in required.get(INSTANCE_TYPE, ()):
        if machine in MACHINES and MACHINES[machine][0] in by_name:
            yield by_name[MACHINES[machine][0]], MACHINES[machine][1]
    if INSTANCE_TYPE in required:
        return
    for gpu in _cards(own, required, types):
        for count in _counts(own, required):
            yield gpu, count


def _cards(own: Mapping[str, str], required: Requirements, types: Sequence[GpuType]) -> Iterator[GpuType]:
    product = own.get(NVIDIA_PRODUCT)
    if product is not None:
        gpu = match_gpu(product, None, None, types)
        if gpu is not None:
            yield gpu
        return
    by_name = {gpu.name: gpu for gpu in types}
    choices: list[Labels] = [tuple(own.items())]
    for name, size in AWS_LABELS:
        memory = (required.get(size) or ("",))[0]
        choices += [((name, card), (size, memory)) for card in required.get(name, ())]
    for labels in choices:
        named = named_type(dict(labels))
        if named is not None and named[1] in by_name:
            yield by_name[named[1]]


def _counts(own: Mapping[str, str], required: Requirements) -> Iterator[int]:
    for label in COUNTS:
        values = (own[label],) if label in own else required.get(label, ())
        yield from (int(value) for value in values if value.isdigit() and int(value) > 0)


def _limit(pool: Body, resource: str) -> int | None:
    limit = (pool["spec"].get("limits") or {}).get(resource)
    return None if limit is None else int(parse_quantity(str(limit)))


def _taints(spec: Body) -> tuple[Taint, ...]:
    listed = spec.get("taints") or ()
    return tuple(Taint(str(each.get("key", "")), str(each.get("value") or ""), str(each["effect"])) for each in listed)
