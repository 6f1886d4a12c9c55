"""The router in the status: its state, its address, and why requests do not go through it."""

from __future__ import annotations

from typing import Any, NamedTuple

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import RoutingTrouble
from plimsoll.domain.requests.routing import GatewayView, RouterView, RoutingMode
from plimsoll.render.names import gateway_path, service_url
from plimsoll.status.record.report import Report, RoutingReport

_TO_REPLICAS = "The Service leads to any ready replica meanwhile."

_STANDALONE = "or set spec.routing.mode to Standalone"
_NO_ROUTES = (
    "have the admin of Plimsoll set the chart's value gatewayRouting to true, which grants it HTTPRoutes and Gateways, "
    f"and install the CRDs of the Gateway API, {_STANDALONE}"
)
_NO_GATEWAY = f"correct name and namespace in spec.routing.gateway, create that Gateway, {_STANDALONE}"
_NO_POOLS = (
    "look at that reason: the controller of the Gateway must support InferencePools, and ask their endpoint picker as "
    "spec.routing.gateway.pickerTls says. Or set spec.routing.mode to Standalone"
)
_NOT_REMOVED = "correct what the API server names: a policy or an admission webhook"
_NO_CONTROLLER = f"look at the controller of the Gateway's class, which must support InferencePools, {_STANDALONE}"
_HELP = {
    "NoMatchingParent": "correct spec.routing.gateway.sectionName: the Gateway has no such listener for HTTPRoutes",
    "NoMatchingListenerHostname": "correct spec.routing.gateway.hostnames: no listener of the Gateway serves one of "
    "them",
}
"""Of reasons of ``Accepted`` in ``apis/v1/httproute_types.go`` that the user's own fields cause."""

_NOT_THERE_YET = frozenset({"BackendNotFound", "InvalidExtensionRef"})
"""Reasons of ``ResolvedRefs`` that a controller also gives for a moment after the route was made: it has not seen the
pool or its picker's Service yet, or has yet to make a Service of its own for the pool. Source:
``pilot/pkg/config/kube/gateway`` of Istio (2026-08-27), whose ``conversion.go`` looks for that Service, which
``inferencepool_collection.go`` has made only for routes with a status.
"""

_ISTIO = "istio.io/gateway-controller"
_ASKED_IN_PLAIN_TEXT = (
    "Istio asks the picker in plain text and answers 500 to every completion, unless a DestinationRule says that the "
    "picker serves TLS: see docs/routing.md, or set spec.routing.gateway.pickerTls to false."
)
"""Nothing that the operator may read shows whether there is such a DestinationRule. Istio accepts the route anyway."""


class Missed(NamedTuple):
    """Why requests do not go through a router. ``helps`` is what helps, if more is known than the reason says."""

    reason: RoutingTrouble
    message: str
    helps: str = ""


