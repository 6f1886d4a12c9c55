"""The input and the output of a solver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Placed, Rejection
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.demands.demand import Demand, Move
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.options.engine_offer import EngineOffer
from plimsoll.placement.options.total_load import Size


@dataclass(frozen=True, slots=True)
class Stock:
    """The resources to distribute: the fleet, and the ledger of what is free after every earlier promise.

    ``seen`` is what a solver reads of the fleet, without what the ledger says. Stocks are compared by it: the memo has
    the same Python object for fleets with equal layouts, which spares comparing each node.
    """

    fleet: Fleet = field(compare=False)
    ledger: Ledger
    seen: tuple[object, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Read the fleet's layout, if the caller does not know it."""
        if not self.seen:
            object.__setattr__(self, "seen", (self.fleet.layout, self.fleet.claimed))


@dataclass(frozen=True, slots=True)
class Award:
    """The result for one demand.

    Attributes:
        demand: the demand.
        left: the free resources after this award. They show whether an update has room for one more replica.
        moved: replicas that leave a pool, and the place they get.
        moves_spent: whether more replicas should move, but too many places were left in the last hour.
        granted: places for missing replicas, one for each GPU type and split.
        replaced: whether ``granted`` replaces all outdated pools.
        searched: whether a place was searched for.
        rejections: why other candidates were not taken, in the last search.
        stranded_by: why replicas that the scheduler cannot bind stay where they are: no other place takes them.
        refused_at: the free resources when a search found nothing; None if every search found something.
        failure: an error of the solver itself for this demand.
        sizes: what each size would get, if the deployment declares the load of all replicas together.
        engines: what each engine would get, the one that is taken first, if the planner chooses the engine.
        appraisal: how good all awards of the pass are together; None if the solver does not know it.
            It is about others as well, so awards that differ in it alone are equal.
    """

    demand: Demand
    left: Ledger
    moved: tuple[tuple[Move, Placed], ...] = ()
    moves_spent: bool = False
    granted: tuple[Placed, ...] = ()
    replaced: bool = False
    searched: bool = False
    rejections: tuple[Rejection, ...] = ()
    stranded_by: tuple[Rejection, ...] = ()
    refused_at: Ledger | None = None
    failure: Exception | None = None
    appraisal: Appraisal | None = field(default=None, compare=False)
    sizes: tuple[Size, ...] = ()
    engines: tuple[EngineOffer, ...] = ()

    @property
    def gives(self) -> bool:
        """Whether anything was given: a place for missing replicas, or for replicas that leave a pool."""
        return bool(self.moved or self.granted or self.replaced)


Solver = Callable[[Sequence[Demand], Stock], Iterator[Award]]
"""Answers every demand in the given order, and yields each award as soon as it is known.

An award takes only free resources, and none that another award has. A solver cannot take away kept pools.
"""
