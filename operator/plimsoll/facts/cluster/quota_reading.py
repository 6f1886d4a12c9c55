"""The limits of namespaces: what their ResourceQuotas leave of GPUs, CPU, memory and pods, and their LimitRanges.

LimitRanges are read with the defaults that the API server gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from heapq import nsmallest
from operator import attrgetter
from typing import Any

from plimsoll.domain.cluster.containers import MILLI
from plimsoll.domain.cluster.host import Amounts
from plimsoll.domain.cluster.limit_ranges import LimitedBy, LimitRange, LimitRangeBound, LimitRule
from plimsoll.domain.cluster.quota_accounts import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, PRIORITY_CLASS, account_of
from plimsoll.domain.kubernetes_names import CPU_REQUESTS, MEMORY_REQUESTS, OF_CPU, OF_MEMORY, OF_PODS
from plimsoll.domain.units import parse_quantity
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource

Body = Mapping[str, Any]

_PREFIX = "requests."
"""A quota can limit an extended resource only by its requests."""

_ALIASES = {"cpu": CPU_REQUESTS, "memory": MEMORY_REQUESTS}
"""A quota may name requests of CPU and memory without the prefix. Source: Kubernetes, "Resource Quotas"."""

_OURS = frozenset({"NotTerminating", "NotBestEffort"})
"""Scopes that engine pods are always in: they have requests and no deadline."""

_NOT_OURS = frozenset({"Terminating", "BestEffort"})
"""Scopes that engine pods are never in."""

_STORAGE = frozenset({"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"})

_OTHER_OBJECTS = frozenset({"count/deployments.apps", "count/replicasets.apps", "services", "count/services"})
"""Entries for what is made next to the pods of a deployment."""

_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)

LimitRanges = Mapping[str, tuple[LimitRange, ...]]
"""The LimitRanges by namespace, each sorted by name."""

PARTS = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
"""The fields of an entry that hold quantities by resource."""

_RULES = (("min", LimitRule.MIN), ("max", LimitRule.MAX), ("maxLimitRequestRatio", LimitRule.RATIO))

MOST_ENTRIES = 16
"""The most entries of one LimitRange, the most resources in a part of one, and the most LimitRanges of a namespace that
are read, the first ones: a hostile tenant may write thousands. What is over counts as absent."""

_CORE = frozenset({"cpu", "memory"})

_TYPES = {each.value: each for each in LimitedBy}


@dataclass(frozen=True, slots=True)
class NamespaceQuotas:
    """The amounts left by namespace and account, and a message for each quota that could not be evaluated.

    An amount is negative if the limit was lowered below what is taken.

    :mod:`plimsoll.domain.cluster.quota_accounts` has the accounts. GPUs have the names of their resources.
    :mod:`plimsoll.domain.kubernetes_names` has the names and units of CPU, memory and pods.
    """

    remaining: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()


def read_quotas(quotas: Iterable[Body]) -> NamespaceQuotas:
    """Return what is left in every namespace. If several quotas limit one resource, the smallest remainder counts."""
    remaining: dict[str, dict[str, int]] = {}
    complaints: list[str] = []
    for quota in quotas:
        limits = _left(quota)
        scopes, terms = _scopes(quota), _terms(quota)
        unread = sorted(name for name in map(str, (quota.get("spec") or {}).get("hard") or {}) if is_named(name))
        if not (limits or unread) or scopes & _NOT_OURS:
            continue
        head = quota.get("metadata") or {}
        namespace = str(head.get("namespace") or "")
        if unread and not scopes - _OURS:
            complaints.append(
                f"ResourceQuota {namespace}/{head.get('name')} limits {', '.join(unread)}, which is not evaluated "
                "here: placement goes on without it."
            )
        if not limits:
            continue
        if scopes - _OURS:
            names = ", ".join(sorted(scopes - _OURS))
            complaints.append(
                f"ResourceQuota {namespace}/{head.get('name')} limits pods of the scope {names}, which is not "
                "evaluated here: placement goes on without it."
            )
            continue
        known = remaining.setdefault(namespace, {})
        for resource, left in limits.items():
            account = account_of(resource, terms)
            known[account] = min(left, known.get(account, left))
    return NamespaceQuotas(remaining, tuple(complaints))


def is_read(name: str) -> bool:
    """Whether an entry of a quota limits GPUs or slices, CPU, memory or pods."""
    return _resource(name) is not None


def is_named(name: str) -> bool:
    """Whether an entry of a quota may refuse what a deployment needs, and is not evaluated."""
    if name in _STORAGE | _OTHER_OBJECTS or name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    bare = name.removeprefix(_PREFIX)
    # Devices, such as those of a fast network. Entries for a storage class have a slash, too.
    return bare != name and "/" in bare and not is_gpu_resource(bare)


def _resource(name: str) -> str | None:
    """Return the resource that an entry of a quota limits; None if engines are not planned by it."""
    plain = _ALIASES.get(name, name)
    if plain in OF_CPU | OF_MEMORY | OF_PODS:
        return plain
    bare = name.removeprefix(_PREFIX)
    return bare if bare != name and is_gpu_resource(bare) else None


def _left(quota: Body) -> dict[str, int]:
    hard = (quota.get("spec") or {}).get("hard") or {}
    used = (quota.get("status") or {}).get("used") or {}
    found: dict[str, int] = {}
    for name, limit in hard.items():
        resource, most = _resource(str(name)), _number(limit)
        if resource is not None and most is not None:
            unit = 1000 if resource in OF_CPU else 1
            left = int((most - (_number(used.get(name)) or 0)) * unit)
            found[resource] = min(left, found.get(resource, left))
    return found


def _scopes(quota: Body) -> frozenset[str]:
    """Return the scopes of a quota, from both ways to write them, but for those of PriorityClasses.

    A scope with another operator than ``Exists`` keeps the operator in its name, so it counts as unknown.
    """
    plain = {name if operator == EXISTS else f"{name} {operator}" for name, operator, _ in _expressions(quota)}
    return frozenset(plain - {PRIORITY_CLASS, *(f"{PRIORITY_CLASS} {operator}" for operator in _OPERATORS)})


def _terms(quota: Body) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the operators with the names of PriorityClasses whose pods the quota counts; none if it counts all."""
    return tuple((operator, names) for scope, operator, names in _expressions(quota) if scope == PRIORITY_CLASS)


