"""The demand of one deployment in a pass: the pools that it keeps, and the replicas to replace, move or add."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.quota_accounts import spot_account
from plimsoll.domain.cluster.spot import capacity_of
from plimsoll.domain.decisions.outcomes import Option, Rejection, Split
from plimsoll.domain.engines.engine_choice import EngineRefusal, StepLimits
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.draining import drain_of
from plimsoll.placement.demands.failed_moves import RollBack, still_refused, without_failed
from plimsoll.placement.demands.pools import (
    Decision,
    PlannedPool,
    Pool,
    Tenant,
    active,
    as_chosen,
    as_it_is,
    count,
)
from plimsoll.placement.demands.rehoming import MOST_AVOIDED, is_closed, is_spent
from plimsoll.placement.demands.roll_back import called_back, rolled_back, settings_restored
from plimsoll.placement.ledger import NO_USE, Quotas, QuotaUse, use_of
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.candidates import Candidate
from plimsoll.placement.options.engine_limits import with_more_requests
from plimsoll.placement.options.feasibility import judge
from plimsoll.placement.options.nodes import eligible_nodes
from plimsoll.placement.options.total_load import sizes_of
from plimsoll.placement.options.verdicts import NO_OPTIONS, Options, options

NOBODYS_CHOICE = (
    Reason.NODE_LEFT,
    Reason.IMAGE_FOR_OTHER_PLATFORM,
    Reason.VOLUME_ELSEWHERE,
    Reason.VOLUME_IN_USE,
    Reason.NODE_DISK_TOO_SMALL,
    Reason.DRIVER_TOO_OLD,
)
"""Reasons against nodes that nobody chose: they turned out after the pods were placed."""

ABOUT_NODES = (
    Reason.NODES_NOT_SELECTED,
    Reason.NODE_TOO_SMALL,
    Reason.IMAGE_FOR_OTHER_VENDOR,
    *NOBODYS_CHOICE,
)
"""Reasons that do not mean that a placement has the wrong size. The scheduler reports lost nodes for each pod, and an
image that already runs on a GPU type works there."""

LEFT_BY_MOVES = (
    Reason.TOO_LITTLE_VRAM,
    Reason.KV_CACHE_TOO_SMALL,
    Reason.TOO_FEW_STATES,
    Reason.OBSERVED_TOO_SMALL,
    Reason.TOO_SLOW,
)
"""Reasons for which the live loop moves a deployment although its spec has not changed."""


@dataclass(frozen=True, slots=True)
class Move:
    """Replicas of a pool that found no node at its place. They stay in the pool if there is no better place.

    ``obstacle`` is the scheduler's reason in one word. ``use`` is what the quotas count for the pod of each of them: it
    ends before its successor is made.
    """

    pool: str
    place: tuple[str, Split]
    replicas: int
    obstacle: str
    use: QuotaUse = NO_USE


@dataclass(frozen=True, slots=True)
class Demand:
    """One deployment's demand.

    Attributes:
        tenant: the deployment before the plan.
        options: the verdicts on all candidates; empty if the deployment asks for nothing.
        kept: active pools that stay.
        outdated: active pools that the user's change outdated. They keep serving until all of them are replaced.
        outgrown: why a running pool would not be chosen any more, when no order to leave it was given.
        moves: replicas that should leave a pool.
        excluded: places not to use: replicas left them in the last hour, and the user has changed nothing since.
        remembers_moves: whether places that replicas leave in this pass are excluded as well.
        rolled_back: places that it leaves, and settings that it takes back, because they did not come up in time.
        settled: the decision, if a solver has nothing to decide.
        sizes: the same demand in every size, if the deployment declares the load of all replicas together, and on every
            engine that may run it, if the planner chooses the engine.
        without_law: the engines that have no memory law for the model, if the planner chooses the engine.
        missing: the number of replicas without a pool; negative if there are too many replicas.
        asks: whether a solver has anything to decide. A deployment with zero replicas also asks for a place to hold.
        awaits: whether replicas that were decided earlier have no node yet.
    """

    tenant: Tenant
    options: Options = NO_OPTIONS
    kept: tuple[PlannedPool, ...] = ()
    outdated: tuple[Pool, ...] = ()
    outgrown: Rejection | None = None
    moves: tuple[Move, ...] = ()
    excluded: tuple[tuple[str, Split], ...] = ()
    remembers_moves: bool = True
    rolled_back: tuple[RollBack, ...] = ()
    settled: Decision | None = None
    sizes: tuple[Demand, ...] = ()
    without_law: tuple[EngineRefusal, ...] = ()
    missing: int = field(init=False, repr=False, compare=False)
    asks: bool = field(init=False, repr=False, compare=False)
    awaits: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Find what every pass reads several times of each deployment, and mostly of an unchanged one."""
        missing = self.request.replicas - count(self.kept)
        holds_nothing = not self.kept and self.request.replicas == 0
        object.__setattr__(self, "missing", missing)
        object.__setattr__(self, "asks", bool(self.moves or self.outdated or holds_nothing) or missing > 0)
        object.__setattr__(self, "awaits", any(pool.waiting for pool in self.tenant.pools))

    @property
    def request(self) -> Request:
        """The deployment's request."""
        return self.tenant.request

    @property
    def ways(self) -> tuple[Demand, ...]:
        """The demand in every size that a solver may choose; only itself if the size is known."""
        return self.sizes or (self,)

    @property
    def serves(self) -> bool:
        """Whether a pool to replace serves now. If so, it must stay until all its replicas are replaced."""
        return any(pool.ready for pool in self.outdated)


