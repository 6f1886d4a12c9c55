"""The transition from a deployment's current pools to its planned pools: make before break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.host import HostEstimate
from plimsoll.domain.cluster.spot import capacity_of
from plimsoll.domain.decisions.outcomes import Option, Placed, Rejection, Remedy, Target
from plimsoll.domain.public_words import Numbers, Reason, RemedyKind
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.advice.remedies import Adviser, only_waits, other_remedies
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.demands.draining import drain_of
from plimsoll.placement.demands.pools import (
    Decision,
    PlannedPool,
    PoolState,
    Tenant,
    as_it_is,
    as_it_runs,
    count,
    is_at,
    name_of_new,
)
from plimsoll.placement.demands.rehoming import Departure
from plimsoll.placement.ledger import Ledger, short_in, use_of
from plimsoll.placement.options.engine_limits import with_more_requests
from plimsoll.placement.options.nodes import admission_refusal, eligible_nodes, host_of_pool
from plimsoll.placement.options.verdicts import NO_PRICE, rank
from plimsoll.placement.places.place import alternatives_to
from plimsoll.placement.places.warnings import (
    admission_warning,
    failed_move_warning,
    limit_warnings,
    slow_warnings,
    warnings_for,
)
from plimsoll.placement.solvers.engine_offers import only_offer
from plimsoll.placement.solvers.protocol import Award


def decision_of(award: Award, fleet: Fleet, adviser: Adviser) -> Decision:
    """Return the decision that follows from an award."""
    return _Transition(award, fleet, adviser).decision()


@dataclass(frozen=True, slots=True)
class _Transition:
    award: Award
    fleet: Fleet
    adviser: Adviser

    @property
    def demand(self) -> Demand:
        return self.award.demand

    @property
    def tenant(self) -> Tenant:
        return self.demand.tenant

    @property
    def request(self) -> Request:
        return self.tenant.request

    def decision(self) -> Decision:
        pools, blocked = self._active()
        missing = max(0, self.request.replicas - count(pools))
        pools = [*pools, *self._still_retiring(pools)]
        chosen = next((pool.choice for pool in pools if pool.choice is not None), None)
        searched, rejections = self._explained(chosen)
        return Decision(
            request=self.request,
            pools=tuple(self._with_surge(pool) for pool in pools),
            missing=missing,
            placed_now=searched,
            rejections=rejections,
            remedies=self._remedies(max(1, self.demand.missing if blocked else missing)),
            warnings=() if chosen is None else self._warnings(chosen),
            outgrown=self.demand.outgrown,
            change_blocked=blocked,
            rolled_back=self.demand.rolled_back,
            departures=(*self._left_nodes(), *(Departure(*move.place, move.obstacle) for move, _ in self.award.moved)),
            rehomings_spent=self.award.moves_spent,
            stranded_by=self.award.stranded_by,
            sizes=self.award.sizes,
            engines=self.award.engines or only_offer(self.award),
        )

    def _left_nodes(self) -> Iterator[Departure]:
        before = {pool.name: pool for pool in self.tenant.pools}
        for pool in self.demand.kept:
            causes = dict(before[pool.name].bad_nodes)
            for node in pool.target.avoids:
                if node in causes and node not in before[pool.name].target.avoids:
                    yield Departure(*pool.place, causes[node], node)

    def _active(self) -> tuple[list[PlannedPool], bool]:
        """Return the pools that should serve, and whether the user's change has no place so that old pools serve on."""
        pools = self._with_moves(list(self.demand.kept))
        for placed in self.award.granted:
            pools = self._joined(pools, placed)
        if self.award.replaced:
            return pools, False
        blocked = bool(self.demand.outdated) and (self.demand.serves or not only_waits(self.award.rejections))
        if blocked:
            pools = [*pools, *(as_it_is(pool) for pool in self.demand.outdated)]
        return _shrunk(pools, count(pools) - self.request.replicas, self.request.least_on_demand), blocked

    def _with_moves(self, pools: list[PlannedPool]) -> list[PlannedPool]:
        for move, placed in self.award.moved:
            pools = [_resized(pool, -placed.replicas) if pool.name == move.pool else pool for pool in pools]
            pools = self._joined(pools, placed)
        left = {move.pool for move, _ in self.award.moved}
        return [pool for pool in pools if pool.replicas > 0 or pool.name not in left]

    def _joined(self, pools: list[PlannedPool], placed: Placed) -> list[PlannedPool]:
        """Add the placed replicas to the pool with their engine, GPU type and split, or open a new pool."""
        choice = with_more_requests(self.request, placed.choice, self.adviser.memo)
        place, engine = choice.target.place, self.request.engine.name
        name = next((pool.name for pool in pools if pool.engine == engine and is_at(pool.name, *place)), None)
        if name is not None:
            return [_resized(pool, placed.replicas) if pool.name == name else pool for pool in pools]
        name = name_of_new(place, engine, (*self.tenant.pools, *pools))
        earlier = next((pool for pool in self.tenant.pools if pool.name == name), None)
        opened = PlannedPool(
            name=name,
            target=choice.target,
            state=PoolState.ACTIVE,
            generation=self.tenant.generation,
            replicas=placed.replicas,
            choice=choice,
            spec=self.tenant.spec,
            drain_seconds=drain_of(earlier, choice, self.tenant),
            engine=engine,
        )
        return [*pools, opened]

    def _still_retiring(self, pools: Sequence[PlannedPool]) -> list[PlannedPool]:
        """Return the old pools that must keep serving because the active pools do not serve yet.

        Replicas without a node serve nobody, and neither do those that leave because they found none. Their pods end at
        once: quotas count them, and a queue would admit a second one next to the pod that it has not admitted yet. A
        volume that only one node can mount at a time is not mounted by the successor before they end.
        """
        ready = {pool.name: pool.ready for pool in self.tenant.pools}
        active = {pool.name for pool in pools}
        if self.request.mounts_alone and count(pools) > 0:
            return []  # their successors cannot mount the volume before they have ended
        serving = sum(min(ready.get(pool.name, 0), pool.replicas) for pool in pools)
        wanted = min(self.request.replicas, count(pools))
        if serving >= wanted and (wanted > 0 or self.request.replicas == 0):
            return []
        left = Counter[str]()
        for move, placed in self.award.moved:
            left[move.pool] += placed.replicas
        held = [pool for pool in self.tenant.pools if pool.name not in active and pool.exists and not pool.too_large]
        old = [replace(pool, replicas=min(pool.bound, pool.replicas - left[pool.name])) for pool in held]
        old = [pool for pool in old if pool.replicas > 0]
        return [replace(as_it_is(pool), state=PoolState.RETIRING) for pool in old if wanted > 0 or pool.ready > 0]

    def _explained(self, chosen: Option | None) -> tuple[bool, tuple[Rejection, ...]]:
        """Return whether candidates were compared in this pass, and the reasons against the others."""
        changed = any(pool.generation != self.tenant.generation for pool in self.tenant.pools)
        if chosen is not None and not self.award.searched and changed:
            return True, alternatives_to(chosen, self.request, self.fleet, self.adviser.memo, self.award.left)
        return self.award.searched, self.award.rejections

    def _warnings(self, chosen: Option) -> tuple[str, ...]:
        """Return the warnings about a choice, and what happened there before if the user forces it.

        If pods have nodes already, the API server accepts them without limits of their own.
        """
        here = chosen.target.place, self.request.engine.name
        failed = [each for each in self.tenant.failed if (each.place, each.engine) == here and not each.is_of_settings]
        left = self.award.left.quota.get(self.request.key.namespace, {})
        limits = () if any(pool.bound for pool in self.tenant.pools) else limit_warnings(self.request, left)
        refused = self._refusal(chosen.target, chosen.host)
        refusals = (admission_warning(refused),) if refused else ()
        slow = slow_warnings(chosen, self.tenant.answers)
        return (*warnings_for(self.request, chosen), *slow, *limits, *refusals, *map(failed_move_warning, failed))

    def _refusal(self, target: Target, host: HostEstimate) -> Numbers:
        return admission_refusal(self.request, target, host) if self.request.limit_ranges else ()

    def _remedies(self, missing: int) -> tuple[Remedy, ...]:
        """Return remedies if a search found nothing. They are judged with the resources that were free then."""
        ledger = self.award.refused_at
        if ledger is None:
            return ()
        refused, memo = self.award.rejections, self.adviser.memo
        others_first = other_remedies(self.request, self.fleet, ledger, refused, memo)
        # More free GPUs help only when GPUs are short, not when a quota or the nodes' CPUs are short.
        short = {(each.gpu_type, each.split.gpus) for each in refused if each.reason is Reason.GPUS_TAKEN}
        others = self.adviser.remedies(self.request, ledger)
        added = self.adviser.growth(self.request, missing, ledger)
        kept = [each for each in others if each.kind is not RemedyKind.FREE_GPUS or _gpus(each) in short]
        if self.request.is_sized:  # the user declares the load of all replicas, and not that of one
            kept = [each for each in kept if each.kind is not RemedyKind.REDUCE_CONCURRENCY]
        return (*others_first, *added, *kept)

    def _with_surge(self, pool: PlannedPool) -> PlannedPool:
        """Set whether one more replica has room. An update in progress keeps the surge that it already uses.

        If a queue has admitted no pod of the pool, an update replaces them: the Deployment controller would leave
        the old pod in the queue next to the new one (``cleanupUnhealthyReplicas`` in ``pkg/controller/deployment``).
        While the live loop changes settings, and while it takes them back, no replica ends before its successor serves,
        even if the room for one more was taken meanwhile.
        """
        now = next((earlier for earlier in self.tenant.pools if earlier.name == pool.name), None)
        if self.request.mounts_alone:
            return replace(pool, surge=False)
        host = host_of_pool(as_it_runs(self.request, pool), pool.gpu_type, pool.split, self.fleet)
        room = _has_room_for_one(self.request, pool.target, host, self.fleet, self.award.left)
        is_queued = now is not None and now.gated > 0 and now.bound == 0
        surge = (room and not is_queued) or (now is not None and (now.bound > pool.replicas or now.earlier is not None))
        surge = surge or bool(self._refusal(pool.target, host))  # no replica ends for one that the API server refuses
        return pool if surge == pool.surge else replace(pool, surge=surge)


