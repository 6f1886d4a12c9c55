"""GPUs that a namespace may still request, from its ResourceQuotas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from plimsoll.domain.units import parse_quantity
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource

Body = Mapping[str, Any]

_PREFIX = "requests."
"""A quota can limit an extended resource only by its requests."""

_OURS = frozenset({"NotTerminating", "NotBestEffort"})
"""Scopes that engine pods are always in: they have requests and no deadline."""

_NOT_OURS = frozenset({"Terminating", "BestEffort"})
"""Scopes that engine pods are never in."""


@dataclass(frozen=True, slots=True)
class NamespaceQuotas:
    """The GPUs left by namespace and resource, and a message for each quota that could not be evaluated."""

    remaining: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()


def read_quotas(quotas: Iterable[Body]) -> NamespaceQuotas:
    """Return the GPUs left in every namespace. If several quotas limit one resource, the smallest remainder counts."""
    remaining: dict[str, dict[str, int]] = {}
    complaints: list[str] = []
    for quota in quotas:
        limits = dict(_left(quota))
        scopes = _scopes(quota)
        if not limits or scopes & _NOT_OURS:
            continue
        head = quota.get("metadata") or {}
        namespace = str(head.get("namespace") or "")
        if scopes - _OURS:
            names = ", ".join(sorted(scopes - _OURS))
            complaints.append(
                f"ResourceQuota {namespace}/{head.get('name')} limits GPUs for pods of the scope {names}, which is not "
                "evaluated here: placement goes on without it."
            )
            continue
        known = remaining.setdefault(namespace, {})
        for resource, left in limits.items():
            known[resource] = min(left, known.get(resource, left))
    return NamespaceQuotas(remaining, tuple(complaints))


def limits_gpus(name: str) -> bool:
    """Whether an entry of a quota limits GPUs or slices."""
    return name.startswith(_PREFIX) and is_gpu_resource(name.removeprefix(_PREFIX))


def _left(quota: Body) -> Iterator[tuple[str, int]]:
    hard = (quota.get("spec") or {}).get("hard") or {}
    used = (quota.get("status") or {}).get("used") or {}
    for name, limit in hard.items():
        most = _number(limit) if limits_gpus(str(name)) else None
        if most is not None:
            yield str(name).removeprefix(_PREFIX), max(0, most - (_number(used.get(name)) or 0))


def _scopes(quota: Body) -> frozenset[str]:
    """Return the scopes of a quota, from both ways to write them.

    A scope with another operator than ``Exists`` keeps the operator in its name, so it counts as unknown.
    """
    spec = quota.get("spec") or {}
    plain = {str(scope) for scope in spec.get("scopes") or ()}
    for term in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        name = str(term.get("scopeName"))
        plain.add(name if term.get("operator") == "Exists" else f"{name} {term.get('operator')}")
    return frozenset(plain)


def _number(quantity: Any) -> int | None:
    if quantity is None:
        return None
    try:
        return max(0, int(parse_quantity(str(quantity))))
    except (ValueError, ArithmeticError):
        return None
