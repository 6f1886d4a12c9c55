"""InferenceDeployments of one namespace that ask for the same InferencePool, or for the same host name at a Gateway.

The loops of both would count the same queue, or the requests of one would reach the replicas of the other. The older
one keeps it. What other namespaces ask for is not compared: a namespace that a Gateway does not admit must not be able
to keep a host name from one that it does, and the Gateway API itself gives it to the older route.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.routing import RoutingMode
from plimsoll.facts.cluster.gateway_reading import named_gateway

Body = Mapping[str, Any]

_Claim = tuple[str, ...]


def rivals(bodies: Iterable[Body]) -> dict[ObjectKey, tuple[str, str, str]]:
    """Return why some of the InferenceDeployments are refused: the field, its value, and who has it and the fix.

    Args:
        bodies: all InferenceDeployments as they are stored.
    """
    asking = [(body, claims) for body in bodies if (claims := list(_claims(body)))]
    asking.sort(key=lambda each: _rank(each[0]))
    holders: dict[tuple[str, _Claim], str] = {}
    for body, _ in asking:
        if _has_router(body):
            key = _key(body)
            holders[key.namespace, ("pool", key.name)] = key.name
    found: dict[ObjectKey, tuple[str, str, str]] = {}
    for body, claims in asking:
        key = _key(body)
        for claim in claims:
            holder = holders.setdefault((key.namespace, claim), key.name)
            if holder != key.name:
                found.setdefault(key, _refusal(claim, holder))
    return found


def _key(body: Body) -> ObjectKey:
    head = body["metadata"]
    return ObjectKey(str(head["namespace"]), str(head["name"]))


def _rank(body: Body) -> tuple[str, str, str]:
    key = _key(body)
    return str(body["metadata"].get("creationTimestamp") or ""), key.namespace, key.name


def _claims(body: Body) -> Iterator[_Claim]:
    """Yield the pools and the host names that an InferenceDeployment asks for."""
    spec, key = body.get("spec"), _key(body)
    if not isinstance(spec, dict) or body["metadata"].get("deletionTimestamp"):
        return
    if _has_router(body):
        yield "pool", key.name
    loop = spec.get("rebalancing")
    before = loop.get("gateway") if isinstance(loop, dict) else None
    if isinstance(before, dict):
        yield "pool", str(before.get("inferencePool"))
    through = named_gateway(spec, key.namespace)
    if through is not None:
        yield from (("host", str(through.key), through.listener, host) for host in through.hostnames)


def _has_router(body: Body) -> bool:
    routing = (body.get("spec") or {}).get("routing")
    is_routed = isinstance(routing, dict) and routing.get("mode") in (RoutingMode.STANDALONE, RoutingMode.GATEWAY)
    return is_routed and not body["metadata"].get("deletionTimestamp")


def _refusal(claim: _Claim, holder: str) -> tuple[str, str, str]:
    if claim[0] == "pool":
        field, value, has = "spec.rebalancing.gateway.inferencePool", claim[1], "counts the queue of that pool"
        return field, value, f"InferenceDeployment {holder} {has}: name a pool of its own, or remove the field."
    _, gateway, _, host = claim
    fix = f"InferenceDeployment {holder} has that host name at Gateway {gateway}: write another one."
    return "spec.routing.gateway.hostnames", host, fix
