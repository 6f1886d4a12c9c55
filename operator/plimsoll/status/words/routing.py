"""The router in the status: its state, its address, and why requests do not go through it."""

from __future__ import annotations

from typing import Any

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import RoutingTrouble
from plimsoll.domain.requests.routing import GatewayView, RoutingMode
from plimsoll.render.names import gateway_path, service_url
from plimsoll.status.record.report import Report, RoutingReport

_TO_REPLICAS = "The Service leads to any ready replica meanwhile."


def routing_fields(report: Report, routing: RoutingReport) -> dict[str, Any]:
    """Return the fields of ``status.routing``, by their names in Python."""
    router, gateway = routing.router, routing.router.gateway
    fields = {
        "mode": routing.mode.value,
        "state": _state(routing),
        "address": _address(report, routing) or None,
        "endpoints": sum(view.ready for view in report.pools),
        "picker_ready": router.picks,
        "message": _sentence(routing) or None,
    }
    if gateway is None:
        return fields | {"ready_replicas": router.ready}
    named = {"name": gateway.key.name, "namespace": gateway.key.namespace, "controller": gateway.controller or None}
    answers = {"accepted": gateway.is_accepted, "resolved_refs": gateway.is_resolved}
    return fields | {"gateway": named | answers}


def url_for_clients(report: Report) -> str:
    """Return the base URL that clients call: that of the Gateway as long as requests come through it."""
    routing = report.routing
    gateway = None if routing is None else routing.router.gateway
    if routing is None or gateway is None or not gateway.leads_to_replicas:
        return service_url(report.name, report.namespace)
    return _address(report, routing) or service_url(report.name, report.namespace)


def routing_trouble(routing: RoutingReport) -> tuple[RoutingTrouble, str] | None:
    """Return why requests do not go through the router, although they should by now; None if they do."""
    router, gateway = routing.router, routing.router.gateway
    reason = None
    if router.missing or (gateway is not None and gateway.is_missing):
        reason = RoutingTrouble.GATEWAY_MISSING
    elif gateway is not None and gateway.is_refused:
        reason = RoutingTrouble.ROUTE_NOT_ACCEPTED
    elif _is_late(routing):
        reason = RoutingTrouble.ROUTER_NOT_READY
    return None if reason is None else (reason, _sentence(routing))


def _state(routing: RoutingReport) -> str:
    trouble = routing_trouble(routing)
    if trouble is not None:
        return "Missing" if trouble[0] is RoutingTrouble.GATEWAY_MISSING else "NotReady"
    router, gateway = routing.router, routing.router.gateway
    is_ready = bool(router.ready) if gateway is None else router.picks and gateway.leads_to_replicas
    return "Ready" if is_ready else "Starting"


def _is_late(routing: RoutingReport) -> bool:
    router = routing.router
    return router.is_blind or (routing.mode is RoutingMode.STANDALONE and router.is_down)


def _address(report: Report, routing: RoutingReport) -> str:
    """Return the base URL of the API through the router; empty if it is not known."""
    gateway = routing.router.gateway
    if gateway is None:
        return service_url(report.name, report.namespace)
    path = "" if routing.has_hostnames else gateway_path(ObjectKey(report.namespace, report.name))
    return f"{gateway.url}{path}/v1" if gateway.url else ""


def _sentence(routing: RoutingReport) -> str:
    router = routing.router
    if router.missing:
        lacks = f"The cluster has no {router.missing}, or Plimsoll may not read them, so there is no router."
        return f"{lacks} {_TO_REPLICAS}"
    through = "" if router.gateway is None else _of_gateway(router.gateway)
    if through:
        return through
    if routing.mode is RoutingMode.STANDALONE and router.is_down:
        return f"No pod of the router takes requests. {_TO_REPLICAS}"
    return "The router's picker does not answer. Requests go to any ready replica." if router.is_blind else ""


def _of_gateway(gateway: GatewayView) -> str:
    """Return why no request comes through a Gateway; empty if they come."""
    name = f"Gateway {gateway.key}"
    if gateway.is_missing:
        return f"{name} does not exist. {_TO_REPLICAS}"
    if gateway.is_accepted is False:
        return f"{name} does not admit the HTTPRoute of this namespace ({gateway.complaint}). {_TO_REPLICAS}"
    if gateway.is_resolved is False:
        return f"{name} cannot send requests to the InferencePool ({gateway.complaint}). {_TO_REPLICAS}"
    return "" if gateway.leads_to_replicas else f"No controller of {name} has answered for the HTTPRoute yet."