def demand_of(tenant: Tenant, fleet: Fleet, memo: Memo) -> Demand:
    """Find a tenant's demand.

    Raises:
        PlimsollError: the request cannot be judged, e.g. a model without a memory law.
    """
    ways = tenant.request.on_each_engine
    if len(ways) == 1:
        return _demand_on(tenant, fleet, memo)
    found, failed = list[Demand](), list[tuple[Request, PlimsollError]]()
    for request in ways:
        try:
            found += _demand_on(replace(tenant, request=request), fleet, memo).ways
        except PlimsollError as error:  # e.g. a model that has a law on another engine alone
            failed.append((request, error))
    if not found:
        raise failed[0][1]
    without_law = tuple(
        EngineRefusal(request.engine.name, "spec.model", request.model.name, str(error)) for request, error in failed
    )
    return replace(found[0], sizes=tuple(found), without_law=without_law)


def _demand_on(tenant: Tenant, fleet: Fleet, memo: Memo) -> Demand:
    reader = _Reader(tenant, fleet, memo)
    tenant = called_back(tenant, reader.fits, reader.is_ruled_out)
    tenant, left = rolled_back(tenant, _Reader(tenant, fleet, memo).may_return)
    tenant, undone = settings_restored(tenant, _Reader(tenant, fleet, memo).fits)
    request = tenant.request
    left = still_refused(request, (*left, *undone))
    if request.total is None:
        return _demand_of(tenant, left, fleet, memo)
    sized = (replace(tenant, request=each) for each in sizes_of(request, fleet, memo))
    sizes = tuple(_demand_of(each, left, fleet, memo) for each in sized)
    return replace(sizes[0], sizes=sizes)


def _demand_of(tenant: Tenant, left: tuple[RollBack, ...], fleet: Fleet, memo: Memo) -> Demand:
    reader = _Reader(tenant, fleet, memo)
    kept, outdated, outgrown = reader.sort_pools()
    speaks = tenant.request.overrides.gpu_type is not None or any(
        pool.generation != tenant.generation for pool in active(tenant.pools)
    )
    demand = Demand(
        tenant=tenant,
        kept=tuple(pool for pool in kept if pool.replicas > 0 or pool.name not in reader.stranded),
        outdated=tuple(outdated),
        outgrown=outgrown,
        moves=tuple(reader.moves(kept)),
        excluded=() if speaks else tuple(each.place for each in tenant.left if not each.node),
        remembers_moves=not speaks,
        rolled_back=left,
    )
    if not demand.asks:
        return demand
    judged = options(tenant.request, fleet, memo)
    demand = replace(demand, excluded=_left_places(demand, judged))
    if tenant.request.overrides.gpu_type is not None:
        return replace(demand, options=judged)
    return replace(demand, options=without_failed(judged, (*tenant.failed, *left), tenant.request.engine.name))


