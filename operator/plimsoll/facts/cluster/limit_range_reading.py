"""The LimitRanges of each namespace, with the defaults that the API server gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING
from typing import Any

from plimsoll.domain.cluster.host import Amounts
from plimsoll.domain.cluster.limit_ranges import MILLI, LimitedBy, LimitEntry, LimitRange
from plimsoll.domain.units import parse_quantity
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource

Body = Mapping[str, Any]

LimitRanges = Mapping[str, tuple[LimitRange, ...]]
"""The LimitRanges by namespace, each sorted by name."""

PARTS = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
"""The fields of an entry that hold quantities by resource."""

_TYPES = {each.value: each for each in LimitedBy}


def read_limit_ranges(bodies: Iterable[Body]) -> LimitRanges:
    """Return the LimitRanges that may refuse or change a pod. A quantity that cannot be read limits nothing."""
    found: dict[str, list[LimitRange]] = {}
    for body in bodies:
        head = body.get("metadata") or {}
        read = _limit_range(str(head.get("name") or ""), limits_of_pods(body))
        if read.entries or read.limits or read.requests:
            found.setdefault(str(head.get("namespace") or ""), []).append(read)
    return {namespace: tuple(sorted(each, key=lambda one: one.name)) for namespace, each in found.items()}


def limits_of_pods(body: Body) -> list[Body]:
    """Return the entries of a LimitRange that are about containers or pods."""
    return [each for each in (body.get("spec") or {}).get("limits") or () if each.get("type") in _TYPES]


def _limit_range(name: str, limits: Iterable[Body]) -> LimitRange:
    entries: list[LimitEntry] = []
    filled: dict[str, int] = {}
    asked: dict[str, int] = {}
    for each in limits:
        limited = _TYPES[each["type"]]
        least, most, default, request, ratio = (_amounts(each.get(part)) for part in PARTS)
        if least or most or ratio:
            entries.append(LimitEntry(limited, _sorted(least), _sorted(most), _sorted(ratio)))
        if limited is LimitedBy.CONTAINER:
            # Source: SetDefaults_LimitRangeItem in pkg/apis/core/v1/defaults.go of Kubernetes.
            default = {**most, **default}
            filled |= default
            asked |= {**least, **default, **request}
    return LimitRange(name, tuple(entries), _of_pods(filled), _of_pods(asked))


def _of_pods(amounts: Mapping[str, int]) -> Amounts:
    """Return defaults without those for GPUs, which every engine states itself."""
    return _sorted({name: amount for name, amount in amounts.items() if not is_gpu_resource(name)})


def _amounts(quantities: Body | None) -> dict[str, int]:
    found = ((str(name), _thousandths(quantity)) for name, quantity in (quantities or {}).items())
    return {name: amount for name, amount in found if amount is not None}


def _thousandths(quantity: Any) -> int | None:
    try:
        return int((parse_quantity(str(quantity)) * MILLI).to_integral_value(ROUND_CEILING))
    except (ValueError, ArithmeticError):
        return None


def _sorted(amounts: Mapping[str, int]) -> Amounts:
    return tuple(sorted(amounts.items()))
