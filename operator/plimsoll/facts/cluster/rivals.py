"""InferenceDeployments of one namespace that ask for the same InferencePool, or for the same host name at a Gateway.

The loops of both would count the same queue, or the requests of one would reach the replicas of the other. The one that
has an InferencePool of its own already keeps it, because nobody who serves may be harmed by what another one writes
later. Of others, the older one does.

What other namespaces ask for is not compared: a namespace that a Gateway does not admit must not be able to keep a host
name from one that it does. Of two equal matches of different routes the Gateway API gives requests to the older route.
A longer path, or a host name without a wildcard, comes before that, so a Gateway has to admit only namespaces that may
have its host names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.routing import RoutingMode
from plimsoll.facts.cluster.gateway_reading import named_gateway, named_pool

Body = Mapping[str, Any]


class _Claim(NamedTuple):
    """A pool or a host name that is asked for. An empty ``listener`` is every listener of the Gateway."""

    field: str
    value: str
    gateway: str = ""
    listener: str = ""

    def conflicts_with(self, other: _Claim) -> bool:
        is_same = (self.value, self.gateway) == (other.value, other.gateway)
        return is_same and ("" in (self.listener, other.listener) or self.listener == other.listener)


def rivals(
    bodies: Iterable[Body], with_pools: Collection[ObjectKey] = frozenset()
) -> dict[ObjectKey, tuple[str, str, str]]:
    """Return why some of the InferenceDeployments are refused: the field, its value, and who has it and the fix.

    Args:
        bodies: all InferenceDeployments as they are stored.
        with_pools: those of them that have an InferencePool of their own.
    """
    asking = [(body, claims) for body in bodies if (claims := list(_claims(body)))]
    asking.sort(key=lambda each: (_key(each[0]) not in with_pools, _rank(each[0])))
    holders: dict[tuple[str, str], list[tuple[_Claim, str]]] = {}
    found: dict[ObjectKey, tuple[str, str, str]] = {}
    for body, claims in asking:
        key = _key(body)
        for claim in claims:
            held = holders.setdefault((key.namespace, claim.value), [])
            holder = next((by for other, by in held if claim.conflicts_with(other) and by != key.name), None)
            if holder is not None:
                found.setdefault(key, _refusal(claim, holder))
            held.append((claim, key.name))
    return found


def _key(body: Body) -> ObjectKey:
    head = body["metadata"]
    return ObjectKey(str(head["namespace"]), str(head["name"]))


def _rank(body: Body) -> tuple[str, str, str]:
    key = _key(body)
    return str(body["metadata"].get("creationTimestamp") or ""), key.namespace, key.name


_ROUTER, _QUEUE, _HOSTS = (
    "spec.routing.mode",
    "spec.rebalancing.gateway.inferencePool",
    "spec.routing.gateway.hostnames",
)


def _claims(body: Body) -> Iterator[_Claim]:
    """Yield the pools and the host names that an InferenceDeployment asks for."""
    spec, key = body.get("spec"), _key(body)
    if not isinstance(spec, dict) or body["metadata"].get("deletionTimestamp"):
        return
    routing, pool = spec.get("routing"), named_pool(spec)
    if isinstance(routing, dict) and routing.get("mode") in (RoutingMode.STANDALONE, RoutingMode.GATEWAY):
        yield _Claim(_ROUTER, key.name)
    if pool:
        yield _Claim(_QUEUE, pool)
    through = named_gateway(spec, key.namespace)
    if through is not None:
        yield from (_Claim(_HOSTS, host, str(through.key), through.listener) for host in through.hostnames)


def _refusal(claim: _Claim, holder: str) -> tuple[str, str, str]:
    who, value = f"InferenceDeployment {holder}", claim.value
    if claim.field == _HOSTS:
        return claim.field, value, f"{who} has that host name at Gateway {claim.gateway}: write another one."
    if claim.field == _ROUTER:
        fix = "set it to Service, or remove spec.rebalancing.gateway there."
        return claim.field, f"a router with InferencePool {value}", f"{who} counts the queue of that pool: {fix}"
    return claim.field, value, f"{who} counts the queue of that pool: name a pool of its own, or remove the field."