def routing_fields(report: Report, routing: RoutingReport) -> dict[str, Any]:
    """Return the fields of ``status.routing``, by their names in Python."""
    router, gateway = routing.router, routing.router.gateway
    fields = {
        "mode": routing.mode.value,
        "state": _state(routing),
        "address": _address(report, routing) or None,
        "endpoints": sum(view.ready for view in report.pools),
        "picker_ready": router.picks,
        "message": _sentence(report, routing) or None,
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


def routing_trouble(report: Report) -> Missed | None:
    """Return what is wrong with the router, or with what is left of one; None if requests go as they should by now."""
    routing = report.routing
    if report.router_refused and not (routing and routing.router.missing):
        words = f"{report.router_refused.rstrip('.')}. No engine needs it."
        return Missed(RoutingTrouble.ROUTER_REFUSED, words, "" if routing else _NOT_REMOVED)
    return _missed(routing) if routing else None


def _missed(routing: RoutingReport) -> Missed | None:
    """Return why requests do not go through the router, although they should by now; None if they do."""
    router, gateway = routing.router, routing.router.gateway
    if router.missing:
        return _lacking(router)
    missed = None if gateway is None else _of_gateway(gateway, is_due=routing.is_due)
    if missed is not None:
        return missed
    if routing.mode is RoutingMode.STANDALONE and router.is_down:
        return Missed(RoutingTrouble.ROUTER_NOT_READY, f"No pod of the router takes requests. {_TO_REPLICAS}")
    words = "The router's picker does not answer. Requests go to any ready replica."
    return Missed(RoutingTrouble.ROUTER_NOT_READY, words) if router.is_blind else None


def _lacking(router: RouterView) -> Missed:
    words = f"The cluster has no {router.missing}, or Plimsoll may not read them, so there is no router. {_TO_REPLICAS}"
    return Missed(RoutingTrouble.GATEWAY_MISSING, words, "" if router.lacks else _NO_ROUTES)


def _of_gateway(gateway: GatewayView, *, is_due: bool) -> Missed | None:
    """Return why no request comes through a Gateway; None if they come, or may come at any moment."""
    name, not_accepted = f"Gateway {gateway.key}", RoutingTrouble.ROUTE_NOT_ACCEPTED
    if gateway.is_missing:
        return Missed(RoutingTrouble.GATEWAY_MISSING, f"{name} does not exist. {_TO_REPLICAS}", _NO_GATEWAY)
    if gateway.is_accepted is False:
        words = f"{name} does not admit the HTTPRoute of this namespace ({gateway.complaint}). {_TO_REPLICAS}"
        return Missed(not_accepted, words, _HELP.get(_reason(gateway), ""))
    if gateway.is_resolved is False and (is_due or _reason(gateway) not in _NOT_THERE_YET):
        words = f"{name} cannot send requests to the InferencePool ({gateway.complaint}). {_TO_REPLICAS}"
        return Missed(not_accepted, words, _NO_POOLS)
    if gateway.leads_to_replicas or not is_due:
        return None
    return Missed(not_accepted, f"{_unanswered(gateway)} {_TO_REPLICAS}", _NO_CONTROLLER)


def _reason(gateway: GatewayView) -> str:
    """Return the word with which the controller's complaint begins."""
    return gateway.complaint.partition(":")[0]


def _unanswered(gateway: GatewayView) -> str:
    if gateway.asked_since is None:
        return f"There is no HTTPRoute to Gateway {gateway.key} yet."
    if gateway.is_accepted:
        why = f" ({gateway.complaint})" if gateway.complaint else ""
        answer = "has accepted the HTTPRoute, and does not say that it can send requests there yet"
        return f"Gateway {gateway.key} {answer}{why}."
    return f"No controller of Gateway {gateway.key} has answered for the HTTPRoute yet."


def _state(routing: RoutingReport) -> str:
    trouble = _missed(routing)
    if trouble is not None:
        return "Missing" if trouble.reason is RoutingTrouble.GATEWAY_MISSING else "NotReady"
    router, gateway = routing.router, routing.router.gateway
    is_ready = bool(router.ready) if gateway is None else router.picks and gateway.leads_to_replicas
    return "Ready" if is_ready else "Starting"


def _address(report: Report, routing: RoutingReport) -> str:
    """Return the base URL of the API through the router; empty if it is not known."""
    gateway = routing.router.gateway
    if gateway is None:
        return service_url(report.name, report.namespace)
    path = "" if routing.has_hostnames else gateway_path(ObjectKey(report.namespace, report.name))
    return f"{gateway.url}{path}/v1" if gateway.url else ""


def _sentence(report: Report, routing: RoutingReport) -> str:
    """Return why requests do not go through the router, or do not yet, or what may stop them; empty if nothing does."""
    trouble, gateway = routing_trouble(report), routing.router.gateway
    if trouble is not None:
        return trouble.message
    if gateway is None:
        return ""
    if not gateway.leads_to_replicas:
        return _unanswered(gateway)
    return _ASKED_IN_PLAIN_TEXT if routing.picker_tls and gateway.controller == _ISTIO else ""
