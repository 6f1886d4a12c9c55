"""A Gateway and an HTTPRoute of the Gateway API -> whether requests come through, and at which address.

Source: the conditions and their reasons in ``apis/v1/gateway_types.go`` and ``apis/v1/shared_types.go`` of the Gateway
API 1.5. The controller of a Gateway writes an entry for each parent of a route. Nobody writes one for a Gateway that
does not exist, or whose controller does not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.routing import GatewayRef, GatewayView
from plimsoll.domain.units import from_rfc3339

Body = Mapping[str, Any]

LONGEST_COMPLAINT = 300
"""The most characters of a controller's words that are passed on."""

_ABOUT_ROUTES = "HTTPRouteNotAccepted"
"""The reason of an InferencePool's ``Accepted`` that is about a route to it. The HTTPRoute itself says more: it is
newer than the pool as it was last listed, and the refused one may be a route that somebody else leads to the pool.
Source: ``api/v1/inferencepool_types.go`` of the Gateway API Inference Extension 1.5.0."""

_POOLS = "inference.networking.k8s.io/v1"

_SCHEMES = {"HTTP": ("http", 80), "HTTPS": ("https", 443)}
"""The protocols of listeners, with the port that a URL does not name."""


def named_gateway(spec: Body, namespace: str) -> GatewayRef | None:
    """Return the Gateway that the spec of an InferenceDeployment names; None if it names none.

    Args:
        spec: as it is stored. An older version of the CRD may have let anything through.
        namespace: that of the InferenceDeployment, and of the Gateway if the spec names none.
    """
    routing = spec.get("routing")
    given = routing.get("gateway") if isinstance(routing, dict) else None
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return None
    hosts = given.get("hostnames")
    return GatewayRef(
        ObjectKey(str(given.get("namespace") or namespace), str(given["name"])),
        str(given.get("sectionName") or ""),
        tuple(each for each in _list(hosts) if isinstance(each, str)),
    )


def named_pool(spec: Body) -> str:
    """Return the InferencePool whose queue a spec asks to count; empty if it names none."""
    loop = spec.get("rebalancing")
    before = loop.get("gateway") if isinstance(loop, dict) else None
    pool = before.get("inferencePool") if isinstance(before, dict) else None
    return pool if isinstance(pool, str) else ""


def pool_fault(name: str, namespace: str, pool: Body | None) -> str:
    """Return why an InferencePool that a spec names holds no queue, and the fix; empty if nothing is against it.

    A pool always names an endpoint picker (``endpointPickerRef``), and the controller of each Gateway says in
    ``ResolvedRefs`` whether that exists. Source: ``api/v1/inferencepool_types.go`` of the Gateway API Inference
    Extension 1.5.0.
    """
    if pool is None:
        return f"there is no InferencePool {name} ({_POOLS}) in namespace {namespace}: create it, or correct the name."
    parents = map(_mapping, _list(_mapping(pool.get("status")).get("parents")))
    answers = [_answer(parent, "ResolvedRefs", pool) for parent in parents]
    words = next((said for is_so, said in answers if is_so is False), "")
    if not words or any(is_so for is_so, _ in answers):
        return ""
    return (
        f"the endpoint picker of InferencePool {name} does not resolve ({words}): correct its spec.endpointPickerRef."
    )


def read_gateway(
    ref: GatewayRef, gateway: Body | None, route: Body | None, pool: Body | None = None, *, may_read: bool
) -> GatewayView:
    """Return what a Gateway and the route to it are. A part that is not as the Gateway API has it is not there.

    Args:
        ref: the Gateway that the spec names.
        gateway: the Gateway; None: there is none, or it may not be read.
        route: the HTTPRoute; None: there is none yet.
        pool: the InferencePool. A controller may say nothing of it; what it turns down is not resolved.
        may_read: whether Gateways may be read.
    """
    parent, of_pool = _parent(ref, ref.listener, route), _parent(ref, "", pool)
    accepted, why_not = _answer(parent, "Accepted", route)
    resolved, unresolved = _answer(parent, "ResolvedRefs", route)
    for kind in ("Accepted", "ResolvedRefs"):
        answer, words = _answer(of_pool, kind, pool)
        if answer is False and resolved is not False and not words.startswith(_ABOUT_ROUTES):
            resolved, unresolved = False, words
    view = GatewayView(
        ref.key,
        is_missing=may_read and gateway is None,
        controller=_text(parent.get("controllerName")),
        is_accepted=accepted,
        is_resolved=resolved,
        complaint=why_not if accepted is False else unresolved if resolved is False else "",
        asked_since=from_rfc3339(_text(_head(route).get("creationTimestamp"))),
    )
    return replace(view, url=_url(ref, gateway, route)) if view.leads_to_replicas else view


