"""Hypotheses on a finished plan: what one deployment would get for another wish, while all others keep their share.

Room for a deployment that nothing free can hold: changes of others, and what it would get after them.

The places that a finished plan leaves to one deployment, and the order to have all replicas at one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.advice.remedies import Adviser
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.demands.demand import Demand, with_spot_limits
from plimsoll.placement.demands.pools import Decision, Place, PlannedPool, PoolState, Tenant, active, replicas_by_name
from plimsoll.placement.demands.rehoming import still_open
from plimsoll.placement.ledger import Ledger, Taken, taken_between
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.engine_limits import with_more_requests
from plimsoll.placement.options.verdicts import Options, options, rank
from plimsoll.placement.places.place import room_of
from plimsoll.placement.solvers import Solver, Stock
from plimsoll.placement.transition.answers import Answer, answers, read_demand


@dataclass(frozen=True, slots=True)
class Room:
    """A proposal that asks others for their GPUs, and the decision ``then`` once they are free.

    ``seconds`` is the time until they are free: moved replicas start first, and the requests of old ones end.
    ``is_open`` means that everybody whom it touches may begin now.
    """

    proposal: Proposal
    then: Decision
    seconds: int
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Market:
    """The places that a plan leaves to one deployment. ``is_contended``: some deployment waits for a place."""

    stock: Stock
    memo: Memo
    is_contended: bool

    def options(self, request: Request, closed: tuple[Place, ...] = ()) -> Iterator[Option]:
        """Yield all places that the request may have, as engines would run there, free or not.

        Raises:
            PlimsollError: the request cannot be judged.
        """
        for option in still_open(options(request, self.stock.fleet, self.memo).verdicts, closed):
            yield with_more_requests(request, option, self.memo)

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
    """Return the demand of a deployment that is ordered to one place: every other pool is to be replaced there.

    A pool of another engine at that place is another pool.

    A deployment without that order has the same demand. A pool that is replaced serves until all others do.
    """
    place, tenant = demand.tenant.goes_to, demand.tenant
    engine = tenant.request.engine.name
    if place is None or demand.settled is not None or demand.sizes:
        return demand
    verdicts = options(tenant.request, fleet, memo).verdicts
    stays = {pool.name for pool in tenant.pools if (pool.place, pool.engine) == (place, engine)}
    return replace(
        demand,
        options=Options(tuple(each for each in verdicts if not isinstance(each, Option) or each.target.place == place)),
        kept=tuple(pool for pool in demand.kept if pool.name in stays),
        outdated=tuple(pool for pool in active(tenant.pools) if pool.name not in stays),
        moves=(),
        outgrown=None,
    )


class HypothesisFailed(Exception):
    """Planning a hypothesis raised an error; ``decision`` holds it and changes nothing."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.failure)
        self.decision = decision


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Answers hypotheses about one deployment.

    ``tenant`` is the deployment before the plan, and ``decision`` is what the plan decided for it. ``ask`` plans the
    deployment with a change on the GPUs that are left. ``market`` reads what is left; None: nothing is known of it.
    ``room`` looks for changes of others that make room for an answer that lacks some; None: nothing is known of them.
    """

    tenant: Tenant
    decision: Decision
    ask: Callable[[Tenant], Answer]
    market: Callable[[], Market] | None = None
    room: Callable[[Answer], Room | None] | None = None

    @property
    def new_replicas(self) -> int:
        """The number of replicas that this plan has just placed, or has found no place for."""
        known, planned = replicas_by_name(self.tenant.pools), active(self.decision.pools)
        return self.decision.missing + sum(max(0, pool.replicas - known.get(pool.name, 0)) for pool in planned)


@dataclass(frozen=True, slots=True)
class Plan:
    """A finished plan: the decision for every deployment, in the order of decisions, and the resources that are left.

    ``taken`` holds what each deployment took in this plan. Deployments that took nothing are left out. ``appraisal`` is
    how good the new placements are; None if nothing was placed, or the solver does not know it.
    """

    tenants: Mapping[ObjectKey, Tenant]
    decisions: Mapping[ObjectKey, Decision]
    taken: Mapping[ObjectKey, Taken]
    left: Stock
    adviser: Adviser
    solver: Solver
    appraisal: Appraisal | None = None

    @staticmethod
    def of(answered: Iterable[Answer], stock: Stock, adviser: Adviser, solver: Solver) -> Plan:
        """Collect the answers of a plan. ``stock`` is the one that they were made from."""
        tenants: dict[ObjectKey, Tenant] = {}
        decisions: dict[ObjectKey, Decision] = {}
        taken: dict[ObjectKey, Taken] = {}
        left, appraisal = stock.ledger, None
        for answer in answered:
            appraisal = appraisal or answer.decision.appraisal
            key, left = answer.tenant.request.key, answer.left
            tenants[key], decisions[key] = answer.tenant, answer.decision
            share = taken_between(answer.before, answer.left)
            if share is not None:
                taken[key] = share
        return Plan(tenants, decisions, taken, replace(stock, ledger=left), adviser, solver, appraisal)

    def what_if(self, key: ObjectKey, room: Callable[[Answer], Room | None] | None = None) -> WhatIf:
        """Return what answers hypotheses about one deployment of the plan. ``room`` looks for room at others."""
        return WhatIf(self.tenants[key], self.decisions[key], self.ask, partial(self.market, key), room)

    def market(self, key: ObjectKey) -> Market:
        """Return what this plan leaves to one deployment, its own share of the plan included."""
        stock = replace(self.left, ledger=self._without_share_of(key))
        waits = any(each.missing or each.change_blocked for each in self.decisions.values())
        return Market(stock, self.adviser.memo, is_contended=waits)

    def ask(self, tenant: Tenant) -> Answer:
        """Plan one deployment again, with a change. It gives back its own share first; all others keep theirs.

        Raises:
            HypothesisFailed: the deployment cannot be planned with the change.
        """
        fleet, memo, ledger = self.left.fleet, self.adviser.memo, self._without_share_of(tenant.request.key)
        demand = directed(read_demand(tenant, fleet, memo), fleet, memo)
        stock = Stock(fleet, replace(ledger, quota=with_spot_limits(ledger.quota, [demand])))
        answer = next(answers([demand], stock, self.adviser, self.solver))
        if answer.decision.failure:
            raise HypothesisFailed(answer.decision)
        return answer

    def elsewhere(self, key: ObjectKey) -> Answer | None:
        """Return what one deployment gets if all its replicas leave their place, and go to the best one with room now.

        The replicas serve where they are until their successors do. None if no place has room for all of them, if
        this plan changes its pools already, if it is suspended, if the user declares the load of all replicas
        together, or if more than one replica cannot mount its volumes.
        """
        tenant, now = self.tenants[key], self.decisions[key]
        here = [pool.target.place for pool in tenant.pools]
        stands = tenant.suspended or tenant.request.total is not None or tenant.request.mounts_alone
        if stands or _is_changing(tenant, now.pools):
            return None
        market = self.market(key)
        closed = (
            *here,
            *(each.place for each in tenant.left if not each.node),
            *(each.place for each in tenant.failed if each.engine == tenant.request.engine.name),
        )
        possible = (each for each in market.options(tenant.request, closed) if market.has_room(tenant.request, each))
        best = min(possible, key=rank, default=None)
        if best is None:
            return None
        try:
            answer = self.ask(replace(tenant, goes_to=best.target.place))
        except HypothesisFailed:
            return None
        return None if answer.decision.waits_for_place else answer

    def adopted(self, answer: Answer) -> Plan:
        """Return the plan with the answer to a hypothesis of this plan in place of that deployment's decision."""
        key = answer.tenant.request.key
        share = taken_between(answer.before, answer.left)
        others = {owner: taken for owner, taken in self.taken.items() if owner != key}
        return replace(
            self,
            tenants={**self.tenants, key: answer.tenant},
            decisions={**self.decisions, key: answer.decision},
            taken=others if share is None else {**others, key: share},
            left=replace(self.left, ledger=answer.left),
        )

    def _without_share_of(self, key: ObjectKey) -> Ledger:
        share = self.taken.get(key)
        return self.left.ledger if share is None else share.given_back_to(self.left.ledger)


def _is_changing(tenant: Tenant, planned: Sequence[PlannedPool]) -> bool:
    """Whether replicas move already, or a plan changes their number or place."""
    before = {pool.name: (pool.state, pool.replicas) for pool in tenant.pools}
    is_moving = any(pool.state is PoolState.RETIRING for pool in tenant.pools)
    return is_moving or before != {pool.name: (pool.state, pool.replicas) for pool in planned}
