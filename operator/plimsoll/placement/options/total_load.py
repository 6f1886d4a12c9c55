"""The sizes of a deployment that declares the load of all its replicas: their number, and the requests of one replica.

Many small replicas on cheap GPUs, or one large replica on a dear one: which of them costs less depends on the GPUs that
are free. So a few sizes are offered, and a solver compares them (:mod:`plimsoll.placement.solvers.sizes`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.requests.serving import Request, TotalLoad
from plimsoll.domain.units import ceil_div
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.candidates import Candidate, candidates
from plimsoll.placement.options.feasibility import judge
from plimsoll.placement.options.nodes import sight
from plimsoll.placement.options.verdicts import price_of

MOST_SIZES = 5
"""The most sizes that are compared: each has its own table of options. They are the cheapest ones, the one with the
fewest replicas, and the one with the smallest, which fit on the most GPU types."""


@dataclass(frozen=True, slots=True)
class Size:
    """One size with its result: the places of the replicas, and the bill of all of them in US dollars an hour.

    ``missing`` replicas found no place. ``hourly_price`` is None if a price is not known or nothing was placed.
    """

    replicas: int
    concurrency: int
    places: tuple[str, ...]
    hourly_price: str | None
    missing: int


def with_size(request: Request, replicas: int, concurrency: int) -> Request:
    """Return the request with a chosen size: from then on it is like one that declares replicas and concurrency."""
    shape = replace(request.shape, concurrency=concurrency)
    return replace(request, shape=shape, replicas=replicas, total=None, is_sized=True)


def sizes_of(request: Request, fleet: Fleet, memo: Memo | None = None) -> tuple[Request, ...]:
    """Return the request in every size that may be the best one, the cheapest first.

    On each GPU type and split, the fewest replicas that hold the load, and are not too slow for people if any number is
    fast enough, are a size.
    If nothing fits, the only size is the one with the smallest replicas.
    """
    total = request.total or TotalLoad(request.shape.concurrency)
    if memo is None:
        numbers = _numbers(request, total, fleet)
    else:  # only the numbers are kept: the answer is shared by all deployments with equal content
        numbers = memo.recall(request, "sizes", sight(request, fleet), lambda: _numbers(request, total, fleet))
    return tuple(_with(request, total, each) for each in numbers)


def _numbers(request: Request, total: TotalLoad, fleet: Fleet) -> tuple[int, ...]:
    judged = (_fewest(request, total, candidate, fleet) for candidate in candidates(request, fleet))
    numbers = [replicas for *_, replicas in sorted(each for each in judged if each is not None)]
    if not numbers:
        return (_bounds(request, total)[1],)
    cheapest = list(dict.fromkeys(numbers))[: MOST_SIZES - 2]
    return tuple(dict.fromkeys([*cheapest, min(numbers), max(numbers)]))


def _with(request: Request, total: TotalLoad, replicas: int) -> Request:
    return with_size(request, replicas, ceil_div(total.requests, replicas))


def _bounds(request: Request, total: TotalLoad) -> tuple[int, int]:
    """Return the fewest and the most replicas. A replica has at least one request, and at most what the user allows."""
    most = request.engine.limits.sequences
    fewest = total.min_replicas if most == 0 else max(total.min_replicas, ceil_div(total.requests, most))
    return fewest, max(fewest, min(total.max_replicas, total.requests))


def _fewest(request: Request, total: TotalLoad, candidate: Candidate, fleet: Fleet) -> tuple[int, float, int] | None:
    """Return doubts, bill and number of the fewest replicas that hold the load there; None if none do."""

    def option(replicas: int) -> Option | None:
        verdict = judge(_with(request, total, replicas), candidate, fleet)
        return verdict if isinstance(verdict, Option) else None

    low, most = _bounds(request, total)
    smallest = option(most)
    if smallest is None:
        return None
    doubts, high = _doubts_of(request, smallest), low
    while high < most and not _is_at_least(request, option(high), doubts):
        low, high = high + 1, min(most, 2 * high)
    while low < high:
        middle = (low + high) // 2
        if _is_at_least(request, option(middle), doubts):
            high = middle
        else:
            low = middle + 1
    found = option(high) or smallest
    return smallest.doubts, high * price_of(found), high


def _is_at_least(request: Request, option: Option | None, doubts: int) -> bool:
    return option is not None and _doubts_of(request, option) <= doubts


def _doubts_of(request: Request, option: Option) -> int:
    """Return the doubts, and one more if people wait and it is too slow for them: more replicas are faster ones."""
    return option.doubts + (option.is_slow and request.objective is not Objective.BATCH)
