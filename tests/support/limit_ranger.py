"""The API server's LimitRanger once more, written after its source as text: an oracle that shares no code with ours.

Quantities are decimals, defaults are set one LimitRange after the other, and an error is a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import permutations
from typing import Any

from plimsoll.domain.units import parse_quantity

Body = Mapping[str, Any]
Quantities = dict[str, Decimal]


def answers(bodies: Sequence[Body], requests: Mapping[str, str], limits: Mapping[str, str]) -> set[bool]:
    """Whether a pod with one container is admitted, for every order in which the LimitRanges may come."""
    return {_is_admitted(order, requests, limits) for order in permutations(bodies)}


def _is_admitted(bodies: Sequence[Body], requests: Mapping[str, str], limits: Mapping[str, str]) -> bool:
    own_limits, own_requests = _parsed(limits), {**_parsed(limits), **_parsed(requests)}  # SetDefaults_Pod
    entries = [[_with_defaults(each) for each in body["spec"]["limits"]] for body in bodies]
    for each in entries:  # mergePodResourceRequirements
        for name, amount in _merged(each, "default").items():
            own_limits.setdefault(name, amount)
        for name, amount in _merged(each, "defaultRequest").items():
            own_requests.setdefault(name, amount)
    if any(own_requests[name] > limit for name, limit in own_limits.items() if name in own_requests):
        return False  # validation of the pod
    return not any(_errors(entry, own_requests, own_limits) for each in entries for entry in each)


def _with_defaults(entry: Body) -> dict[str, Any]:
    """``SetDefaults_LimitRangeItem``."""
    found = {name: _parsed(part) if isinstance(part, dict) else part for name, part in entry.items()}
    for part in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"):
        found.setdefault(part, {})
    if entry["type"] == "Container":
        for source, target in (("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")):
            for name, amount in found[source].items():
                found[target].setdefault(name, amount)
    return found


def _merged(entries: Iterable[Body], part: str) -> Quantities:
    found: Quantities = {}
    for entry in entries:
        if entry["type"] == "Container":
            found.update(entry[part])
    return found


def _errors(entry: Body, requests: Quantities, limits: Quantities) -> list[str]:
    """``PodValidateLimitFunc``; of a pod with one container the sums are the container's own amounts."""
    if entry["type"] not in {"Container", "Pod"}:
        return []
    found = []
    for name, least in entry["min"].items():
        if name not in requests or requests[name] < least or (name in limits and limits[name] < least):
            found.append(f"Minimum {name} usage")
    for name, most in entry["max"].items():
        if name not in limits or limits[name] > most or (name in requests and requests[name] > most):
            found.append(f"Maximum {name} usage")
    for name, ratio in entry["maxLimitRequestRatio"].items():
        request, limit = requests.get(name), limits.get(name)
        if not request or not limit or float(limit) / float(request) * 1000 > float(ratio * 1000):
            found.append(f"{name} max limit to request ratio")
    return found


def _parsed(quantities: Mapping[str, str]) -> Quantities:
    return {name: parse_quantity(quantity) for name, quantity in quantities.items()}


def limit_range(name: str = "limits", namespace: str = "team", **item: Any) -> dict[str, Any]:
    """A LimitRange with one entry for containers, or of another ``type``."""
    return limit_range_of([{"type": "Container", **item}], name, namespace)


def limit_range_of(limits: list[dict[str, Any]], name: str = "limits", namespace: str = "team") -> dict[str, Any]:
    """A LimitRange with these entries."""
    head = {"name": name, "namespace": namespace, "uid": f"limits-{name}", "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": head, "spec": {"limits": limits}}
