"""A greedy solver: first come, first served. Each demand takes the best place that earlier demands left.

A demand with several sizes takes its best one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.solvers.protocol import Award, Stock
from plimsoll.placement.solvers.sizes import best_turn


def solve_greedily(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Answer the demands one after the other."""
    ledger = stock.ledger
    for demand in demands:
        award = best_turn(demand, stock, ledger)
        ledger = award.left
        yield award
