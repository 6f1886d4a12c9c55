"""The record of one plan for the whole fleet: what it costs, what it leaves out, and how near the optimum it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, Tenant, active, replicas_by_name
from plimsoll.placement.options.feasibility import hourly_price
from plimsoll.placement.transition.hypothesis import Plan


@dataclass(frozen=True, slots=True)
class FleetRecord:
    """The effect of a plan on all deployments together.

    Attributes:
        bill_before: US dollars an hour of all pools before the plan. GPU types without a price count nothing.
        bill_after: the same after the plan.
        unplaced: replicas without a place.
        moved: replicas that leave one place for another.
        appraisal: how good the new placements are; None if nothing was placed.
        seconds: the time that the plan took. Two records that differ in this alone are equal.
    """

    bill_before: Decimal = Decimal(0)
    bill_after: Decimal = Decimal(0)
    unplaced: int = 0
    moved: int = 0
    appraisal: Appraisal | None = None
    seconds: float = field(default=0.0, compare=False)


def record_of(plan: Plan, seconds: float) -> FleetRecord:
    """Return the record of a finished plan, which took so many ``seconds``."""
    prices = _Prices(plan.left.fleet)
    decided = [(plan.tenants[key], decision) for key, decision in plan.decisions.items()]
    return FleetRecord(
        bill_before=sum((prices.bill(tenant.pools) for tenant, _ in decided), Decimal(0)),
        bill_after=sum((prices.bill(decision.pools) for _, decision in decided), Decimal(0)),
        unplaced=sum(decision.missing for _, decision in decided),
        moved=sum(_moved(tenant, decision) for tenant, decision in decided),
        appraisal=plan.appraisal,
        seconds=seconds,
    )


class _Prices:
    def __init__(self, fleet: Fleet) -> None:
        self.types = {gpu.name: gpu for gpu in fleet.gpu_types()}
        self.known: dict[tuple[str, Split], Decimal] = {}

    def bill(self, pools: Iterable[Pool | PlannedPool]) -> Decimal:
        return sum((pool.replicas * self._of(pool.gpu_type, pool.split) for pool in active(pools)), Decimal(0))

    def _of(self, gpu_type: str, split: Split) -> Decimal:
        place = gpu_type, split
        if place not in self.known:
            gpu = self.types.get(gpu_type)
            price = None if gpu is None else hourly_price(gpu, split)
            self.known[place] = Decimal(0) if price is None else price
        return self.known[place]


def _moved(tenant: Tenant, decision: Decision) -> int:
    """Return how many replicas have another place: as many as leave a pool while others join one."""
    before, after = replicas_by_name(tenant.pools), replicas_by_name(decision.pools)
    changes = [after.get(name, 0) - before.get(name, 0) for name in before.keys() | after.keys()]
    joined, left = sum(each for each in changes if each > 0), -sum(each for each in changes if each < 0)
    return min(joined, left)
