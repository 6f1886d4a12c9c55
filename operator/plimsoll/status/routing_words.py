"""The router in the status: its state, and why requests do not go through it."""

from __future__ import annotations

from typing import Any

from plimsoll.status.report import RoutingReport

_TO_REPLICAS = "The Service leads to any ready replica meanwhile."


def routing_fields(routing: RoutingReport) -> dict[str, Any]:
    """Return the fields of ``status.routing``, by their names in Python."""
    router = routing.router
    is_late = router.is_down or router.is_blind
    return {
        "mode": routing.mode.value,
        "state": "Missing" if router.lacks else "NotReady" if is_late else "Ready" if router.ready else "Starting",
        "ready_replicas": router.ready,
        "message": routing_sentence(routing) or None,
    }


def routing_sentence(routing: RoutingReport) -> str:
    """Return why requests do not go through the router, although they should by now; empty if they do."""
    lacks = routing.router.lacks
    if lacks:
        return f"The cluster has no {lacks}, or Plimsoll may not read them, so there is no router. {_TO_REPLICAS}"
    if routing.router.is_down:
        return f"No pod of the router takes requests. {_TO_REPLICAS}"
    return "The router's picker does not answer. Requests go to any ready replica." if routing.router.is_blind else ""
