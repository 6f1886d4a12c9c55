"""One object in one pass: the fields that the planner's steps fill in, and the questions about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from plimsoll.api.convert import to_workload_options
from plimsoll.api.v1alpha1 import InferenceDeployment, RebalancingMode
from plimsoll.api.v1alpha1.status import SizeStatus
from plimsoll.app.faults import Fault
from plimsoll.app.live.quiet_watch import IdleWanted
from plimsoll.app.live.rebalancing import Running, Standing, Turn, may_sleep, policy_of
from plimsoll.app.live.season_watch import DaysWanted
from plimsoll.app.live.signal_watch import CAPACITY_WINDOW_SECONDS, HISTORY_SECONDS, STALE_MEMORY_SECONDS, Wanted
from plimsoll.app.plan.inbox import DeploymentInbox, Outbox
from plimsoll.app.reading.lessons import Contribution, contribution
from plimsoll.app.reading.objects import Surroundings, is_updating, pool_views
from plimsoll.app.reading.spec_digests import SpecDigests, digests_of
from plimsoll.app.refusals import Refusal
from plimsoll.app.settings import Settings
from plimsoll.app.watch.contests import Contest
from plimsoll.app.watch.equal_parts import shared
from plimsoll.app.watch.pruning import why_reduced
from plimsoll.app.watch.store import Body, uid_of
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.images import EngineImages
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.model import ModelFacts, Task
from plimsoll.domain.observations import Seen
from plimsoll.domain.outcomes import MemoryEstimate
from plimsoll.domain.priorities import NO_PRIORITY, Priority
from plimsoll.domain.proposals import Proposal
from plimsoll.domain.public_words import RESOLVING, ConditionReason
from plimsoll.domain.serving import ObservedCapacity, Request
from plimsoll.domain.times import to_rfc3339
from plimsoll.domain.workload import Manifest
from plimsoll.engines.registry import engine_of
from plimsoll.placement.failed_moves import FailedMove, settings_refused
from plimsoll.placement.failed_moves import remembered as remembered_failures
from plimsoll.placement.feasibility import sized
from plimsoll.placement.memo import Memo
from plimsoll.placement.move_clock import LEAST_SECONDS, MoveClock, continued, seconds_for_move
from plimsoll.placement.other_steps import other_steps
from plimsoll.placement.pools import Decision, PlannedPool, Pool, PoolState, SeenAnswers, Tenant, as_it_runs
from plimsoll.placement.rehoming import Rehoming
from plimsoll.placement.rehoming import remembered as remembered_places
from plimsoll.placement.replacements import Replacements
from plimsoll.placement.retune_clock import RetuneClock
from plimsoll.rebalance.law.modelling import model_of
from plimsoll.rebalance.state.memory import Learned
from plimsoll.render.left_out import NOTHING_COMES, Coming
from plimsoll.render.objects import deployment, disruption_budget, service
from plimsoll.render.placement_proposals import Owner
from plimsoll.status.decisions import DecisionNote, decision_of
from plimsoll.status.decisions import remembered as remembered_decisions
from plimsoll.status.reading import Record, record_of
from plimsoll.status.report import Problem, Report


@dataclass(slots=True)
class Case:
    """One object in one pass, from the user's spec to the decision."""

    body: Body
    key: ObjectKey
    around: Surroundings
    digests: SpecDigests | None = None
    is_being_written: bool = False
    resource: InferenceDeployment | None = None
    model: ModelFacts | None = None
    problem: Problem | None = None
    request: Request | None = None
    priority: Priority = NO_PRIORITY
    pools: tuple[Pool, ...] = ()
    left: tuple[Rehoming, ...] = ()
    failed: tuple[FailedMove, ...] = ()
    clock: MoveClock | None = None
    overdue: bool = False
    retune: RetuneClock | None = None
    retune_due: float | None = None
    updates_due: tuple[tuple[str, float], ...] = ()
    late_updates: frozenset[str] = frozenset()
    move_seconds: float = LEAST_SECONDS
    standing: Standing | None = None
    turn: Turn | None = None
    decision: Decision | None = None
    too_small: tuple[ObservedCapacity, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    seen: tuple[Seen, ...] = ()
    reported: dict[str, int] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    report: Report | None = None
    fault: Fault | None = None
    refusal: Refusal | None = None
    contests: tuple[tuple[str, Contest], ...] = ()
    left_out: str = ""
    coming: Coming = NOTHING_COMES
    held_back: tuple[tuple[str, int], ...] = ()
    replacing: Replacements = ()
    leaving: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()
    manifests: list[Manifest] = field(default_factory=list)
    new_status: Mapping[str, Any] | None = None
    inbox: DeploymentInbox | None = None
    outbox: Outbox = field(default_factory=Outbox)

    @property
    def uid(self) -> str:
        """The object's identity."""
        return uid_of(self.body)

    @property
    def created_at(self) -> str:
        """When the object was made, in RFC 3339."""
        return str(self.body["metadata"].get("creationTimestamp") or "")

    @property
    def record(self) -> Record:
        """The usable part of the status as last written."""
        return record_of(self.body)

    @property
    def spec_digest(self) -> str:
        """Hex digits that change with any part of the spec that affects an engine's memory."""
        return self._digests.engine

    @property
    def size_digest(self) -> str:
        """Hex digits that change with any part of the spec on which the best size depends."""
        return self._digests.size

    @property
    def start_digest(self) -> str:
        """Hex digits that change with any part of the spec on which an engine's start depends."""
        return self._digests.start

    @property
    def _digests(self) -> SpecDigests:
        if self.digests is None:
            self.digests = digests_of(self.body.get("spec"))
        return self.digests

    @property
    def size(self) -> SizeStatus | None:
        """The size that was chosen for this spec and is in use. A deployment without a pool chooses again."""
        known = self.record.status.size
        is_in_use = known is not None and known.spec == self.size_digest and bool(self.pools)
        return known if is_in_use else None

    @property
    def generation(self) -> int:
        """The spec's generation."""
        return int(self.body["metadata"].get("generation") or 1)

    @property
    def inference_pool(self) -> str:
        """The InferencePool whose gateway's queue counts; empty where there is none or the live loop is off."""
        given = None if self.resource is None else self.resource.spec.rebalancing
        if given is None or given.gateway is None or given.mode is RebalancingMode.OFF:
            return ""
        return given.gateway.inference_pool

    def stand_still(self, problem: Problem) -> None:
        """Change nothing of this object: its pools stay, and only the problem is reported."""
        self.problem = problem
        self.request = None
        self.decision = None
        self.turn = None
        self.manifests = []


def owner_of(case: Case) -> Owner:
    """The object as the owner of its proposals."""
    return Owner(case.key, case.uid, case.generation)


def report_of(case: Case, now: float) -> Report:
    """Return the data that the status is made of. ``now`` is in POSIX seconds."""
    spec = case.resource.spec if case.resource else None
    mode = spec.rebalancing.mode if spec else RebalancingMode.OFF
    sized = spec is not None and spec.total_concurrency is not None
    return Report(
        name=case.key.name,
        generation=case.generation,
        replicas=case.request.replicas if case.request else _declared_replicas(case.body),
        decision=case.decision,
        too_small=case.too_small,
        replacing=sum(count for _, count in case.replacing),
        leaving=case.leaving,
        awaits=case.awaits,
        problem=case.problem,
        model=case.model,
        engine_version=spec.engine.version if spec else "",
        pools=pool_views(case.around, case.record, case.reported, case.silent, now=now),
        suspended=bool(spec and spec.suspend),
        observations=case.seen,
        spec_digest=case.spec_digest,
        size_digest=case.size_digest if sized else None,
        rehomings=remembered_places(case.left, case.decision.departures, now) if case.decision else (),
        move=_move(case, now),
        failed_moves=_failed_moves(case, now),
        late=_late(case),
        retune=case.retune,
        retune_due=case.retune_due,
        late_updates=case.late_updates,
        decisions=_decisions(case, now),
        proposals=case.proposals,
        rebalancing=None
        if case.turn is None
        else case.turn.report(case.record, mode, sized=sized, namespace=case.key.namespace),
        rebalancing_off=spec is not None and spec.rebalancing.mode is RebalancingMode.OFF,
        contested=_contested(case),
        namespace=case.key.namespace,
        refused="" if case.refusal is None else case.refusal.sentence(),
        refusal_passes=case.refusal is not None and case.refusal.is_passing,
        asleep=_asleep(case),
        left_out=case.left_out,
        coming=case.coming.sentence,
    )


def _move(case: Case, now: float) -> MoveClock | None:
    """The clock of the move that is under way after this pass; None where no old pool serves on."""
    if case.decision is None or not _retires(case.decision):
        return None
    new = [pool for pool in case.decision.pools if pool.state is PoolState.ACTIVE]
    pools = tuple(sorted(pool.name for pool in new))
    return continued(case.clock, pools, seconds_allowed(case), case.start_digest, now)


def seconds_allowed(case: Case) -> float:
    """How long new replicas of this decision may take until they serve."""
    pools = () if case.decision is None else case.decision.pools
    weights = (_weights_bytes(pool) for pool in pools if pool.state is PoolState.ACTIVE)
    return seconds_for_move(_longest_startup(case), max(weights, default=0), case.move_seconds)


def _retires(decision: Decision) -> bool:
    return any(pool.state is PoolState.RETIRING for pool in decision.pools)


def _weights_bytes(pool: PlannedPool) -> int:
    """The weights of one replica of a pool."""
    return 0 if pool.choice is None else pool.choice.estimate.weights_bytes * pool.split.gpus


def _longest_startup(case: Case) -> float | None:
    """The longest start-up of this object's replicas that was ever seen, in seconds."""
    seen = [pod.startup_seconds for pod in case.around.ready_pods() if pod.startup_seconds is not None]
    learned = case.record.learned
    if learned is not None and learned.startup_seconds is not None:
        seen.append(learned.startup_seconds)
    return max(seen, default=None)


def _failed_moves(case: Case, now: float) -> tuple[FailedMove, ...]:
    if case.decision is None:
        return ()
    request = case.decision.request
    recorded = [each for each in case.record.failed_moves if not request.knows_better(each.delay.reason)]
    return remembered_failures(recorded, case.decision.rolled_back, case.start_digest, now)


def _late(case: Case) -> Pool | None:
    """The new pool that does not serve although its time is over, and that no serving old pool may replace for good."""
    serves_on = any(pool.state is PoolState.RETIRING and pool.ready > 0 for pool in case.pools)
    if case.decision is None or not (case.overdue and serves_on and _retires(case.decision)):
        return None
    return next((pool for pool in case.pools if pool.delay is not None), None)


def _asleep(case: Case) -> str:
    """Return why the live loop wants no replica, and what starts one; empty where the user wants none."""
    if case.resource is None or not may_sleep(case.resource.spec.rebalancing) or case.request is None:
        return ""
    if case.request.replicas > 0:
        return ""
    policy = policy_of(case.resource.spec)
    starts = "a request that waits at the gateway, or a change of spec.replicas" if policy.wakes else "spec.replicas"
    why = "spec.replicas is 0" if not case.resource.spec.replicas else "No request has come for a while"
    return f"{why}, so no replica runs. What starts one: {starts}."


def _decisions(case: Case, now: float) -> tuple[DecisionNote, ...]:
    earlier = tuple(map(decision_of, case.record.status.decisions or ()))
    if case.decision is None:
        return earlier
    return remembered_decisions(earlier, case.key, case.pools, case.decision, to_rfc3339(now))


def _contested(case: Case) -> str:
    """Sentences about others that scale the object's Deployments; ``contests`` are by pool."""
    planned = {} if case.decision is None else {pool.name: pool.replicas for pool in case.decision.pools}
    return " ".join(contest.sentence(planned.get(pool, 0)) for pool, contest in case.contests)


def _declared_replicas(body: Body) -> int:
    if why_reduced(body) is not None:  # its spec is not there, and its replicas stay as they are
        return sum(pool.replicas for pool in record_of(body).pools if pool.state is PoolState.ACTIVE)
    spec, size = body.get("spec") or {}, record_of(body).status.size
    declared = spec.get("replicas")
    if "totalConcurrency" in spec:
        declared = spec.get("minReplicas", 1) if size is None else size.replicas
    return declared if isinstance(declared, int) else 0


def manifests_of(case: Case, images: EngineImages | None = None, *, scrape_annotations: bool = False) -> list[Manifest]:
    """Render the objects of the decision; none if there is no plan or the user has suspended the object.

    The pools with the largest pods come first, because the scheduler binds pods in the order of their creation.
    """
    if case.decision is None or case.resource is None or case.resource.spec.suspend or not case.decision.pools:
        return []
    platforms = case.decision.request.platforms
    options = to_workload_options(case.resource, images, scrape_annotations=scrape_annotations, platforms=platforms)
    held, more = dict(case.held_back), dict(case.replacing)
    made = [_held(_replaced(pool, more), held) for pool in case.decision.pools]
    ordered = sorted(made, key=lambda pool: -pool.split.gpus)
    pools = [deployment(options, pool, pool.choice) for pool in ordered if pool.choice is not None]
    keeps = sum(pool.replicas for pool in case.decision.pools if pool.state is PoolState.ACTIVE) if more else None
    return [shared(manifest) for manifest in (service(options), disruption_budget(options, keeps), *pools)]


def _replaced(pool: PlannedPool, more: Mapping[str, int]) -> PlannedPool:
    """Return a pool with the pods that start before a node goes."""
    return replace(pool, replicas=pool.replicas + more[pool.name]) if pool.name in more else pool


def _held(pool: PlannedPool, held: Mapping[str, int]) -> PlannedPool:
    """Return a pool with no more replicas than it may have while kubelets reject its pods."""
    most = held.get(pool.name)
    return pool if most is None or most >= pool.replicas else replace(pool, replicas=most)


def images_of(settings: Settings) -> EngineImages:
    """The engines' images as the admin set them."""
    return EngineImages(settings.engine_image_nvidia, settings.engine_image_amd, settings.engine_registry)


def is_passing(case: Case) -> bool:
    """Whether a problem ends by itself and the status has something better: earlier conditions or a placement."""
    status = case.record.status
    if case.problem is None or case.problem.permanent or not status.conditions:
        return False
    placed = bool(status.pools) and status.observed_generation == case.generation
    return placed or case.problem.reason in (*RESOLVING, ConditionReason.PLANNING_QUEUED)


def wanted_signals(case: Case) -> Wanted:
    """The signals to read: the history that the live loop needs, or enough to learn what engines report."""
    pods = tuple(pod.name for pod in case.around.ready_pods())
    addresses = {pod.name: pod.address for pod in case.around.ready_pods() if pod.address}
    if case.resource is None:
        return Wanted(pods, addresses=addresses)
    spec = case.resource.spec
    is_off = spec.rebalancing.mode is RebalancingMode.OFF
    history = max(HISTORY_SECONDS, spec.rebalancing.window_seconds + STALE_MEMORY_SECONDS)
    window = CAPACITY_WINDOW_SECONDS if is_off else history
    metrics = engine_of(spec.engine.engine_name).metrics
    days = None if is_off else _days_wanted(case, spec.rebalancing.cooldown_seconds)
    idle_seconds = policy_of(spec).idle_seconds
    idle = None if idle_seconds is None else IdleWanted(idle_seconds)
    return Wanted(pods, window, metrics, addresses, inference_pool=case.inference_pool, days=days, idle=idle)


def _days_wanted(case: Case, cooldown_seconds: int) -> DaysWanted | None:
    """Return the days before that say how many replicas to start now; None where a start-up was never seen."""
    startup = _longest_startup(case)
    if startup is None:
        return None
    return DaysWanted(startup, startup + cooldown_seconds)


def tenant_of(case: Case) -> Tenant | None:
    """The planner's view of the object; None if it cannot be planned."""
    if case.request is None or case.resource is None:
        return None
    return Tenant(
        case.request,
        case.generation,
        case.pools,
        case.resource.spec.suspend,
        left=case.left,
        spec=case.spec_digest,
        priority=case.priority,
        answers=_answers(case.record.learned),
        overdue=case.overdue,
        failed=case.failed,
    )


def _answers(learned: Learned | None) -> SeenAnswers | None:
    """The answers as the live loop knows them and the status keeps them: small differences change nothing."""
    if learned is None or learned.output_tokens is None:
        return None
    return SeenAnswers(learned.output_tokens, learned.pool, learned.slowness)


def with_sequences(case: Case) -> tuple[Pool, ...]:
    """Return the pools with the most requests at the same time that their engines got.

    Earlier releases recorded it for the deployment only, and it was always ``spec.concurrency``. The engines keep it as
    long as that is so: an upgrade of the operator must not restart them.
    """
    number = case.record.max_sequences
    if number is None:
        return case.pools
    declared = (case.body.get("spec") or {}).get("concurrency")
    if case.record.status.observed_generation != case.generation and number != declared:
        return case.pools
    return tuple(
        replace(pool, max_sequences=number, spec=case.spec_digest) if pool.max_sequences is None else pool
        for pool in case.pools
    )


def is_judged(case: Case) -> bool:
    """Whether the placement was planned for this spec. If not, the plan replaces it; the live loop moves nothing."""
    return all(pool.generation == case.generation for pool in case.pools if pool.state is PoolState.ACTIVE)


def figures_of(request: Request, pools: tuple[Pool, ...], fleet: Fleet, memo: Memo) -> MemoryEstimate | None:
    """The estimate on the first active pool's GPU, whether it fits there or not."""
    active = next((pool for pool in pools if pool.state is PoolState.ACTIVE), None)
    gpu = None if active is None else fleet.named(active.gpu_type)
    if active is None or gpu is None:
        return None
    try:
        return sized(as_it_runs(request, active), gpu, active.split, memo)[1]
    except PlimsollError:
        return None


def contribution_of(case: Case) -> Contribution:
    """Return the observations of the object's engines that count for others."""
    return contribution(case.key, case.body.get("spec"), case.spec_digest, case.seen)


def running_of(case: Case, figures: MemoryEstimate | None, fleet: Fleet, memo: Memo) -> Running:
    """The placement as it runs, for the live loop. ``figures`` are those of :func:`figures_of`, if they are judged."""
    pools = case.pools
    active = next((pool for pool in pools if pool.state is PoolState.ACTIVE), None)
    gpu = None if active is None else fleet.named(active.gpu_type)
    taken_back = case.decision is not None and bool(case.decision.rolled_back)
    moving = taken_back or any(pool.state is PoolState.RETIRING for pool in pools)
    if active is None or gpu is None or case.request is None:
        return Running(figures, moving=moving)
    runs, engine = as_it_runs(case.request, active), engine_of(case.request.engine.name)
    wanted = [pool for pool in pools if pool.state is PoolState.ACTIVE]
    is_refused = any(settings_refused(case.failed, pool.target.place) for pool in wanted)
    tokens = case.reported.get(active.name) or (0 if figures is None else figures.kv_capacity_tokens)
    return Running(
        figures=figures,
        model=model_of(runs, gpu, active.split, tokens),
        most_sequences=None if is_refused else active.split.data_parallel * engine.most_sequences(runs, gpu),
        steps=tuple if is_refused else partial(other_steps, case.request, runs, gpu, active.split, tokens, memo),
        pool=active.name,
        moving=moving,
        retuning=any(pool.earlier is not None and not pool.overdue for pool in wanted),
        rolling=_is_rolling(case, active),
        generates=case.request.model.task is Task.GENERATE,
        mounts_alone=case.request.mounts_alone,
    )


def _is_rolling(case: Case, pool: Pool) -> bool:
    """Whether engines of a pool are replaced by others with another template, or are about to be.

    While an earlier decision is being written, its Deployment may be older than its status.
    """
    is_decided = pool.generation == case.generation and not case.is_being_written and case.refusal is None
    return not is_decided or is_updating(case.around.workloads.get(pool.name))
