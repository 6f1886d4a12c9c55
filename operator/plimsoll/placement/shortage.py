"""The missing resource where a candidate fits but has no room: quota, GPUs, or CPU, memory and pods of the nodes."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.domain.fleet import Fleet, GpuNode
from plimsoll.domain.host import HostNeed, HostRoom
from plimsoll.domain.outcomes import Option
from plimsoll.domain.quotas import OF_CPU, OF_MEMORY
from plimsoll.domain.reasons import Numbers, Reason
from plimsoll.domain.serving import Request
from plimsoll.placement.eligibility import eligible_nodes
from plimsoll.placement.host import host_need
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.quota import short_in, use_at

Rooms = Sequence[tuple[int | None, int | None, str]]
"""For every node with free GPUs, the total and the free amount of one resource, and the node's name. None: the node
does not report it."""


def shortage(request: Request, choice: Option, fleet: Fleet, ledger: Ledger) -> tuple[Reason, Numbers]:
    """Return the reason and its numbers."""
    gpus = choice.split.gpus
    left = ledger.quota.get(request.key.namespace, {})
    for resource, asked in short_in(left, use_at(request, choice)):
        return Reason.QUOTA_EXCEEDED, _beyond_quota(resource, asked, left[resource])
    nodes = eligible_nodes(request, fleet, choice.gpu.name)
    largest, need = ledger.largest(nodes), host_need(request, choice)
    if largest < gpus or ledger.has_room(nodes, gpus, need):
        return Reason.GPUS_TAKEN, (("gpus", gpus), ("free", largest))
    return ledger.once("besides GPUs", nodes, (gpus, need), lambda: _beside_gpus(need, ledger.hosts_with(nodes, gpus)))


def _beyond_quota(resource: str, asked: int, left: int) -> Numbers:
    unit = "_millis" if resource in OF_CPU else "_bytes" if resource in OF_MEMORY else ""
    return ((f"asked{unit}" if unit else "gpus", asked), (f"left{unit}", max(0, left)), ("resource", resource))


def _beside_gpus(need: HostNeed, hosts: Sequence[tuple[GpuNode, HostRoom]]) -> tuple[Reason, Numbers]:
    cpu = [(node.host.cpu_millis, room.cpu_millis, node.name) for node, room in hosts]
    memory = [(node.host.memory_bytes, room.memory_bytes, node.name) for node, room in hosts]
    if all(room.pods is not None and room.pods < 1 for _, room in hosts):
        return Reason.NODE_LACKS_PODS, (("largest", max(node.host.pods or 0 for node, _ in hosts)),)
    if _all_short(memory, need.memory_bytes) and not _all_short(cpu, need.cpu_millis):
        return Reason.NODE_LACKS_MEMORY, _lacking(memory, need.memory_bytes, "bytes")
    # Where nodes lack different resources, CPU is reported for all of them.
    return Reason.NODE_LACKS_CPU, _lacking(cpu, need.cpu_millis, "millis")


def _all_short(rooms: Rooms, asked: int) -> bool:
    return asked > 0 and all(free is not None and free < asked for _, free, _ in rooms)


def _lacking(rooms: Rooms, asked: int, unit: str) -> Numbers:
    """Return the requested amount, the most that is free on one node, that node, and the most that one node has."""
    free, node = min((-(left or 0), name) for _, left, name in rooms)
    return (
        (f"asked_{unit}", asked),
        (f"free_{unit}", max(0, -free)),
        (f"largest_{unit}", max(size or 0 for size, _, _ in rooms)),
        ("node", node),
    )