def _left_places(demand: Demand, judged: Options) -> tuple[tuple[str, Split], ...]:
    """Return the places to which replicas do not return; none if no other place is possible any more.

    Replicas that left a place while nothing was known of their volumes, or whose volume was made again elsewhere and
    then where it was, would else wait for an hour where they cannot run. They cannot go to and fro: if the
    place that they have is possible, it stays closed.
    """
    places = [each.target.place for each in judged.verdicts if isinstance(each, Option)]
    has_no_place = bool(demand.tenant.pools) and not any(pool.target.place in places for pool in demand.tenant.pools)
    is_all_closed = bool(places) and all(is_closed(demand.excluded, *place) for place in places)
    return () if has_no_place and is_all_closed else demand.excluded


def with_spot_limits(quotas: Quotas, demands: Iterable[Demand]) -> Quotas:
    """Return the quotas, and how many more replicas each deployment may have on spot nodes, if it keeps some off them.

    A deployment of which too many are there already moves none of them away.
    """
    limited: dict[str, dict[str, int]] = {}
    for demand in demands:
        least = demand.tenant.request.least_on_demand
        if least:
            key = demand.request.key
            there = sum(pool.replicas for pool in demand.kept if capacity_of(pool.gpu_type) is CapacityType.SPOT)
            most = min(way.request.replicas for way in demand.ways) - least
            limited.setdefault(key.namespace, dict(quotas.get(key.namespace, {})))[spot_account(key.name)] = max(
                0, most - there
            )
    return {**quotas, **limited} if limited else quotas


