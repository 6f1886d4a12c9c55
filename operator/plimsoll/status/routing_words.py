"""The router in the status: its state, and why requests do not go through it."""

from __future__ import annotations

from typing import Any

from plimsoll.status.report import RoutingReport

_TO_REPLICAS = "The Service leads to any ready replica meanwhile."


def routing_fields(routing: RoutingReport) -> dict[str, Any]:
    """Return the fields of ``status.routing``, by their names in Python."""
    router = routing.router
    state = "NotReady" if router.is_down else "Starting"
    return {
        "mode": routing.mode.value,
        "state": "Missing" if router.lacks else "Ready" if router.ready else state,
        "ready_replicas": router.ready,
        "message": routing_sentence(routing) or None,
    }


def routing_sentence(routing: RoutingReport) -> str:
    """Return why requests do not go through the router, although they should by now; empty if they do."""
    lacks = routing.router.lacks
    if lacks:
        return f"The cluster has no {lacks}, or Plimsoll may not read them, so there is no router. {_TO_REPLICAS}"
    return f"No pod of the router takes requests. {_TO_REPLICAS}" if routing.router.is_down else ""
