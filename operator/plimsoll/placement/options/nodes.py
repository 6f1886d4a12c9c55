"""The nodes that can take a request's pods: by the rules about nodes, and by the host memory and CPU of a replica."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from plimsoll.domain.cluster.fleet import Fleet, GpuNode, Toleration, Where, untolerated
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.cluster.host import USUAL_HOST, HostEstimate, HostNeed, HostTerm
from plimsoll.domain.cluster.limit_ranges import Exceeded, exceeded
from plimsoll.domain.decisions.outcomes import Option, Split, Target
from plimsoll.domain.public_words import Numbers, Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import format_gib
from plimsoll.engines.registry import engine_of
from plimsoll.placement.options.candidates import Candidate

GPU_TAINT_KEYS = ("amd.com/gpu", "nvidia.com/gpu")
"""Taints that GPU operators and clouds put on GPU nodes; every engine pod tolerates them."""

DEFAULT_TOLERATIONS = tuple(Toleration(key=key, operator="Exists") for key in GPU_TAINT_KEYS)


def tolerations_of(request: Request) -> tuple[Toleration, ...]:
    """Return the tolerations of a request's pods: the user's, and those of the GPU taints."""
    return (*DEFAULT_TOLERATIONS, *request.tolerations)


def where(request: Request) -> Where:
    """Return the nodes on which the request's pods may run."""
    return Where(request.node_selector, tolerations_of(request), request.node_rules)


def eligible_nodes(request: Request, fleet: Fleet, gpu_type: str) -> tuple[GpuNode, ...]:
    """Return the type's nodes on which the request's pods may run."""
    return fleet.accepting(gpu_type, where(request))


def most_gpus(request: Request, fleet: Fleet, gpu_type: str) -> int | None:
    """Return the most GPUs that one engine can have on one eligible node; None if no node is eligible."""
    return fleet.most_gpus(gpu_type, where(request))


def ruled_out(request: Request, fleet: Fleet, gpu_type: str) -> tuple[Reason, Numbers]:
    """Return what keeps the request off all nodes of a type: labels and taints, or the first rule that leaves none."""
    allowed = where(request)._replace(rules=())
    here: tuple[GpuNode, ...] = fleet.of_type(gpu_type)
    count = ("nodes", len(here))
    if not fleet.accepting(gpu_type, allowed):
        return Reason.NODES_NOT_SELECTED, (count, *_kept_off(fleet, gpu_type, allowed))
    for rule in request.node_rules:
        left, allowed = fleet.accepting(gpu_type, allowed), allowed._replace(rules=(*allowed.rules, rule))
        if not fleet.accepting(gpu_type, allowed):
            some = (("nodes", len(left)), *((("of", len(here)),) if len(left) < len(here) else ()))
            return rule.reason, (*some, *rule.numbers, *_most_disk(rule.reason, left))
    return Reason.NODES_NOT_SELECTED, (count,)


def _most_disk(reason: Reason, nodes: Sequence[GpuNode]) -> Numbers:
    if reason is not Reason.NODE_DISK_TOO_SMALL:
        return ()
    return (("largest_bytes", max(node.disk_bytes or 0 for node in nodes)),)


def _kept_off(fleet: Fleet, gpu_type: str, asked: Where) -> Numbers:
    """Return the taint that keeps pods off the most nodes that their labels select, and the number of these nodes."""
    selected = fleet.accepting(gpu_type, asked._replace(tolerations=(Toleration(operator="Exists"),)))
    taints = Counter(taint for node in selected for taint in set(untolerated(node.taints, asked.tolerations)))
    if not taints:
        return ()
    taint, count = min(taints.items(), key=lambda each: (-each[1], each[0]))
    return ("taint", taint.words), ("tainted", count)


def unhealthy_here(request: Request, fleet: Fleet, gpu_type: str, gpus: int, free: Callable[[GpuNode], int]) -> Numbers:
    """Return the first node that would have so many GPUs if all of them worked, and how many do not; else nothing.

    ``free`` counts the GPUs of a node. Only the type's nodes on which the request's pods may run count.
    """
    for node in fleet.accepting_unhealthy(gpu_type, where(request)):
        if free(node) + node.unhealthy >= gpus and not (node.gpu.is_slice and gpus > 1):
            return ("unhealthy", node.unhealthy), ("node", node.name)
    return ()


