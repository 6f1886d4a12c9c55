"""The LimitRanges of each namespace, with the defaults that the API server gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING
from heapq import nsmallest
from typing import Any

from plimsoll.domain.cluster.host import Amounts
from plimsoll.domain.cluster.limit_ranges import MILLI, Bound, LimitedBy, LimitRange, LimitRule
from plimsoll.domain.units import parse_quantity
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource

Body = Mapping[str, Any]

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


def read_limit_ranges(bodies: Iterable[Body]) -> LimitRanges:
    """Return the LimitRanges that may refuse or change a pod. A quantity that cannot be read limits nothing."""
    found: dict[str, list[LimitRange]] = {}
    for body in bodies:
        head = body.get("metadata") or {}
        read = _limit_range(str(head.get("name") or ""), limits_of_pods(body))
        if read.bounds or read.limits or read.requests:
            found.setdefault(str(head.get("namespace") or ""), []).append(read)
    return {namespace: tuple(sorted(each, key=_name)[:MOST_ENTRIES]) for namespace, each in found.items()}


def limits_of_pods(body: Body) -> list[Body]:
    """Return the entries of a LimitRange that are about containers or pods, with what is read of them."""
    listed = (body.get("spec") or {}).get("limits") or ()
    entries = [each for each in listed if each.get("type") in _TYPES][:MOST_ENTRIES]
    return [
        {"type": each["type"], **{part: _first(each[part]) for part in PARTS if each.get(part)}} for each in entries
    ]


def _name(limit_range: LimitRange) -> str:
    return limit_range.name


def _first(quantities: Body) -> Body:
    """Return the quantities that are read: those of CPU, memory and GPUs come before all others."""
    if len(quantities) <= MOST_ENTRIES:
        return quantities
    names = nsmallest(MOST_ENTRIES, quantities, key=lambda name: (name not in _CORE, not is_gpu_resource(name), name))
    return {name: quantities[name] for name in names}


def _limit_range(name: str, limits: Iterable[Body]) -> LimitRange:
    bounds: list[Bound] = []
    filled: dict[str, int] = {}
    asked: dict[str, int] = {}
    for each in limits:
        limited = _TYPES[each["type"]]
        amounts = {part: _amounts(each.get(part)) for part in PARTS}
        bounds += [Bound(limited, rule, *bound) for part, rule in _RULES for bound in sorted(amounts[part].items())]
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
