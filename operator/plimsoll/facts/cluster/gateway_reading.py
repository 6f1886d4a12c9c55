"""A Gateway and an HTTPRoute of the Gateway API -> whether requests come through, and at which address.

Source: the conditions and their reasons in ``apis/v1/gateway_types.go`` and ``apis/v1/shared_types.go`` of the Gateway
API 1.5. The controller of a Gateway writes an entry for each parent of a route. Nobody writes one for a Gateway that
does not exist, or whose controller does not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.routing import GatewayRef, GatewayView

Body = Mapping[str, Any]

LONGEST_COMPLAINT = 300
"""The most characters of a controller's words that are passed on."""

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
        tuple(map(str, hosts)) if isinstance(hosts, list) else (),
    )


def read_gateway(
    ref: GatewayRef, gateway: Body | None, route: Body | None, pool: Body | None = None, *, may_read: bool
) -> GatewayView:
    """Return what a Gateway and the route to it are.

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
        if answer is False and resolved is not False:
            resolved, unresolved = False, words
    return GatewayView(
        ref.key,
        is_missing=may_read and gateway is None,
        url=_url(ref, gateway or {}),
        controller=str(parent.get("controllerName") or ""),
        is_accepted=accepted,
        is_resolved=resolved,
        complaint=why_not if accepted is False else unresolved if resolved is False else "",
    )


def _parent(ref: GatewayRef, listener: str, child: Body | None) -> Body:
    """Return the controller's entry about this Gateway in the status of an object; empty if there is none."""
    for each in _mapping((child or {}).get("status")).get("parents") or ():
        named = each.get("parentRef") or {}
        namespace = named.get("namespace") or (child or {})["metadata"]["namespace"]
        is_this = ObjectKey(str(namespace), str(named.get("name"))) == ref.key
        if is_this and str(named.get("sectionName") or "") == listener:
            return _mapping(each)
    return {}


def _answer(parent: Body, kind: str, child: Body | None) -> tuple[bool | None, str]:
    """Return a condition about the present content of an object, and what it says; None: there is none."""
    generation = 0 if child is None else int(child["metadata"].get("generation") or 0)
    for each in parent.get("conditions") or ():
        if each.get("type") == kind and int(each.get("observedGeneration") or generation) >= generation:
            words = f"{each.get('reason')}: {each.get('message') or ''}".rstrip(": ")
            return {"True": True, "False": False}.get(str(each.get("status"))), words[:LONGEST_COMPLAINT]
    return None, ""


def _url(ref: GatewayRef, gateway: Body) -> str:
    """Return the address of the first listener that serves the host name; empty if it is not known."""
    listener = next(_serving(ref, _mapping(gateway.get("spec")).get("listeners") or ()), None)
    if listener is None:
        return ""
    scheme, usual = _SCHEMES[str(listener["protocol"])]
    own, port = str(listener.get("hostname") or ""), int(listener["port"])
    host = next(iter(ref.hostnames), "") or ("" if "*" in own else own) or _address(gateway)
    return f"{scheme}://{host}{'' if port == usual else f':{port}'}" if host else ""


def _serving(ref: GatewayRef, listeners: Iterable[Body]) -> Iterator[Body]:
    for each in listeners:
        own, is_named = str(each.get("hostname") or ""), ref.listener in ("", each.get("name"))
        if is_named and each.get("protocol") in _SCHEMES and _is_served(own, ref.hostnames):
            yield each


def _is_served(own: str, hostnames: tuple[str, ...]) -> bool:
    """Whether a listener with this host name takes the first of a route's host names."""
    if not own or not hostnames:
        return True
    return hostnames[0].endswith(own[1:]) if own.startswith("*.") else hostnames[0] == own


def _address(gateway: Body) -> str:
    for each in _mapping(gateway.get("status")).get("addresses") or ():
        value = str(each.get("value") or "")
        if value:
            return f"[{value}]" if ":" in value else value
    return ""


def _mapping(value: object) -> Body:
    return value if isinstance(value, Mapping) else {}
