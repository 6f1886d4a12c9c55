"""A second solver: the cheapest of all ways to serve the most replicas. It tries every way, so fleets must be tiny."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from operator import eq

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Option
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.solvers.protocol import Award, Stock
from plimsoll.placement.solvers.turn import Turn

MOST_WAYS = 20_000


def solve_exhaustively(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Every demand tries every choice that it has, each on what the demands before it have left."""
    ways = list(itertools.islice(itertools.product(*(choices(demand) for demand in demands)), MOST_WAYS + 1))
    if len(ways) > MOST_WAYS:
        raise ValueError("too many ways to try: this solver is for tiny fleets")
    best = min((carried_out(demands, way, stock.fleet, stock.ledger) for way in ways), key=cost, default=[])
    yield from best


def choices(demand: Demand) -> list[Option | None]:
    """Everything that a demand may be given; None stands for nothing."""
    return [each for each in demand.options.verdicts if isinstance(each, Option)] or [None]


def carried_out(demands: Sequence[Demand], way: Sequence[Option | None], fleet: Fleet, ledger: Ledger) -> list[Award]:
    """Give each demand its choice of this way, as far as there is room."""
    awards: list[Award] = []
    for demand, wanted in zip(demands, way, strict=True):
        award = Turn(demand, fleet, ledger, wants=partial(eq, wanted)).take()
        ledger = award.left
        awards.append(award)
    return awards


def cost(awards: Sequence[Award]) -> tuple[int, Decimal]:
    """Replicas without a place first, then US dollars an hour, with the worth of the time that users wait."""
    granted = [placed for award in awards for placed in award.granted]
    missing = sum(max(0, award.demand.missing) for award in awards) - sum(placed.replicas for placed in granted)
    prices = (placed.replicas * (placed.choice.cost or Decimal(0)) for placed in granted)
    return missing, sum(prices, Decimal(0))