def _parent(ref: GatewayRef, listener: str, child: Body | None) -> Body:
    """Return the controller's entry about this Gateway in the status of an object; empty if there is none.

    After a change of the Gateway's class the entry of the controller before may stay. The newest counts, and of two
    that are equally old the one that turns the object down.
    """
    found = []
    for each in map(_mapping, _list(_mapping(_mapping(child).get("status")).get("parents"))):
        named = _mapping(each.get("parentRef"))
        namespace = _text(named.get("namespace")) or _text(_head(child).get("namespace"))
        is_this = ObjectKey(namespace, _text(named.get("name"))) == ref.key
        if is_this and _text(named.get("sectionName")) == listener:
            found.append(each)
    return max(found, key=_newness, default={})


def _newness(parent: Body) -> tuple[str, bool]:
    """Return when an entry last changed (RFC 3339 in UTC sorts as text), and whether it turns the object down."""
    conditions = [_mapping(each) for each in _list(parent.get("conditions"))]
    changed = max((_text(each.get("lastTransitionTime")) for each in conditions), default="")
    return changed, any(each.get("status") == "False" for each in conditions)


def _answer(parent: Body, kind: str, child: Body | None) -> tuple[bool | None, str]:
    """Return a condition about the present content of an object, and what it says; None: there is none."""
    generation = _number(_head(child).get("generation"))
    for each in map(_mapping, _list(parent.get("conditions"))):
        about = each.get("observedGeneration")
        if each.get("type") == kind and (not about or _number(about) >= generation):
            words = f"{_text(each.get('reason'))}: {_text(each.get('message'))}".strip(": ")
            return {"True": True, "False": False}.get(_text(each.get("status"))), words[:LONGEST_COMPLAINT]
    return None, ""


def _url(ref: GatewayRef, gateway: Body | None, route: Body | None) -> str:
    """Return the address of the listener that serves the route; empty if it is not known.

    One that surely admits the route comes before one that selects namespaces by labels, and HTTPS before HTTP.
    """
    spec, is_inside = _mapping(_mapping(gateway).get("spec")), _head(route).get("namespace") == ref.key.namespace
    found = [
        (_is_open(each, is_inside=is_inside) is None, scheme != "https", f"{scheme}://{host}{port}")
        for each in map(_mapping, _list(spec.get("listeners")))
        if ref.listener in ("", each.get("name")) and _is_open(each, is_inside=is_inside) is not False
        for scheme, port in _scheme(each)
        if (host := _host(each, ref.hostnames) or _address(gateway, each))
    ]
    return min(found, key=lambda each: each[:2], default=(False, False, ""))[2]


def _is_open(listener: Body, *, is_inside: bool) -> bool | None:
    """Whether a listener admits routes of a namespace; None: its labels decide.

    Source: ``FromNamespaces`` in ``apis/v1/gateway_types.go``. The API server fills in ``Same`` where nothing is given.
    """
    given = _mapping(_mapping(listener.get("allowedRoutes")).get("namespaces")).get("from")
    answers: dict[str, bool | None] = {"All": True, "Same": is_inside, "None": False}
    return answers.get(_text(given))


def _scheme(listener: Body) -> Iterator[tuple[str, str]]:
    """Yield the scheme of a listener, and its port as a URL has it; nothing if it serves no HTTP."""
    port, protocol = _number(listener.get("port")), _text(listener.get("protocol"))
    if port > 0 and protocol in _SCHEMES:
        scheme, usual = _SCHEMES[protocol]
        yield scheme, "" if port == usual else f":{port}"


def _host(listener: Body, hostnames: tuple[str, ...]) -> str:
    """Return the first host name of a route that a listener takes; that of the listener if the route has none."""
    own = _text(listener.get("hostname"))
    if not hostnames:
        return "" if "*" in own else own
    return next((each for each in hostnames if "*" not in each and _takes(own, each)), "")


def _takes(own: str, hostname: str) -> bool:
    return not own or (hostname.endswith(own[1:]) if own.startswith("*.") else hostname == own)


def _address(gateway: Body | None, listener: Body) -> str:
    """Return the address of a Gateway, for a listener that takes any host name and a route that has none."""
    if listener.get("hostname"):
        return ""
    addresses = _list(_mapping(_mapping(gateway).get("status")).get("addresses"))
    value = next(filter(None, (_text(_mapping(each).get("value")) for each in addresses)), "")
    return f"[{value}]" if ":" in value else value


def _head(body: Body | None) -> Body:
    return _mapping(_mapping(body).get("metadata"))


def _mapping(value: object) -> Body:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