def _expressions(quota: Body) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    spec = quota.get("spec") or {}
    for scope in spec.get("scopes") or ():
        yield str(scope), EXISTS, ()
    for term in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        yield str(term.get("scopeName")), str(term.get("operator")), tuple(map(str, term.get("values") or ()))


def _number(quantity: Any) -> Decimal | None:
    if quantity is None:
        return None
    try:
        return max(Decimal(0), parse_quantity(str(quantity)))
    except (ValueError, ArithmeticError):
        return None


def read_limit_ranges(bodies: Iterable[Body]) -> LimitRanges:
    """Return the LimitRanges that may refuse or change a pod. A quantity that cannot be read limits nothing."""
    found: dict[str, list[LimitRange]] = {}
    for body in bodies:
        head = body.get("metadata") or {}
        read = _limit_range(str(head.get("name") or ""), limits_of_pods(body))
        if read.bounds or read.limits or read.requests:
            found.setdefault(str(head.get("namespace") or ""), []).append(read)
    return {namespace: tuple(sorted(each, key=attrgetter("name"))[:MOST_ENTRIES]) for namespace, each in found.items()}


def limits_of_pods(body: Body) -> list[Body]:
    """Return the entries of a LimitRange that are about containers or pods, with what is read of them."""
    listed = (body.get("spec") or {}).get("limits") or ()
    entries = [each for each in listed if each.get("type") in _TYPES][:MOST_ENTRIES]
    return [
        {"type": each["type"], **{part: _first(each[part]) for part in PARTS if each.get(part)}} for each in entries
    ]


def _first(quantities: Body) -> Body:
    """Return the quantities that are read: those of CPU, memory and GPUs come before all others."""
    if len(quantities) <= MOST_ENTRIES:
        return quantities
    names = nsmallest(MOST_ENTRIES, quantities, key=lambda name: (name not in _CORE, not is_gpu_resource(name), name))
    return {name: quantities[name] for name in names}


def _limit_range(name: str, limits: Iterable[Body]) -> LimitRange:
    bounds: list[LimitRangeBound] = []
    filled: dict[str, int] = {}
    asked: dict[str, int] = {}
    for each in limits:
        limited = _TYPES[each["type"]]
        amounts = {part: _amounts(each.get(part)) for part in PARTS}
        bounds += [
            LimitRangeBound(limited, rule, *bound) for part, rule in _RULES for bound in sorted(amounts[part].items())
        ]
        if limited is LimitedBy.CONTAINER:
            # Source: SetDefaults_LimitRangeItem in pkg/apis/core/v1/defaults.go of Kubernetes.
            default = {**amounts["max"], **amounts["default"]}
            filled |= default
            asked |= {**amounts["min"], **default, **amounts["defaultRequest"]}
    return LimitRange(name, tuple(bounds), _of_pods(filled), _of_pods(asked))


def _of_pods(amounts: Mapping[str, int]) -> Amounts:
    """Return defaults without those for GPUs, which every engine states itself."""
    return tuple(sorted((name, amount) for name, amount in amounts.items() if not is_gpu_resource(name)))


def _amounts(quantities: Body | None) -> dict[str, int]:
    found = ((str(name), _thousandths(quantity)) for name, quantity in (quantities or {}).items())
    return {name: amount for name, amount in found if amount is not None}


def _thousandths(quantity: Any) -> int | None:
    try:
        return int((parse_quantity(str(quantity)) * MILLI).to_integral_value(ROUND_CEILING))
    except (ValueError, ArithmeticError):
        return None
