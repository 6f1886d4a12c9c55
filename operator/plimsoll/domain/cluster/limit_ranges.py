"""LimitRanges: what a namespace demands of each container and each pod, and what it adds to those that state nothing.

The API server applies them to new pods alone. Source: ``plugin/pkg/admission/limitranger/admission.go`` of Kubernetes.
All amounts are in thousandths: of a core, a byte, a device, or a ratio.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from plimsoll.domain.cluster.host import Amounts

MILLI = 1000
"""The parts of one unit in which amounts are compared."""


class LimitedBy(StrEnum):
    """What an entry of a LimitRange is about. Entries about claims limit no pod."""

    CONTAINER = "Container"
    POD = "Pod"


class LimitRule(StrEnum):
    """The field of a LimitRange that refuses a pod."""

    MIN = "min"
    MAX = "max"
    RATIO = "maxLimitRequestRatio"
    DEFAULT = "default"


class Stated(NamedTuple):
    """The request and the limit of a pod's only container for one resource; None where it states none."""

    request: int | None
    limit: int | None


NOTHING_STATED = Stated(None, None)


@dataclass(frozen=True, slots=True)
class LimitEntry:
    """The bounds of one entry, by resource."""

    limited: LimitedBy
    least: Amounts = ()
    most: Amounts = ()
    ratio: Amounts = ()


@dataclass(frozen=True, slots=True)
class LimitRange:
    """One LimitRange. ``limits`` and ``requests`` are filled in where a container states none, by resource."""

    name: str
    entries: tuple[LimitEntry, ...] = ()
    limits: Amounts = ()
    requests: Amounts = ()


class Exceeded(NamedTuple):
    """A bound that refuses a pod.

    ``asked`` is the pod's figure: its limit if ``of_limit`` is set, else its request; None if it states none. It is the
    limit divided by the request for a ratio. ``limited`` says whose figure is bounded.
    """

    limit_range: str
    limited: LimitedBy
    rule: LimitRule
    resource: str
    asked: int | None
    bound: int
    of_limit: bool = False


def exceeded(pod: Mapping[str, Stated], ranges: Sequence[LimitRange]) -> tuple[Exceeded, ...]:
    """Return the bounds that may refuse a pod with one container: one for each resource, sorted by its name.

    If several LimitRanges have defaults for one resource, the API server takes those of any of them. So the pod counts
    as refused if one of these choices refuses it. Otherwise the answer is exact.
    """
    found = (_first(resource, pod.get(resource, NOTHING_STATED), ranges) for resource in _resources(ranges))
    return tuple(each for each in found if each is not None)


def filled(resource: str, stated: Stated, ranges: Sequence[LimitRange]) -> Iterator[tuple[Stated, str]]:
    """Yield what a container may have after the defaults, each with the LimitRange of the limit; empty for none.

    The first LimitRange fills in limit and request. The order in which they come is not defined.
    """
    defaults = [(each.name, dict(each.limits).get(resource), dict(each.requests).get(resource)) for each in ranges]
    limiting = [each for each in defaults if each[1] is not None] if stated.limit is None else []
    asking = [each for each in defaults if each[2] is not None] if stated.request is None else []
    for name, limit, _ in limiting or [("", stated.limit, None)]:
        # A LimitRange that comes before those with a limit adds its request alone.
        first = [each for each in asking if each[0] == name or each not in limiting] or [("", None, stated.request)]
        for _, _, request in first:
            yield Stated(request, limit), name


def default_limit(resource: str, ranges: Sequence[LimitRange]) -> int | None:
    """Return the limit that a container gets if it states none, the largest possible one; None if it gets none."""
    return max((amount for each in ranges for name, amount in each.limits if name == resource), default=None)


def added_requests(ranges: Iterable[LimitRange], stated: Iterable[str]) -> dict[str, int]:
    """Return the requests that are filled in for resources that a pod does not state, the largest possible ones."""
    found: dict[str, int] = {}
    known = set(stated)
    for resource, amount in (entry for each in ranges for entry in each.requests):
        if resource not in known:
            found[resource] = max(amount, found.get(resource, 0))
    return found


def _resources(ranges: Sequence[LimitRange]) -> list[str]:
    found: set[str] = set()
    for each in ranges:
        found.update(name for name, _ in (*each.limits, *each.requests))
        for entry in each.entries:
            found.update(name for name, _ in (*entry.least, *entry.most, *entry.ratio))
    return sorted(found)


def _first(resource: str, stated: Stated, ranges: Sequence[LimitRange]) -> Exceeded | None:
    """Return the bound to report: one that a limit of the pod's own would not lift comes before all others."""
    found = [
        each for given, source in filled(resource, stated, ranges) for each in _of(resource, given, source, ranges)
    ]
    return min(found, key=lambda each: each.rule is LimitRule.DEFAULT, default=None)


def _of(resource: str, given: Stated, source: str, ranges: Sequence[LimitRange]) -> Iterator[Exceeded]:
    for each in ranges:
        for entry in each.entries:
            for rule, asked, bound, of_limit in _broken(resource, given, entry):
                yield Exceeded(each.name, entry.limited, rule, resource, asked, bound, of_limit)
    # Source: validateContainerResourceRequirements in pkg/apis/core/validation/validation.go: "must be less than or
    # equal to ... limit".
    if source and given.request is not None and given.limit is not None and given.request > given.limit:
        yield Exceeded(source, LimitedBy.CONTAINER, LimitRule.DEFAULT, resource, given.request, given.limit)


def _broken(resource: str, given: Stated, entry: LimitEntry) -> Iterator[tuple[LimitRule, int | None, int, bool]]:
    """Yield the rules of an entry that a container breaks: ``minConstraint``, ``maxConstraint`` and the ratio's.

    A pod of one container has the container's figures, so entries for pods have the same rules.
    """
    request, limit = given
    least, most, ratio = (dict(each).get(resource) for each in (entry.least, entry.most, entry.ratio))
    if least is not None and (request is None or request < least):
        yield LimitRule.MIN, request, least, False
    elif least is not None and limit is not None and limit < least:
        yield LimitRule.MIN, limit, least, True
    if most is not None and request is not None and request > most:
        yield LimitRule.MAX, request, most, False
    elif most is not None and (limit is None or limit > most):
        yield LimitRule.MAX, limit, most, True
    if ratio is not None and not (request and limit):
        yield LimitRule.RATIO, None, ratio, True
    elif ratio is not None and request and limit and limit / request * MILLI > ratio:  # floats, as the API server's
        yield LimitRule.RATIO, round(limit / request * MILLI), ratio, True
