"""One pass over every deployment: the planner's whole answer as a value.

1. Promise GPUs to what was decided earlier and is not bound yet.
2. Oldest deployment first: keep what still fits, replace what the user changed, place what is missing.

Nothing that runs is ever given up for somebody else, and every deployment takes from the same ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import Choice, Placed, Rejection, Remedy, Split
from plimsoll.domain.reasons import Reason, RemedyKind
from plimsoll.domain.serving import Request
from plimsoll.placement.candidates import Candidate
from plimsoll.placement.eligibility import eligible_nodes
from plimsoll.placement.feasibility import judge
from plimsoll.placement.ledger import Ledger, Quotas
from plimsoll.placement.memo import Memo
from plimsoll.placement.place import NO_PRICE, alternatives_to, place, rank, taken
from plimsoll.placement.pools import Decision, PlannedPool, Pool, PoolState, Tenant, pool_name
from plimsoll.placement.promises import promise_earlier, promise_standing
from plimsoll.placement.rehoming import Departure, is_spent
from plimsoll.placement.remedies import Adviser, only_waits
from plimsoll.placement.remedies_beside_gpus import remedies_beside_gpus
from plimsoll.placement.warnings import warnings_for

MAX_POOLS = 4
"""GPU types that one deployment may spread over: more would be nobody's wish."""


def plan(
    tenants: Sequence[Tenant],
    fleet: Fleet,
    catalog: Sequence[GpuType] = (),
    standing: Sequence[Pool] = (),
    quotas: Quotas | None = None,
    memo: Memo | None = None,
) -> tuple[Decision, ...]:
    """Decide every deployment, in the order of the answer's tuple: oldest first, names breaking ties.

    ``catalog`` is only consulted for remedies (which GPUs would help if there were any). ``standing`` are pools of
    deployments that cannot be planned now, e.g. because a hub does not answer: their pods will bind all the same.
    ``quotas`` are the GPUs that namespaces may still ask for; those of one namespace share them.
    ``memo`` carries answers from one pass to the next: it saves time and changes no decision.

    It never raises for one deployment's sake: an error is written into that deployment's decision.
    """
    return tuple(decisions(tenants, fleet, catalog, standing, quotas, memo))


def decisions(
    tenants: Sequence[Tenant],
    fleet: Fleet,
    catalog: Sequence[GpuType] = (),
    standing: Sequence[Pool] = (),
    quotas: Quotas | None = None,
    memo: Memo | None = None,
) -> Iterator[Decision]:
    """The decisions of :func:`plan`, each as soon as it is made: whoever waits sees that the work goes on."""
    adviser = Adviser(fleet, catalog, Memo() if memo is None else memo)
    order = sorted(tenants, key=lambda tenant: (tenant.request.created, tenant.request.key))
    ledger = Ledger.of(fleet, quotas)
    for pool in standing:
        ledger = promise_standing(pool, fleet, ledger)
    for tenant in order:
        ledger = promise_earlier(tenant, fleet, ledger)
    for tenant in order:
        decision, ledger = _decide(tenant, fleet, ledger, adviser)
        yield decision


def _decide(tenant: Tenant, fleet: Fleet, ledger: Ledger, adviser: Adviser) -> tuple[Decision, Ledger]:
    desk = _Desk(tenant, fleet, ledger, adviser)
    try:
        return desk.decide(), desk.ledger
    except PlimsollError as error:
        return _failed(tenant, str(error), is_refusal=True), ledger
    except Exception as error:  # noqa: BLE001 - whatever one deployment provokes must not cost the others their plan
        return _failed(tenant, f"{type(error).__name__}: {error}"), ledger


def _failed(tenant: Tenant, failure: str, *, is_refusal: bool = False) -> Decision:
    """Everything as it is."""
    pools = tuple(_as_it_is(pool) for pool in tenant.pools)
    return Decision(tenant.request, pools, failure=failure, is_refusal=is_refusal)


