"""The size of a KV cache in host memory that the planner chooses: a part of the memory that a node has for its GPUs."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.placement.options.nodes import eligible_nodes, host_of

PART = 2
"""A cache takes at most one in so many bytes of a replica's share of its node: its GPUs' part of the memory. The rest
is for the engine itself, the page cache that its weights are read through, and pods that come later. A choice of this
project."""


def with_spare(request: Request, gpu: GpuType, split: Split, fleet: Fleet) -> Request:
    """Return a request whose size the planner chooses with the size that it gets at a place."""
    return request.with_host_cache(_spare_bytes(request.with_host_cache(0), gpu, split, fleet))


def _spare_bytes(request: Request, gpu: GpuType, split: Split, fleet: Fleet) -> int:
    """Return whole GiB: what every node with room for the replica has for it, less what it requests in any case.

    The share of a replica is its GPUs' part of what is free, so that as many replicas fit on a node as without a cache,
    and never more than its part of the whole node allows.
    """
    gpus, usual = split.shape.gpus_per_pod, host_of(request, gpu, split)
    own, nodes = request.host_need(usual).memory_bytes, eligible_nodes(request, fleet, gpu.name)
    whole = [(node, node.host.memory_bytes or 0) for node in nodes if node.allocatable >= gpus]
    free = [(node, node.host_free.memory_bytes or 0) for node, _ in whole if node.free >= gpus]
    shares = [_share(fleet, node, size, gpus, lambda each: each.allocatable) for node, size in whole if size >= own]
    left = [_share(fleet, node, size, gpus, lambda each: each.free) for node, size in free if size >= own]
    bounds = [size // PART for size in shares] + [size - own for size in (*shares, *left)]
    bounds += [] if request.stated_memory is None else [request.stated_memory - usual.memory_bytes]
    probe = host_of(request.with_host_cache(GIB), gpu, split).memory_bytes - usual.memory_bytes
    return max(0, min(bounds, default=0)) // max(GIB, probe) * GIB


def _share(fleet: Fleet, node: GpuNode, memory: int, gpus: int, count: Callable[[GpuNode], int]) -> int:
    """Return the bytes for so many GPUs of a node. Slices of its other kinds get their part."""
    devices = sum(count(each) for each in _entries(fleet)[node.name])
    return memory * gpus // max(gpus, devices)


def _entries(fleet: Fleet) -> dict[str, list[GpuNode]]:
    """Return the entries of each node by its name: one for each resource of GPUs."""

    def found() -> dict[str, list[GpuNode]]:
        by_name: dict[str, list[GpuNode]] = {}
        for node in fleet.nodes:
            by_name.setdefault(node.name, []).append(node)
        return by_name

    return fleet.once("entries of nodes", found)
