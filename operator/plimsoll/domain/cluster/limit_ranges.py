"""LimitRanges: what a namespace demands of each container and each pod, and what it adds to those that state nothing.

The API server applies them to new pods alone. Source: ``plugin/pkg/admission/limitranger/admission.go`` of Kubernetes.
All amounts are in thousandths: of a core, a byte, a device, or a ratio.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from plimsoll.domain.cluster.containers import MILLI, NOTHING_STATED, Companion, Companions, Stated, together
from plimsoll.domain.cluster.host import Amounts


class LimitedBy(StrEnum):
    """The subject of an entry of a LimitRange. Entries about claims limit no pod."""

    CONTAINER = "Container"
    POD = "Pod"


class LimitRule(StrEnum):
    """The field of a LimitRange that refuses a pod."""

    MIN = "min"
    MAX = "max"
    RATIO = "maxLimitRequestRatio"
    DEFAULT = "default"


class LimitRangeBound(NamedTuple):
    """One figure of a LimitRange: for whom, by which rule, of which resource, and the amount."""

    limited: LimitedBy
    rule: LimitRule
    resource: str
    amount: int


@dataclass(frozen=True, slots=True)
class LimitRange:
    """One LimitRange. ``limits`` and ``requests`` are filled in if a container states none, by resource."""

    name: str
    bounds: tuple[LimitRangeBound, ...] = ()
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


def exceeded(
    engine: Mapping[str, Stated], ranges: Sequence[LimitRange], companions: Companions = ()
) -> tuple[Exceeded, ...]:
    """Return the bounds that may refuse a pod: one for each resource, sorted by its name.

    ``engine`` is what its engine's container states, and ``companions`` are its further containers.

    A bound that a limit of the pod's own would not lift comes before a default limit that is too low.

    If several LimitRanges have defaults for one resource, the API server takes those of any of them. So the pod counts
    as refused if one of these choices refuses it. Otherwise the answer is exact.
    """
    filled = _Filled(engine, ranges)
    found: dict[str, Exceeded] = {}
    for each in ranges:
        for bound in each.bounds:
            for given in _bounded(bound, [given for given, _ in filled.of(bound.resource)], companions):
                broken = _broken(given, bound)
                if broken is not None:
                    found.setdefault(
                        bound.resource, Exceeded(each.name, *bound[:3], broken.asked, bound.amount, broken.of_limit)
                    )
    # Source: validateContainerResourceRequirements in pkg/apis/core/validation/validation.go: a request "must be less
    # than or equal to" the limit.
    for resource in filled.limits:
        for given, source in filled.of(resource):
            if source and given.request is not None and given.limit is not None and given.request > given.limit:
                bound = LimitRangeBound(LimitedBy.CONTAINER, LimitRule.DEFAULT, resource, given.limit)
                found.setdefault(resource, Exceeded(source, *bound[:3], given.request, given.limit))
    return tuple(found[resource] for resource in sorted(found))


def _bounded(bound: LimitRangeBound, engine: Iterable[Stated], companions: Companions) -> Iterator[Stated]:
    """Yield the figures that one bound is about, for each of those that the engine's container may have."""
    if bound.limited is LimitedBy.POD:
        yield from (together(each, companions, bound.resource) for each in engine)
    else:
        yield from engine
        yield from (each.of(bound.resource) for each in companions)


class _Filled:
    """The amounts that the engine's container may have after the defaults."""

    def __init__(self, pod: Mapping[str, Stated], ranges: Sequence[LimitRange]) -> None:
        self.limits = _by_resource((each.name, each.limits) for each in ranges)
        self._requests = _by_resource((each.name, each.requests) for each in ranges)
        self._pod = pod
        self._known: dict[str, tuple[tuple[Stated, str], ...]] = {}

    def of(self, resource: str) -> tuple[tuple[Stated, str], ...]:
        """Return the possible amounts, each with the LimitRange that the limit is from; empty for none."""
        if resource not in self._known:
            self._known[resource] = tuple(self._possible(resource))
        return self._known[resource]

    def _possible(self, resource: str) -> Iterator[tuple[Stated, str]]:
        """Yield the amounts for each order of the LimitRanges: the order is not defined, and the first one fills in."""
        stated = self._pod.get(resource, NOTHING_STATED)
        limits = {} if stated.limit is not None else self.limits.get(resource, {})
        requests = {} if stated.request is not None else self._requests.get(resource, {})
        limiting: list[tuple[str, int | None]] = [*limits.items()]
        for source, limit in limiting or [("", stated.limit)]:
            # A LimitRange that comes before those with a limit adds its request alone.
            first = [Stated(amount, limit) for name, amount in requests.items() if name == source or name not in limits]
            for given in first or [Stated(stated.request, limit)]:
                yield given, source


def _by_resource(named: Iterable[tuple[str, Amounts]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, amounts in named:
        for resource, amount in amounts:
            found.setdefault(resource, {})[name] = amount
    return found


def default_limit(resource: str, ranges: Sequence[LimitRange]) -> int | None:
    """Return the limit that a container gets if it states none, the largest possible one; None if it gets none."""
    return max((amount for each in ranges for name, amount in each.limits if name == resource), default=None)


def filled_in(companions: Companions, ranges: Sequence[LimitRange]) -> Companions:
    """Return the further containers with the requests and limits that they get where they state none."""
    return tuple(each._replace(stated=_with_defaults(each, ranges)) for each in companions)


def _with_defaults(companion: Companion, ranges: Sequence[LimitRange]) -> tuple[tuple[str, Stated], ...]:
    stated, requests = dict(companion.stated), added_requests(ranges, ())
    names = {*stated, *requests, *(name for each in ranges for name, _ in each.limits)}
    for name in names:
        request, limit = stated.get(name, NOTHING_STATED)
        limit = default_limit(name, ranges) if limit is None else limit
        stated[name] = Stated(requests.get(name, limit) if request is None else request, limit)
    return tuple(sorted(stated.items()))


def added_requests(ranges: Iterable[LimitRange], stated: Iterable[str]) -> dict[str, int]:
    """Return the requests that are filled in for resources that a pod does not state, the largest possible ones."""
    found: dict[str, int] = {}
    known = set(stated)
    for resource, amount in (entry for each in ranges for entry in each.requests):
        if resource not in known:
            found[resource] = max(amount, found.get(resource, 0))
    return found


class _Figure(NamedTuple):
    """The figure of a pod that breaks a bound: its limit, or its request; None if it states none."""

    asked: int | None
    of_limit: bool


def _broken(given: Stated, bound: LimitRangeBound) -> _Figure | None:
    """Return the figure that breaks a bound, as ``minConstraint``, ``maxConstraint`` and the ratio's do it, or None.

    Bounds of pods have the same rules as those of containers.
    """
    request, limit = given
    if bound.rule is LimitRule.MIN:
        if request is None or request < bound.amount:
            return _Figure(request, of_limit=False)
        return _Figure(limit, of_limit=True) if limit is not None and limit < bound.amount else None
    if bound.rule is LimitRule.MAX:
        if request is not None and request > bound.amount:
            return _Figure(request, of_limit=False)
        return _Figure(limit, of_limit=True) if limit is None or limit > bound.amount else None
    if not (request and limit):
        return _Figure(None, of_limit=True)
    ratio = limit / request * MILLI  # floats, as the API server's
    return _Figure(round(ratio), of_limit=True) if ratio > bound.amount else None