@dataclass(slots=True)
class _Findings:
    """What placing brought up on the way, to be told in the decision."""

    rejections: tuple[Rejection, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    placed: bool = False
    departures: tuple[Departure, ...] = ()
    spent: bool = False


@dataclass(slots=True)
class _Desk:
    """One deployment's turn: reads the tenant, takes from the ledger, writes down the pools."""

    tenant: Tenant
    fleet: Fleet
    ledger: Ledger
    adviser: Adviser
    findings: _Findings = field(default_factory=_Findings)

    @property
    def memo(self) -> Memo:
        return self.adviser.memo

    @property
    def request(self) -> Request:
        return self.tenant.request

    def decide(self) -> Decision:
        if self.tenant.suspended:
            return Decision(self.request, tuple(_as_it_is(pool) for pool in self.tenant.pools))
        kept, outdated, outgrown = self._sort_pools()
        pools = self._rehome_stranded(kept)
        pools, blocked = self._replace_outdated(pools, outdated) if outdated else (self._fit_number(pools), False)
        missing = max(0, self.request.replicas - _count(pools))
        pools = [*pools, *self._still_retiring(pools)]
        chosen = next((pool.choice for pool in pools if pool.choice is not None), None)
        if (
            chosen is not None
            and not self.findings.placed
            and any(pool.generation != self.tenant.generation for pool in self.tenant.pools)
        ):
            self.findings.placed = True
            self.findings.rejections = alternatives_to(chosen, self.request, self.fleet, self.memo)
        return Decision(
            request=self.request,
            pools=tuple(self._with_surge(pool) for pool in pools),
            missing=missing,
            placed_now=self.findings.placed,
            rejections=self.findings.rejections,
            remedies=self.findings.remedies,
            warnings=() if chosen is None else warnings_for(self.request, chosen),
            outgrown=outgrown,
            change_blocked=blocked,
            departures=self.findings.departures,
            rehomings_spent=self.findings.spent,
        )

    def _sort_pools(self) -> tuple[list[PlannedPool], list[Pool], Rejection | None]:
        """Which active pools the request still fits, which the user's change outdated, and what was outgrown.

        One that was never made and does not fit any more is none of these: its replicas are placed anew.
        """
        kept: list[PlannedPool] = []
        outdated: list[Pool] = []
        outgrown: Rejection | None = None
        for pool in self.tenant.pools:
            if pool.state is not PoolState.ACTIVE:
                continue
            verdict = self._judge(pool)
            if isinstance(verdict, Choice):
                kept.append(_planned(pool, verdict, self.tenant.generation))
            elif pool.generation != self.tenant.generation or self.tenant.accepts_move or pool.too_large:
                outdated.append(pool)
            elif pool.exists:
                outgrown = outgrown or (verdict if verdict.reason not in _ABOUT_NODES else None)
                kept.append(_as_it_is(pool))
        return kept, outdated, outgrown

    def _judge(self, pool: Pool) -> Choice | Rejection:
        gpu = next((gpu for gpu in self.fleet.gpu_types() if gpu.name == pool.gpu_type), None)
        if gpu is None:
            return Rejection(pool.gpu_type, pool.split, Reason.NODES_NOT_SELECTED, (("nodes", 0),))
        candidate = Candidate(gpu, pool.split, pool.selector, pool.resource)
        as_it_runs = self._with_step_of(pool)
        verdict = judge(as_it_runs, candidate, self.fleet, self.memo)
        if isinstance(verdict, Choice) or (as_it_runs is not self.request and not self.tenant.accepts_move):
            return verdict
        return judge(self.request, candidate, self.fleet, self.memo)

    def _with_step_of(self, pool: Pool) -> Request:
        """The request with the step that the pool's engines run with: what they teach must not restart them."""
        if pool.batched_tokens is None or pool.generation != self.tenant.generation or pool.too_large:
            return self.request
        return replace(self.request, engine=replace(self.request.engine, max_batched_tokens=pool.batched_tokens))

    def _rehome_stranded(self, pools: list[PlannedPool]) -> list[PlannedPool]:
        """Replicas that the scheduler cannot bind go elsewhere if there is an elsewhere; else they keep waiting.

        A place that was left is remembered and not gone back to within the hour, and no deployment leaves more than a
        few in that time: however the scheduler answers, two pools never take turns.
        """
        stranded = {pool.name: pool for pool in self.tenant.pools if pool.stranded}
        for pool in list(pools):
            count = min(stranded[pool.name].stranded, pool.replicas) if pool.name in stranded else 0
            if count == 0 or self._is_ruled_out_by_nodes(pool):
                continue
            if is_spent((*self.tenant.left, *self.findings.departures), pool.place):
                self.findings.spent = True
                continue
            placed = self._place(count, leaving=pool.place, may_open=len(pools) < MAX_POOLS)
            if placed is not None:
                departure = Departure(*pool.place, stranded[pool.name].obstacle)
                self.findings.departures = (*self.findings.departures, departure)
                pools = [_resized(other, -placed.replicas) if other.name == pool.name else other for other in pools]
                pools = self._add(pools, placed)
        return [pool for pool in pools if pool.replicas > 0 or pool.name not in stranded] if pools else pools

    def _is_ruled_out_by_nodes(self, pool: PlannedPool) -> bool:
        """Whether nodes of the type are there and the pods may use none: a taint or a label of theirs is in the way.

        Somebody did that to the nodes and will undo it, or will say where the pods are to go.
        """
        present = self.fleet.of_type(pool.gpu_type)
        return bool(present) and not eligible_nodes(self.request, self.fleet, pool.gpu_type)

    def _fit_number(self, pools: list[PlannedPool]) -> list[PlannedPool]:
        """Place what is missing, take away what is too much."""
        while (missing := self.request.replicas - _count(pools)) > 0 and len(pools) < MAX_POOLS:
            placed = self._place(missing)
            if placed is None:
                break
            pools = self._add(pools, placed)
        if not pools and self.request.replicas == 0:
            placed = self._place(0)
            pools = [] if placed is None else self._add(pools, placed)
        return _shrunk(pools, _count(pools) - self.request.replicas)

    def _replace_outdated(self, pools: list[PlannedPool], outdated: list[Pool]) -> tuple[list[PlannedPool], bool]:
        """New pools for what the user changed, all replicas or none: the old ones serve until then."""
        ledger, missing = self.ledger, self.request.replicas - _count(pools)
        placed = self._place(max(0, missing))
        if placed is not None and placed.replicas >= missing:
            return self._add(pools, placed), False
        self.ledger = ledger
        if placed is not None:  # room for some of them only: the change waits for GPUs, it is not refused
            self.findings.rejections = (
                taken(self.request, placed.choice, self.fleet, ledger),
                *self.findings.rejections,
            )
        if only_waits(self.findings.rejections) and not any(pool.ready for pool in outdated):
            return self._fit_number(pools), False  # what serves nobody must not keep the GPUs that its cure waits for
        pools = [*pools, *(_as_it_is(pool) for pool in outdated)]
        return _shrunk(pools, _count(pools) - self.request.replicas), True

    def _still_retiring(self, pools: list[PlannedPool]) -> list[PlannedPool]:
        """Old pools that must serve on, because the active ones do not yet."""
        ready = {pool.name: pool.ready for pool in self.tenant.pools}
        active = {pool.name for pool in pools}
        serving = sum(min(ready.get(pool.name, 0), pool.replicas) for pool in pools)
        wanted = min(self.request.replicas, _count(pools))
        if serving >= wanted and (wanted > 0 or self.request.replicas == 0):
            return []
        held = [pool for pool in self.tenant.pools if pool.name not in active and pool.exists and not pool.too_large]
        old = [pool for pool in held if pool.replicas > 0]
        return [replace(_as_it_is(pool), state=PoolState.RETIRING) for pool in old if wanted > 0 or pool.ready > 0]

    def _place(
        self, replicas: int, leaving: tuple[str, Split] | None = None, *, may_open: bool = True
    ) -> Placed | None:
        """Place on the ledger as it stands; remember why not, whatever comes out.

        Where replicas only leave a place, nothing is said unless there is another: they wait where they are, and no
        wish of the user's was turned down. ``may_open`` False allows pools that are there already.
        """
        request = replace(self.request, replicas=replicas)
        outcome = place(request, self.fleet, self.ledger, self._closed(leaving), self.memo)
        if leaving is not None and not (isinstance(outcome, Placed) and (may_open or self._has_pool(outcome))):
            return None
        self.findings.placed = True
        self.findings.rejections = outcome.rejections
        if isinstance(outcome, Placed):
            self._book(outcome)
            return outcome
        self.findings.remedies = (
            *remedies_beside_gpus(self.request, self.fleet, self.ledger, outcome.rejections, self.memo),
            *(each for each in self.adviser.remedies(self.request, self.ledger) if self._may_help(each)),
        )
        return None

    def _may_help(self, remedy: Remedy) -> bool:
        """Free GPUs help where GPUs are short, and not where a quota or the nodes' processors are."""
        short = any(rejection.reason is Reason.GPUS_TAKEN for rejection in self.findings.rejections)
        return short or remedy.kind is not RemedyKind.FREE_GPUS

    def _closed(self, leaving: tuple[str, Split] | None) -> tuple[tuple[str, Split], ...]:
        """Places not to go to: those that were left in the last hour, unless the user has spoken since."""
        left = (
            *(each.place for each in self.tenant.left),
            *(each.place for each in self.findings.departures),
        )
        speaks = self.request.overrides.gpu_type is not None or any(
            pool.generation != self.tenant.generation and pool.state is PoolState.ACTIVE for pool in self.tenant.pools
        )
        kept = () if speaks else left
        return kept if leaving is None else (*kept, leaving)

    def _has_pool(self, outcome: Placed) -> bool:
        name = pool_name(outcome.choice.gpu.name, outcome.choice.split)
        return any(pool.name == name for pool in self.tenant.pools)

    def _book(self, placed: Placed) -> None:
        choice = placed.choice
        nodes, need = eligible_nodes(self.request, self.fleet, choice.gpu.name), self.request.host_need
        taken = self.ledger.take(nodes, choice.split.gpus, placed.replicas, need)
        gpus = choice.split.gpus * placed.replicas
        self.ledger = taken.charge(self.request.key.namespace, choice.resource, gpus)

    def _add(self, pools: list[PlannedPool], placed: Placed) -> list[PlannedPool]:
        """The placed replicas join the pool of their kind, or open one."""
        name = pool_name(placed.choice.gpu.name, placed.choice.split)
        if any(pool.name == name for pool in pools):
            return [_resized(pool, placed.replicas) if pool.name == name else pool for pool in pools]
        opened = PlannedPool(
            name=name,
            gpu_type=placed.choice.gpu.name,
            split=placed.choice.split,
            selector=placed.choice.selector,
            resource=placed.choice.resource,
            state=PoolState.ACTIVE,
            generation=self.tenant.generation,
            replicas=placed.replicas,
            choice=placed.choice,
        )
        return [*pools, opened]

    def _with_surge(self, pool: PlannedPool) -> PlannedPool:
        """An update in progress already holds its surge: do not change its mind half-way."""
        now = next((earlier for earlier in self.tenant.pools if earlier.name == pool.name), None)
        nodes = eligible_nodes(self.request, self.fleet, pool.gpu_type)
        quota = self.ledger.quota_left(self.request.key.namespace, pool.resource)
        room = (quota is None or quota >= pool.split.gpus) and self.ledger.has_room(
            nodes, pool.split.gpus, self.request.host_need
        )
        return replace(pool, surge=room or (now is not None and now.bound > pool.replicas))


_ABOUT_NODES = (Reason.NODES_NOT_SELECTED, Reason.NODE_TOO_SMALL, Reason.IMAGE_FOR_OTHER_VENDOR)
"""Lost nodes are the scheduler's to report, pod by pod, and an image that runs there is made for it after all: these do
not make a placement wrong-sized."""


def _planned(pool: Pool, choice: Choice, generation: int) -> PlannedPool:
    return replace(_as_it_is(pool), choice=choice, generation=generation)


def _as_it_is(pool: Pool) -> PlannedPool:
    return PlannedPool(
        name=pool.name,
        gpu_type=pool.gpu_type,
        split=pool.split,
        selector=pool.selector,
        resource=pool.resource,
        state=pool.state,
        generation=pool.generation,
        replicas=pool.replicas,
        choice=None,
        batched_tokens=pool.batched_tokens,
    )


def _resized(pool: PlannedPool, by: int) -> PlannedPool:
    return replace(pool, replicas=pool.replicas + by)


def _count(pools: Sequence[PlannedPool]) -> int:
    return sum(pool.replicas for pool in pools)


def _shrunk(pools: list[PlannedPool], surplus: int) -> list[PlannedPool]:
    """Take away from the dearest pool first; one pool stays, at zero if need be, to hold the decision."""
    by_cost = sorted(pools, key=lambda pool: (_cost(pool), pool.name), reverse=True)
    left = {pool.name: pool.replicas for pool in pools}
    for pool in by_cost:
        taken = min(left[pool.name], max(0, surplus))
        left[pool.name] -= taken
        surplus -= taken
    resized = [replace(pool, replicas=left[pool.name]) for pool in pools]
    alive = [pool for pool in resized if pool.replicas > 0]
    return alive or resized[:1]


def _cost(pool: PlannedPool) -> tuple[Decimal, int]:
    """What a replica costs; a pool that is left untouched counts as the dearest."""
    return (NO_PRICE, 0) if pool.choice is None else rank(pool.choice)[:2]
