"""The nodes that a request's pods may run on."""

from __future__ import annotations

from plimsoll.domain.fleet import Fleet, GpuNode, Toleration
from plimsoll.domain.serving import Request

GPU_TAINT_KEYS = ("amd.com/gpu", "nvidia.com/gpu")
"""Taints that GPU operators and clouds put on GPU nodes; every engine pod tolerates them."""

DEFAULT_TOLERATIONS = tuple(Toleration(key=key, operator="Exists") for key in GPU_TAINT_KEYS)


def tolerations_of(request: Request) -> tuple[Toleration, ...]:
    """Return the tolerations of a request's pods: the user's, and those of the GPU taints."""
    return (*DEFAULT_TOLERATIONS, *request.tolerations)


def eligible_nodes(request: Request, fleet: Fleet, gpu_type: str) -> tuple[GpuNode, ...]:
    """Return the type's nodes that match the request's node selector and whose taints its pods tolerate."""
    return fleet.accepting(gpu_type, request.node_selector, tolerations_of(request))


def most_gpus(request: Request, fleet: Fleet, gpu_type: str) -> int | None:
    """Return the most GPUs that one engine can have on one eligible node; None where no node is eligible."""
    return fleet.most_gpus(gpu_type, request.node_selector, tolerations_of(request))


def sight(request: Request, fleet: Fleet) -> tuple[object, ...]:
    """Return everything that the judgement of candidates reads from a fleet."""
    return fleet.once(("sight", request.node_selector, request.tolerations), lambda: _sight(request, fleet))


def _sight(request: Request, fleet: Fleet) -> tuple[object, ...]:
    seen: list[tuple[object, ...]] = []
    for gpu in fleet.gpu_types():
        nodes = fleet.of_type(gpu.name)
        seen.append(
            (gpu, fleet.labels_of(gpu.name), nodes[0].resource, len(nodes), most_gpus(request, fleet, gpu.name))
        )
    return tuple(seen)
