"""A greedy solver: first come, first served. Each demand takes the best place that earlier demands left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plimsoll.placement.demand import Demand
from plimsoll.placement.solvers.protocol import Award, Stock
from plimsoll.placement.solvers.turn import Turn


def solve_greedily(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Answer the demands one after the other."""
    ledger = stock.ledger
    for demand in demands:
        try:
            award = Turn(demand, stock.fleet, ledger).take()
        except Exception as error:  # noqa: BLE001 - an error in one demand must not stop the plan of the others
            award = Award(demand, ledger, failure=error)
        ledger = award.left
        yield award