@dataclass(frozen=True, slots=True)
class _Reader:
    """Judges the pools of one tenant."""

    tenant: Tenant
    fleet: Fleet
    memo: Memo

    @property
    def stranded(self) -> dict[str, Pool]:
        """Pools with pods that found no node, or none where they can run, by name."""
        return {pool.name: pool for pool in self.tenant.pools if self._leaving(pool)}

    def _leaving(self, pool: Pool) -> int:
        """Return the replicas that may leave a pool.

        Pods that wait for their volumes stay, because no other node would help, unless it is known that their volumes
        are somewhere else.
        """
        return pool.leaving + (pool.stuck if pool.stuck and self._is_elsewhere(pool) else 0)

    def _is_elsewhere(self, pool: Pool) -> bool:
        verdict = self._judge(pool)
        return isinstance(verdict, Rejection) and verdict.reason is Reason.VOLUME_ELSEWHERE

    def sort_pools(self) -> tuple[list[PlannedPool], list[Pool], Rejection | None]:
        """Return the active pools to keep, those that the user's change outdated, and why a pool was outgrown.

        A pool that was never created and does not fit any more is in none of these, and neither is one without replicas
        for which no node can mount a volume: they are placed again.
        """
        kept: list[PlannedPool] = []
        outdated: list[Pool] = []
        outgrown: Rejection | None = None
        for pool in active(self.tenant.pools):
            verdict = self._judge(pool)
            if isinstance(verdict, Option):
                verdict = self._kept_off_others(self._off_bad_nodes(pool, self._reaching_more(pool, verdict)))
                kept.append(as_chosen(pool, verdict, self.tenant, drain_of(pool, verdict, self.tenant)))
            elif self._is_ruled_out_by_user(pool, verdict) or self.tenant.accepts_move or pool.too_large:
                outdated.append(pool)
            elif pool.exists and not self._holds_a_wrong_place(pool, verdict):
                outgrown = outgrown or (verdict if verdict.reason not in ABOUT_NODES else None)
                kept.append(replace(as_it_is(pool), generation=self.tenant.generation))
        return kept, outdated, outgrown

    @staticmethod
    def _holds_a_wrong_place(pool: Pool, verdict: Rejection) -> bool:
        """Whether a pool only keeps a place for later, and its first pod would find a volume somewhere else."""
        return pool.replicas == 0 and verdict.reason is Reason.VOLUME_ELSEWHERE

    def is_ruled_out(self, pool: Pool) -> bool:
        """Whether a change of the spec rules the place of a pool out."""
        verdict = self._judge(pool)
        return isinstance(verdict, Rejection) and self._is_ruled_out_by_user(pool, verdict)

    def _is_ruled_out_by_user(self, pool: Pool, verdict: Rejection) -> bool:
        """Whether a change of the spec rules the place out.

        A change of nothing that an engine depends on does not make the place too small: it was so before. A write of
        ``spec.replicas``, e.g. by an autoscaler, would else be an order to move.
        """
        if pool.generation == self.tenant.generation:
            return False
        return not (pool.spec and pool.spec == self.tenant.spec and verdict.reason in LEFT_BY_MOVES)

    def moves(self, kept: list[PlannedPool]) -> list[Move]:
        """Return the replicas that cannot run where they are, if another place in the fleet may work."""
        stranded = self.stranded
        found: list[Move] = []
        for pool in kept:
            if pool.name not in stranded or self._is_ruled_out_by_nodes(pool):
                continue
            if pool.target != stranded[pool.name].target:
                continue  # it reaches other nodes from now on
            leaving = min(self._leaving(stranded[pool.name]), pool.replicas)
            if leaving:
                obstacle, claim = self._obstacle(stranded[pool.name]), stranded[pool.name].claim
                took = (self.tenant.request, pool.target.resource, pool.split.shape)
                use = NO_USE if claim is None else use_of(*took, claim)
                found.append(Move(pool.name, pool.place, leaving, obstacle, use))
        return found

    def _obstacle(self, pool: Pool) -> str:
        """Return why pods leave a pool, in one word: what is known of their volumes says more than the scheduler."""
        return Reason.VOLUME_ELSEWHERE.value if self._is_elsewhere(pool) else pool.obstacle

    def fits(self, pool: Pool) -> bool:
        """Whether a pool is still valid for the spec with the settings that it has."""
        return isinstance(self._judge(pool), Option)

    def may_return(self, pool: Pool) -> bool:
        """Whether an old pool is still valid for the spec, so that a move may be taken back.

        It is valid if it fits the spec, or if the live loop has left it under the same spec. With another engine than
        the spec has now it is not: it would start anew, and end what serves.
        """
        if pool.engine != self.tenant.request.engine.name:
            return False
        verdict = self._judge(pool)
        if isinstance(verdict, Option) or pool.generation == self.tenant.generation:
            return True
        return pool.spec == self.tenant.spec and verdict.reason in LEFT_BY_MOVES

    def _judge(self, pool: Pool) -> Option | Rejection:
        gpu = self.fleet.named(pool.gpu_type)
        if gpu is None:
            return Rejection(pool.gpu_type, pool.split, Reason.NODES_NOT_SELECTED, (("nodes", 0),))
        candidate = Candidate(gpu, pool.target)
        request = self._as_admitted(pool)
        running = self._with_settings_of(pool, request)
        verdict = self._judged(running, candidate)
        stays = self._keeps_settings(pool) and not self.tenant.accepts_move
        if isinstance(verdict, Option) or (running is not request and stays):
            return verdict
        return self._judged(request, candidate)

    def _as_admitted(self, pool: Pool) -> Request:
        """Return the request by which a pool is judged: no LimitRange makes it leave pods that it has."""
        return self.tenant.request.as_admitted if pool.exists else self.tenant.request

    def _judged(self, request: Request, candidate: Candidate) -> Option | Rejection:
        """Return the verdict. A measured speed makes no pool leave.

        The live loop sees whether a promise is kept at the load that comes, which is mostly less than the declared one.
        """
        verdict = judge(request, candidate, self.fleet, self.memo)
        if request.speeds and isinstance(verdict, Rejection) and verdict.reason is Reason.TOO_SLOW:
            verdict = judge(request.as_estimated, candidate, self.fleet, self.memo)
        return with_more_requests(request, verdict, self.memo) if isinstance(verdict, Option) else verdict

    def _keeps_settings(self, pool: Pool) -> bool:
        """Whether some of the pool's settings were chosen for the present spec."""
        return pool.generation == self.tenant.generation or pool.spec == self.tenant.spec

    def _with_settings_of(self, pool: Pool, request: Request) -> Request:
        """Return the request with the settings of the pool's engines: learned corrections must not restart them.

        A change of the spec that changes no engine, e.g. of the number of replicas, must not restart them either. The
        precision of the cache is kept as long as the user permits it, whatever else changes.
        """
        if pool.too_large:
            return request
        same_spec = pool.spec == self.tenant.spec
        same_step = pool.generation == self.tenant.generation or (same_spec and bool(pool.spec))
        own = pool.limits.of_replica(pool.split.data_parallel)
        kept = StepLimits(own.step_tokens if same_step else 0, own.sequences if same_spec else 0)
        host_bytes = pool.host_cache_bytes if same_spec else None
        return request.with_cache_as(narrow=pool.has_narrow_cache, host_bytes=host_bytes).limited(kept)

    def _reaching_more(self, pool: Pool, verdict: Option) -> Option:
        """Return the verdict with all labels of the type's nodes, if pods found no node with the pool's labels.

        Otherwise a running pool keeps its labels, because others would restart its engines.
        """
        known = pool.target.labels
        others = [label for label in self.fleet.labels_of(pool.gpu_type) if label not in known]
        if not others or not pool.stranded:
            return verdict
        nodes = eligible_nodes(self.tenant.request, self.fleet, pool.gpu_type)
        if not any(node.selector in others and node.free >= pool.split.shape.gpus_per_pod for node in nodes):
            return verdict
        labels = tuple(sorted((*pool.target.other_labels, *others)))
        return replace(verdict, target=replace(verdict.target, other_labels=labels))

    def _off_bad_nodes(self, pool: Pool, verdict: Option) -> Option:
        """Return the verdict without the nodes where the pool's pods cannot run, if another node has room for one."""
        avoids = self._avoided(pool, verdict)
        return (
            verdict if avoids == pool.target.avoids else replace(verdict, target=replace(verdict.target, avoids=avoids))
        )

    def _avoided(self, pool: Pool, verdict: Option) -> tuple[str, ...]:
        """Return the nodes that the pool's pods stay off from now on.

        A change starts its engines anew. So a node that was left more than an hour ago is tried again only together
        with another change, or if pods wait and it has room for them.
        """
        known, left = pool.target.avoids, self.tenant.left
        here = (each for each in left if each.place == pool.target.place and not each.is_of_one_replica)
        remembered = {each.node for each in here if each.node}
        if pool.restarts:
            known = tuple(sorted({*known, *remembered}))  # its engines start anew in any case
        if not known and not pool.bad_nodes:
            return ()
        nodes = eligible_nodes(self.tenant.request, self.fleet, pool.gpu_type)
        labels, gpus = verdict.target.labels, pool.split.shape.gpus_per_pod
        free = {node.name for node in nodes if node.selector in labels and node.free >= gpus}
        lately = tuple(name for name in known if name in remembered)
        if pool.restarts or (pool.stranded and not free.isdisjoint(known)):
            known = lately
        bad = [name for name, _ in pool.bad_nodes if name not in known]
        if not bad or not free or any(is_spent(left, pool.target.place, name) for name in bad):
            return known
        return tuple(sorted({*bad, *lately}))[:MOST_AVOIDED]

    def _kept_off_others(self, verdict: Option) -> Option:
        """Return the verdict with the restriction to a capacity type that the user may have added since."""
        if verdict.target.capacity is not None or not self.tenant.request.constraints.restricts_capacity:
            return verdict
        return replace(verdict, target=replace(verdict.target, capacity=verdict.gpu.capacity))

    def _is_ruled_out_by_nodes(self, pool: PlannedPool) -> bool:
        """Whether nodes of the type exist but a taint or a label keeps the pods off all of them.

        An admin made this change to the nodes, and will either undo it or choose another place for the pods. Nodes
        where the pods could not run, those that cannot mount a volume, and those for which the image turns out to have
        no platform, do not count: nobody chose that.
        """
        request = self.tenant.request
        rules = tuple(rule for rule in request.node_rules if rule.reason not in NOBODYS_CHOICE)
        present = self.fleet.of_type(pool.gpu_type)
        return bool(present) and not eligible_nodes(replace(request, node_rules=rules), self.fleet, pool.gpu_type)
