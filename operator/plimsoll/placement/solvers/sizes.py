"""The choice of a size, where deployments declare the load of all replicas together.

1. Each of these deployments takes its best size alone, in the order of decisions, from what the earlier ones left.
2. The solver decides for all deployments with these sizes.
3. Each of these deployments chooses once more, from its own share and what nobody else has. So a size that found no
   place, or only a dear one, is replaced by a better one.

The order of goals is the solver's: requests without a place, then doubts, then the bill of all replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.outcomes import Option
from plimsoll.domain.units import format_price
from plimsoll.placement.demand import Demand
from plimsoll.placement.explain import place_words
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.pools import count
from plimsoll.placement.sizes import UNPRICED, Size
from plimsoll.placement.solvers.protocol import Award, Solver, Stock
from plimsoll.placement.solvers.turn import Turn
from plimsoll.placement.taken import Taken, taken_between

Score = tuple[int, int, float, int]
"""Requests without a place, doubts, US dollars an hour of all replicas, and their number."""


def solve_with_sizes(solver: Solver, demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Answer every demand like ``solver``, and choose the sizes. Without a size to choose, it is ``solver`` alone."""
    if not any(demand.sizes for demand in demands):
        return solver(demands, stock)
    ledger, chosen = stock.ledger, list(demands)
    for index, demand in enumerate(demands):
        if demand.sizes:
            award = _best(demand, stock.fleet, ledger)
            chosen[index], ledger = award.demand, award.left
    return iter(_chosen_again(demands, list(solver(chosen, stock)), stock))


def score_of(award: Award) -> Score:
    """Return how good an award is; the least is the best."""
    demand, request = award.demand, award.demand.request
    placed = sum(each.replicas for each in award.granted)
    missing = max(0, demand.missing - placed) * request.shape.concurrency
    doubts = sum(each.replicas * each.choice.doubts for each in award.granted) * request.shape.concurrency
    bill = sum(replicas * _price(option) for option, replicas in _serving(award))
    return missing, doubts, bill, request.replicas


def _best(demand: Demand, fleet: Fleet, ledger: Ledger) -> Award:
    return min((_turn(size, fleet, ledger) for size in demand.sizes), key=score_of)


def _turn(demand: Demand, fleet: Fleet, ledger: Ledger) -> Award:
    try:
        return Turn(demand, fleet, ledger).take()
    except Exception as error:  # noqa: BLE001 - an error in one demand must not stop the plan of the others
        return Award(demand, ledger, failure=error)


def _chosen_again(demands: Sequence[Demand], awards: list[Award], stock: Stock) -> Iterator[Award]:
    """Yield the awards in which each deployment with sizes has the best one that the others leave it."""
    shares: list[Taken | None] = []
    before = stock.ledger
    for award in awards:
        shares.append(taken_between(before, award.left))
        before = award.left
    free = awards[-1].left
    for index, demand in enumerate(demands):
        if demand.sizes and awards[index].failure is None:
            share = shares[index]
            own = free if share is None else share.given_back_to(free)
            tried = [_turn(size, stock.fleet, own) for size in demand.sizes]
            best = min((awards[index], *tried), key=score_of)
            if best is not awards[index]:
                shares[index], free = taken_between(own, best.left), best.left
            awards[index] = replace(best, sizes=tuple(map(_size, tried)), appraisal=awards[index].appraisal)
    left = stock.ledger
    for award, share in zip(awards, shares, strict=True):
        left = left if share is None else share.taken_from(left)
        yield replace(award, left=left)


def _serving(award: Award) -> Iterator[tuple[Option | None, int]]:
    """Yield the choices and the replicas that run with this award. Outdated pools go when they are replaced."""
    yield from ((pool.choice, pool.replicas) for pool in award.demand.kept)
    yield from ((each.choice, each.replicas) for each in award.granted)


def _price(option: Option | None) -> float:
    if option is None or option.hourly_price is None:
        return UNPRICED
    return float(option.hourly_price)


def _size(award: Award) -> Size:
    request, serving = award.demand.request, [each for each in _serving(award) if each[1]]
    prices = [None if option is None else option.hourly_price for option, _ in serving]
    known = [price * replicas for price, (_, replicas) in zip(prices, serving, strict=True) if price is not None]
    complete = bool(serving) and len(known) == len(serving)
    return Size(
        replicas=request.replicas,
        concurrency=request.shape.concurrency,
        places=tuple(place_words(*option.target.place) for option, _ in serving if option is not None),
        hourly_price=format_price(sum(known, start=Decimal(0))) if complete else None,
        missing=max(0, request.replicas - count(award.demand.kept) - sum(each.replicas for each in award.granted)),
    )
