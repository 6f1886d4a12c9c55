"""What a solver is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.outcomes import Placed, Rejection
from plimsoll.placement.demand import Demand, Move
from plimsoll.placement.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Stock:
    """What there is to give: the fleet, and what is free of it after every promise that was made earlier."""

    fleet: Fleet
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Award:
    """What one demand gets.

    Attributes:
        demand: whose it is.
        left: what is free when it has got that: whether an update has room for one more replica is read from it.
        moved: replicas that leave a pool, and the place they get.
        moves_spent: whether more would move, and too many places were left in the last hour.
        granted: places for missing replicas, one for each GPU type and split.
        replaced: whether ``granted`` replaces all that is outdated.
        searched: whether a place was searched for at all.
        rejections: why other candidates were not taken, in the last search.
        refused_at: what was free when a search found nothing; None where every search found something.
        failure: an error of the solver itself about this demand.
    """

    demand: Demand
    left: Ledger
    moved: tuple[tuple[Move, Placed], ...] = ()
    moves_spent: bool = False
    granted: tuple[Placed, ...] = ()
    replaced: bool = False
    searched: bool = False
    rejections: tuple[Rejection, ...] = ()
    refused_at: Ledger | None = None
    failure: Exception | None = None


Solver = Callable[[Sequence[Demand], Stock], Iterator[Award]]
"""Answers every demand, in the order in which they are given: each award as soon as it is known.

No award takes what another one was given, and none takes what is not free. What is kept is not a solver's to take away.
"""
