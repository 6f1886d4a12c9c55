"""Which nodes a request's pods may run on at all."""

from __future__ import annotations

from plimsoll.domain.fleet import Fleet, GpuNode, Toleration
from plimsoll.domain.serving import Request

GPU_TAINT_KEYS = ("amd.com/gpu", "nvidia.com/gpu")
"""Taints that GPU operators and clouds put on GPU nodes; every engine pod tolerates them."""

DEFAULT_TOLERATIONS = tuple(Toleration(key=key, operator="Exists") for key in GPU_TAINT_KEYS)

_BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


def eligible_nodes(request: Request, fleet: Fleet, gpu_type: str) -> tuple[GpuNode, ...]:
    """The type's nodes that match the request's node selector and whose taints its pods tolerate."""
    return tuple(node for node in fleet.of_type(gpu_type) if _selected(request, node) and _tolerated(request, node))


def _selected(request: Request, node: GpuNode) -> bool:
    labels = dict(node.labels)
    return all(labels.get(key) == value for key, value in request.node_selector)


def _tolerated(request: Request, node: GpuNode) -> bool:
    tolerations = (*DEFAULT_TOLERATIONS, *request.tolerations)
    blocking = (taint for taint in node.taints if taint.effect in _BLOCKING_EFFECTS)
    return all(any(toleration.tolerates(taint) for toleration in tolerations) for taint in blocking)