def _has_room_for_one(request: Request, target: Target, host: HostEstimate, fleet: Fleet, ledger: Ledger) -> bool:
    need = request.host_need(host)
    left = ledger.quota.get(request.key.namespace, {})
    if short_in(left, use_of(request, target.resource, target.split.shape, need)):
        return False
    nodes = eligible_nodes(request, fleet, target.gpu_type)
    return ledger.has_room(nodes, target.split.shape, need)


def _gpus(remedy: Remedy) -> tuple[str, int]:
    numbers = dict(remedy.numbers)
    return str(numbers["gpu_type"]), int(numbers["gpus"])


def _resized(pool: PlannedPool, by: int) -> PlannedPool:
    return replace(pool, replicas=pool.replicas + by) if by else pool


def _shrunk(pools: list[PlannedPool], surplus: int, least_on_demand: int) -> list[PlannedPool]:
    """Remove surplus replicas, from the most expensive pool first. One pool always stays, even with zero replicas.

    ``least_on_demand`` replicas off spot nodes go last.
    """
    left = {pool.name: pool.replicas for pool in pools}
    by_cost = sorted(pools, key=lambda pool: (_cost(pool), pool.name))
    safe = Counter[str]()
    for pool in by_cost:
        if capacity_of(pool.gpu_type) is not CapacityType.SPOT:
            safe[pool.name] = min(pool.replicas, least_on_demand - safe.total())
    for spared in (safe, Counter[str]()):
        for pool in reversed(by_cost):
            taken = min(left[pool.name] - spared[pool.name], max(0, surplus))
            left[pool.name] -= taken
            surplus -= taken
    resized = [_resized(pool, left[pool.name] - pool.replicas) for pool in pools]
    alive = [pool for pool in resized if pool.replicas > 0]
    return alive or resized[:1]


def _cost(pool: PlannedPool) -> tuple[Decimal, int]:
    """Return the cost of a replica. A pool without a choice counts as the most expensive."""
    return (NO_PRICE, 0) if pool.choice is None else rank(pool.choice)[:2]
