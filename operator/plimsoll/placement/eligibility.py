"""The nodes that a request's pods may run on."""

from __future__ import annotations

from plimsoll.domain.fleet import Fleet, GpuNode, Toleration, Where
from plimsoll.domain.reasons import Numbers, Reason
from plimsoll.domain.serving import Request

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
    """Return the most GPUs that one engine can have on one eligible node; None where no node is eligible."""
    return fleet.most_gpus(gpu_type, where(request))


def ruled_out(request: Request, fleet: Fleet, gpu_type: str) -> tuple[Reason, Numbers]:
    """Return what keeps the request off all nodes of a type: labels and taints, or the first rule that leaves none."""
    allowed = where(request)._replace(rules=())
    here: tuple[GpuNode, ...] = fleet.of_type(gpu_type)
    count = ("nodes", len(here))
    if not fleet.accepting(gpu_type, allowed):
        return Reason.NODES_NOT_SELECTED, (count,)
    for rule in request.node_rules:
        allowed = allowed._replace(rules=(*allowed.rules, rule))
        if not fleet.accepting(gpu_type, allowed):
            return rule.reason, (count, *rule.numbers)
    return Reason.NODES_NOT_SELECTED, (count,)


def sight(request: Request, fleet: Fleet) -> tuple[object, ...]:
    """Return everything that the judgement of candidates reads from a fleet."""
    return fleet.once(("sight", request.sites), lambda: _sight(request, fleet))


def _sight(request: Request, fleet: Fleet) -> tuple[object, ...]:
    seen: list[tuple[object, ...]] = []
    for gpu in fleet.gpu_types():
        nodes = fleet.of_type(gpu.name)
        most = most_gpus(request, fleet, gpu.name)
        found = ruled_out(request, fleet, gpu.name) if most is None else most
        seen.append((gpu, fleet.labels_of(gpu.name), nodes[0].resource, len(nodes), found))
    return tuple(seen)
