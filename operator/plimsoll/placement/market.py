"""The places that a finished plan leaves to one deployment, and the order to have all replicas at one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.outcomes import Option
from plimsoll.domain.serving import Request
from plimsoll.placement.demand import Demand
from plimsoll.placement.memo import Memo
from plimsoll.placement.more_requests import with_more_requests
from plimsoll.placement.options import Options, options
from plimsoll.placement.place import room_of
from plimsoll.placement.pools import Place, PoolState
from plimsoll.placement.rehoming import is_closed
from plimsoll.placement.solvers import Stock


@dataclass(frozen=True, slots=True)
class Market:
    """The places that a plan leaves to one deployment. ``is_contended``: some deployment waits for a place."""

    stock: Stock
    memo: Memo
    is_contended: bool = False

    def options(self, request: Request, closed: tuple[Place, ...] = ()) -> Iterator[Option]:
        """Yield all places that the request may have, as engines would run there, free or not.

        Raises:
            PlimsollError: the request cannot be judged.
        """
        for verdict in options(request, self.stock.fleet, self.memo).verdicts:
            if isinstance(verdict, Option) and not is_closed(closed, verdict.gpu.name, verdict.split):
                yield with_more_requests(request, verdict, self.memo)

    def has_room(self, request: Request, option: Option) -> bool:
        """Whether all replicas of the request have room there now."""
        return room_of(request, option, self.stock.fleet, self.stock.ledger) >= request.replicas

    @property
    def digest(self) -> int:
        """A number that changes with the prices and with what is free of each GPU type. It is of this process alone."""
        fleet, free = self.stock.fleet, self.stock.ledger.free
        kinds = ((gpu, [free[node.account] for node in fleet.of_type(gpu.name)]) for gpu in fleet.gpu_types())
        return hash(tuple((gpu.name, gpu.price_in_force, sum(counts), max(counts)) for gpu, counts in kinds))


def directed(demand: Demand, fleet: Fleet, memo: Memo) -> Demand:
    """Return the demand of a deployment that is ordered to one place: every pool elsewhere is to be replaced there.

    A deployment without that order has the same demand. A pool that is replaced serves until all others do.
    """
    place, tenant = demand.tenant.goes_to, demand.tenant
    if place is None or demand.settled is not None or demand.sizes:
        return demand
    verdicts = options(tenant.request, fleet, memo).verdicts
    return replace(
        demand,
        options=Options(tuple(each for each in verdicts if not isinstance(each, Option) or each.target.place == place)),
        kept=tuple(pool for pool in demand.kept if pool.place == place),
        outdated=tuple(pool for pool in tenant.pools if pool.state is PoolState.ACTIVE and pool.target.place != place),
        moves=(),
        outgrown=None,
    )