def sight(request: Request, fleet: Fleet) -> tuple[object, ...]:
    """Return everything that the judgement of candidates reads from a fleet."""
    seen = fleet.once(("sight", request.sites), lambda: _sight(request, fleet))
    return (seen, _memory(request, fleet)) if request.engine.host.takes_spare else seen


def _memory(request: Request, fleet: Fleet) -> tuple[object, ...]:
    """Return the host memory of the nodes, which decides the size of a cache there if that is open."""
    nodes = (node for gpu in fleet.gpu_types() for node in eligible_nodes(request, fleet, gpu.name))
    return tuple(
        (node.account, node.allocatable, node.free, node.host.memory_bytes, node.host_free.memory_bytes)
        for node in nodes
    )


def _sight(request: Request, fleet: Fleet) -> tuple[object, ...]:
    seen: list[tuple[object, ...]] = []
    for gpu in fleet.gpu_types():
        nodes = fleet.of_type(gpu.name)
        most = most_gpus(request, fleet, gpu.name)
        found = ruled_out(request, fleet, gpu.name) if most is None else most
        eligible = eligible_nodes(request, fleet, gpu.name) if fleet.unhealthy else ()
        unhealthy = tuple((node.name, node.allocatable, node.unhealthy) for node in eligible if node.unhealthy)
        seen.append((gpu, fleet.labels_of(gpu.name), nodes[0].resource, len(nodes), found, unhealthy))
    return tuple(seen)


def host_of(request: Request, gpu: GpuType, split: Split) -> HostEstimate:
    """Return the host memory and CPU that the engine of one replica needs.

    If GPU and host share one memory, its part of the GPU counts: the kernel gives the node's other pods no more.
    """
    engine = engine_of(request.engine.name)
    host = engine.host(request, gpu.vendor, split)
    if not gpu.unified_memory:
        return host
    percent = engine.settings(request, gpu, split).gpu_memory_utilization_percent
    formula = f"{percent} % of {format_gib(gpu.usable_bytes)} that GPU and host share"
    shared = HostTerm("gpuMemory", formula, gpu.usable_bytes * percent // 100)
    return replace(host, terms=(*host.terms, shared))


def host_need(request: Request, place: Option | Candidate) -> HostNeed:
    """Return what the pod of one replica requests at a place."""
    host = place.host if isinstance(place, Option) else host_of(request, place.gpu, place.split)
    return request.host_need(host)


def host_of_pool(request: Request, gpu_type: str, split: Split, fleet: Fleet) -> HostEstimate:
    """Return the host memory and CPU that an engine of an existing pool needs."""
    nodes = fleet.of_type(gpu_type)
    return host_of(request, nodes[0].gpu, split) if nodes else USUAL_HOST


def need_of_pool(request: Request, gpu_type: str, split: Split, fleet: Fleet) -> HostNeed:
    """Return what a pod of an existing pool requests."""
    return request.host_need(host_of_pool(request, gpu_type, split, fleet))


def admission_refusal(request: Request, target: Target, host: HostEstimate) -> Numbers:
    """Return the bounds of LimitRanges that refuse the pod of one replica, at most three of them; else nothing."""
    if not request.limit_ranges:
        return ()
    gpus = ((target.resource, target.split.shape.gpus_per_pod),)
    engine = request.pod_resources(request.engine_need(host), gpus)
    found = exceeded(engine, request.limit_ranges, request.companions)
    return tuple(entry for index, each in enumerate(found[:MOST_BOUNDS]) for entry in _bound(each, index))


MOST_BOUNDS = 3
"""The most bounds that one rejection names: CPU, memory and one more."""


def _bound(each: Exceeded, index: int) -> Numbers:
    """Return the figures of one bound. From the second one on, their names end in its number."""
    numbers: Numbers = (
        *(("limit_range", each.limit_range), ("limited", each.limited.value), ("rule", each.rule.value)),
        *(("resource", each.resource), ("bound_thousandths", each.bound)),
        *(() if each.asked is None else (("asked_thousandths", each.asked),)),
        ("asked_of", "limit" if each.of_limit else "request"),
    )
    return numbers if index == 0 else tuple((f"{name}_{index + 1}", value) for name, value in numbers)


def host_refusal(request: Request, host: HostEstimate) -> Numbers:
    """Return the figures if the user allows the pod less memory than the engine takes for sure; else nothing."""
    allowed = request.host_allowance
    if allowed is None or allowed[1] >= host.least_bytes:
        return ()
    return (("least_bytes", host.least_bytes), ("stated_bytes", allowed[1]), ("field", allowed[0]))
