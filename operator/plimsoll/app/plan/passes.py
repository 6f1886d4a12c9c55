"""Steps 1 to 4 of a pass: turn a picture of the cluster into statuses and manifests. Synchronous; sends no request.

1. Look: turn pods and nodes into a fleet, including the resources that every pod holds.
2. Read: parse every InferenceDeployment, look up the facts of its model, and add what its engines report.
3. Plan: the core decides for all of them on one ledger, for the number of replicas decided so far.
4. Listen: run the live loop. A change of its own is planned on what is left; statuses and manifests are rendered.

An exception for one object ends the pass for that object only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any

from plimsoll.adapters.catalog import other_checkpoints
from plimsoll.adapters.cluster import INFERENCE_DEPLOYMENTS, PRIORITY_CLASSES, RESOURCE_QUOTAS
from plimsoll.adapters.highs import fleetwide
from plimsoll.adapters.later_collection import collecting_later
from plimsoll.adapters.metrics import Metrics
from plimsoll.adapters.readings import Reading
from plimsoll.api.claims import check_claims, mounted_volumes
from plimsoll.api.convert import check_without_model, platforms_of, to_request
from plimsoll.api.gpu_names import check_gpu_names
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.pod_policy import PodPolicy, check_pod_policy
from plimsoll.api.v1alpha1 import EngineSpec, InferenceDeployment, InferenceDeploymentSpec, RebalancingMode, ScaleOwner
from plimsoll.app.faults import Faults, Step
from plimsoll.app.health import Beats
from plimsoll.app.live.allowances import Allowances
from plimsoll.app.live.rebalancing import Standing, may_sleep, take_turn
from plimsoll.app.live.signal_watch import LiveSignals
from plimsoll.app.lookups.claim_book import ClaimBook
from plimsoll.app.lookups.image_book import ImageBook, reading
from plimsoll.app.lookups.model_book import ModelBook
from plimsoll.app.plan.case import (
    Case,
    contribution_of,
    figures_of,
    images_of,
    is_judged,
    manifests_of,
    owner_of,
    report_of,
    running_of,
    tenant_of,
    wanted_signals,
    with_sequences,
)
from plimsoll.app.plan.deadlines import deadlines_of
from plimsoll.app.plan.inbox import Inbox, Outbox
from plimsoll.app.plan.leaving_nodes import LeavingNodes
from plimsoll.app.plan.moves import read_move
from plimsoll.app.plan.planning_time import PlanningTime
from plimsoll.app.plan.proposing import Proposer
from plimsoll.app.plan.rendered import Rendered
from plimsoll.app.plan.retunes import begin_retune, read_retune, read_updates
from plimsoll.app.plan.rooms import Rooms
from plimsoll.app.plan.snapshot import Snapshot, snapshot_of
from plimsoll.app.plan.turn_memo import TurnMemo
from plimsoll.app.reading.capacities import about_cache, observed_capacities, reported_tokens, silent_pools, told_now
from plimsoll.app.reading.lessons import CommonLessons, lessons, merged, remembered
from plimsoll.app.reading.objects import held_back, read_pools, wanted_replicas
from plimsoll.app.reading.observations import capacities, failed_starts, observed_now
from plimsoll.app.reading.reading_memo import ReadingMemo
from plimsoll.app.refusals import Refusals
from plimsoll.app.settings import Settings
from plimsoll.app.watch import pruning
from plimsoll.app.watch.contests import Contest, Contests
from plimsoll.app.watch.node_groups import NodeGroups
from plimsoll.app.watch.prices import PriceList, PriceWatch
from plimsoll.app.watch.scale_writes import ScaleWrites
from plimsoll.app.watch.sizes import size_sentence
from plimsoll.app.watch.store import Picture, key_of, uid_of
from plimsoll.domain.claims import Claim, rules_of
from plimsoll.domain.errors import InvalidInput, NotPermitted, PlimsollError
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.node_rules import left_rule
from plimsoll.domain.platforms import ImagePlatforms, PlatformSource, from_index, has_other_platforms
from plimsoll.domain.priorities import Priority
from plimsoll.domain.public_words import ConditionReason, ConditionType
from plimsoll.domain.serving import Request
from plimsoll.domain.times import to_rfc3339
from plimsoll.facts.cluster.priority_reading import PriorityClasses, read_priority_classes
from plimsoll.facts.cluster.quota_reading import NamespaceQuotas, read_quotas
from plimsoll.facts.cluster.scheduler_words import OF_VOLUMES
from plimsoll.placement.answers import Answer, answers, remembered_demand
from plimsoll.placement.demand import Demand
from plimsoll.placement.fleet_record import record_of
from plimsoll.placement.hypothesis import HypothesisFailed, Plan
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import demands_of, stock_for
from plimsoll.placement.pools import Decision, PoolState
from plimsoll.placement.rehoming import of_last_hour
from plimsoll.placement.remedies import Adviser
from plimsoll.placement.replacements import OnLeavingNodes, replacements
from plimsoll.placement.sizes import with_size
from plimsoll.placement.solvers import Solver, Stock
from plimsoll.placement.suggestions import Suggester
from plimsoll.placement.too_small import too_small
from plimsoll.placement.waking_nodes import Waker
from plimsoll.rebalance.figures import LiveFigures
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.render.left_out import NewNodes, left_out_sentence
from plimsoll.status.loop import answered_of
from plimsoll.status.observations import recorded_platforms
from plimsoll.status.reading import Record, with_status
from plimsoll.status.report import Problem
from plimsoll.status.writing import document_of, new_status

logger = logging.getLogger("plimsoll.passes")


@dataclass(frozen=True, slots=True)
class PassResult:
    """The decisions of a pass, and the seconds until each change that depends on the clock alone.

    ``cases`` are for the writers, ``snapshot`` is for everybody else. ``left`` is what is free after all decisions.
    ``orphans`` are the answers to approvals that name no deployment.
    """

    cases: tuple[Case, ...]
    snapshot: Snapshot
    left: Stock
    due_in_seconds: tuple[float, ...] = ()
    orphans: Outbox = field(default_factory=Outbox)


@dataclass(slots=True)
class Passes:
    """Everything that a pass needs, except the picture of the cluster."""

    settings: Settings
    models: ModelBook
    live: LiveSignals
    prices: PriceList
    gpu_types: tuple[GpuType, ...]
    metrics: Metrics
    faults: Faults
    pod_policy: PodPolicy = field(default_factory=PodPolicy)
    refusals: Refusals = field(default_factory=Refusals)
    claims: ClaimBook = field(default_factory=ClaimBook)
    images: ImageBook = field(default_factory=ImageBook)
    contests: Contests = field(default_factory=Contests)
    quotas: NamespaceQuotas = field(default_factory=NamespaceQuotas)
    priorities: PriorityClasses = field(default_factory=PriorityClasses)
    complaints: set[str] = field(default_factory=set)
    beats: Beats = field(default_factory=Beats)
    reading: ReadingMemo = field(default_factory=ReadingMemo)
    memo: Memo = field(default_factory=Memo)
    rendered: Rendered = field(default_factory=Rendered)
    solver: Solver = field(default_factory=fleetwide)
    price_watch: PriceWatch = field(default_factory=PriceWatch)
    proposer: Proposer = field(default_factory=Proposer)
    rooms: Rooms = field(default_factory=Rooms)
    node_groups: NodeGroups = field(default_factory=NodeGroups)
    leaving: LeavingNodes = field(default_factory=LeavingNodes)
    turns: TurnMemo = field(default_factory=TurnMemo)
    scale_writes: ScaleWrites = field(default_factory=ScaleWrites)
    inbox: Inbox | None = None
    time: PlanningTime = field(default_factory=PlanningTime)
    shown: Snapshot | None = None
    gpu_names: frozenset[str] = field(init=False)
    """GPU types that a spec may name: those of the catalogue, including their slices."""

    def __post_init__(self) -> None:
        self.gpu_names = frozenset(gpu.name for gpu in self.gpu_types)

    @collecting_later()
    def make(self, picture: Picture, intended: Mapping[str, Mapping[str, Any]], now: float) -> PassResult:
        """Make one pass.

        Args:
            picture: the cluster at one moment.
            intended: statuses by uid that are being written now; they count as written.
            now: POSIX seconds.
        """
        fleet, cases = self._look(picture, intended, now)
        self.time.begin(cases, now, self._declared_priority)
        for case in self.time.in_turn(cases):
            if not self.time.has_to_wait(case, reading=True):
                self._guarded(Step.READ, case, partial(self._read, case, fleet))
        self.live.wanted = {case.key: wanted_signals(case) for case in cases if _has_signals(case)}
        for case in cases:
            self._guarded(Step.OBSERVE, case, partial(self._observe, case, fleet))
        common = CommonLessons(map(contribution_of, cases) if self.settings.learn_from_others else ())
        for case in cases:
            self._guarded(Step.LISTEN, case, partial(self._recall, case, common))
        self.beats.beat("planning", "planning")
        began = monotonic()
        planned = self._plan(cases, fleet)
        record = record_of(planned, monotonic() - began)
        planned = self._listen(cases, planned, now)
        self._wake(cases, fleet, planned.left.ledger)
        self.proposer.propose(cases, planned)
        suggester = Suggester(fleet, planned.left.ledger, self.memo, other_checkpoints)
        for case in cases:
            self._guarded(Step.PLAN, case, partial(self._suggest, case, suggester))
            self._guarded(Step.PLAN, case, partial(self._compare, case, fleet))
            self._advise(case, partial(self._write_mail, case, fleet, now))
        leaving = self.leaving.look(fleet, now)
        if leaving:
            self._replace(cases, leaving, fleet, planned.left.ledger)
        left_out, new = left_out_sentence(fleet.ignored), NewNodes.of(fleet, now)
        for case in cases:
            if case.decision is not None and case.decision.waits_for_place:
                case.left_out, case.coming = left_out, new.coming_to(case.decision)
            self._render(case, now)
        self.time.end(cases)
        snapshot = snapshot_of(cases, fleet, now, record)
        self._show(snapshot, cases)
        self._watch_prices(fleet, now)
        orphans = Outbox() if self.inbox is None else self.inbox.orphans({case.key for case in cases}, now)
        return PassResult(tuple(cases), snapshot, planned.left, tuple(self._due(cases, now)), orphans)

    def _guarded(self, step: Step, case: Case, work: Callable[[], None]) -> None:
        """Run one step for one object. An exception becomes the problem of that object."""
        self.beats.beat("planning", f"{step.name.lower()} {case.key}")
        if case.fault is not None:
            return
        try:
            self.time.spend(work, case)
        except Exception as error:  # noqa: BLE001 - any exception must stay with this object
            self._set_aside(case, step, error)

    @staticmethod
    def _advise(case: Case, work: Callable[[], None]) -> None:
        """Run a step about proposals. They are advice: an exception is logged, and the object is planned as usual."""
        try:
            work()
        except Exception:
            logger.exception("%s: no proposals in this pass", case.key)

    def _set_aside(self, case: Case, step: Step, error: BaseException) -> None:
        case.fault = self.faults.note(case.key, case.uid, case.generation, step, error)
        case.stand_still(case.fault.problem())

    def _look(
        self, picture: Picture, intended: Mapping[str, Mapping[str, Any]], now: float
    ) -> tuple[Fleet, list[Case]]:
        """Step 1. An object whose last fault is not due for a retry is left unchanged."""
        self.reading.begin()
        self.rendered.begin(now)
        fleet = self.reading.fleet(picture, self.gpu_types, self.prices.current)
        around = self.reading.surroundings(picture, now)
        self.quotas = read_quotas(picture.all(RESOURCE_QUOTAS))
        self.priorities = read_priority_classes(picture.all(PRIORITY_CLASSES))
        if self.inbox is not None:
            self.inbox.begin(picture)  # reads every object on its own: it does not fail
        cases: list[Case] = []
        for body in picture.all(INFERENCE_DEPLOYMENTS):
            if body["metadata"].get("deletionTimestamp"):
                continue
            written = intended.get(uid_of(body))
            case = Case(body if written is None else with_status(body, written), key_of(body), around[key_of(body)])
            case.digests = self.reading.digests(body)
            case.is_being_written = written is not None
            case.refusal = self.refusals.of(case.uid)
            case.contests = self._contests_of(case)
            if pruning.why_reduced(body) is None:
                self.scale_writes.look(case.uid, case.generation, body.get("spec") or {}, now)
            self._guarded(Step.READ, case, partial(self._read_pools, case, now))
            self._advise(case, partial(self._read_inbox, case))
            fault = self.faults.standing(case.uid, case.generation)
            if fault is not None:
                case.fault = fault
                case.stand_still(fault.problem())
            cases.append(case)
        self._complain(cases)
        return fleet, cases

    def _complain(self, cases: Sequence[Case]) -> None:
        """Log each complaint once: something is ignored because it cannot be trusted."""
        found = {f"{case.key}: {each}" for case in cases for each in case.record.complaints}
        found |= {each for case in cases for each in case.around.complaints} | set(self.quotas.complaints)
        for complaint in sorted(found - self.complaints):
            logger.warning("%s", complaint)
        self.complaints = found

    def _contests_of(self, case: Case) -> tuple[tuple[str, Contest], ...]:
        found = ((pool, self.contests.of(uid_of(body))) for pool, body in case.around.workloads.items())
        return tuple((pool, contest) for pool, contest in found if contest is not None)

    def _read_pools(self, case: Case, now: float) -> None:
        names = [*(pool.name for pool in case.record.pools), *case.around.workloads]
        case.pools = read_pools(
            case.record,
            case.around,
            wanted=wanted_replicas(case.body),
            now=now,
            grace_seconds=self.settings.stranded_seconds,
            refused_since=self.refusals.since_by_pool(case.uid, names),
        )
        case.pools = with_sequences(case)
        held = ((pool.name, held_back(case.around, pool, now)) for pool in case.pools)
        case.held_back = tuple((name, most) for name, most in held if most is not None)
        case.left = of_last_hour(case.record.rehomings, now)
        read_move(case, self.settings.move_seconds, now)
        read_retune(case, now)

    def _read_inbox(self, case: Case) -> None:
        if self.inbox is not None:
            case.inbox = self.inbox.of(owner_of(case))

    def _read(self, case: Case, fleet: Fleet) -> None:
        """Step 2."""
        reason = pruning.why_reduced(case.body)
        if reason is not None:
            case.problem = Problem(ConditionReason.TOO_LARGE, size_sentence(reason), permanent=True)
            return
        try:
            case.resource = resource = self.reading.resource(case.body, parse_inference_deployment)
            check_without_model(case.resource.spec)
            check_pod_policy(case.resource.spec, self.pod_policy, case.key.namespace)
            check_gpu_names(case.resource.spec, self.gpu_names)
            priority = self._priority(case.resource)
            if isinstance(priority, Problem):
                case.problem = priority
                return
            case.priority = priority
            model = self.models.look_up(case.key.namespace, case.resource.spec.model)
            draft = self.models.look_up_draft(case.key.namespace, case.resource.spec)
            if isinstance(model, Problem):
                case.problem = model
                return
            case.model = model
            if isinstance(draft, Problem):
                case.problem = draft
                return
            mounted = mounted_volumes(resource.spec)
            claims = self.claims.look_up(case.key.namespace, mounted, doubted=_waits_for_volumes(case))
            if isinstance(claims, Problem):
                case.problem = claims
                return
            check_claims(resource.spec, claims)
            platforms = self._platforms(case, resource.spec.engine, fleet)
            if isinstance(platforms, Problem):
                case.problem = platforms
                return
            convert = partial(to_request, resource, model, draft=draft, platforms=platforms)
            request = self.reading.converted(resource, model, draft, platforms, convert)
            case.request = request = self._restricted(case, self._sized(case, request), claims)
            case.failed = tuple(each for each in case.failed if not request.knows_better(each.delay.reason))
        except NotPermitted as error:
            case.problem = Problem(ConditionReason.NOT_PERMITTED, str(error), permanent=True)
        except InvalidInput as error:
            case.problem = Problem(ConditionReason.INVALID_SPEC, str(error), permanent=True)
        except PlimsollError as error:
            case.problem = Problem(ConditionReason.UNSUPPORTED_MODEL, str(error), permanent=True)

    def _platforms(self, case: Case, engine: EngineSpec, fleet: Fleet) -> ImagePlatforms | Problem:
        """Return the platforms of the image. Its index is read only where the answer can matter.

        What has served keeps the platforms that it was placed with, unless its pods cannot start now: it is the proof
        for them, and another answer would start its engines again. What is there does not wait for an answer, unless
        its image is another one now.
        """
        given = platforms_of(engine, images_of(self.settings))
        known = recorded_platforms(case.record.status.image_platforms, given)
        is_placed = bool(case.pools) and (known is not None or is_judged(case))
        is_proven = is_placed and any(pool.ready or (pool.served and not pool.failing) for pool in case.pools)
        if not given.image or is_proven or not self.images.reads or not has_other_platforms(fleet):
            return known or given
        found = self.images.look_up(case.key.namespace, given.image)
        if found is None:
            return reading(given.image) if known is None and not is_placed else known or given
        if found.architectures:
            return from_index(found.architectures, given.image)
        if known is not None and known.source is PlatformSource.INDEX:
            return known
        return given.unread(found.why)

    def _sized(self, case: Case, request: Request) -> Request:
        """Return the request with the size that was chosen earlier; unchanged where there is none."""
        size = case.size
        if size is None or request.total is None:
            return request
        known = with_size(request, size.replicas, size.concurrency)
        return self.reading.with_changes(
            case.uid, request, shape=known.shape, replicas=known.replicas, total=None, is_sized=True
        )

    def _restricted(self, case: Case, request: Request, claims: Sequence[Claim]) -> Request:
        """Return the request with the nodes that its volumes and earlier failures rule out."""
        alone, left = any(claim.is_for_one_node for claim in claims), _left_nodes(case)
        rules = (*rules_of(claims), *((left_rule(left),) if left else ()))
        if not rules and not alone:
            return request
        return self.reading.with_changes(
            case.uid, request, node_rules=(*request.node_rules, *rules), mounts_alone=alone
        )

    def _declared_priority(self, case: Case) -> int:
        """Return the priority that an unread object names; 0 where nothing usable is there."""
        template = (case.body.get("spec") or {}).get("podTemplate")
        name = template.get("priorityClassName") if isinstance(template, Mapping) else None
        found = self.priorities.of(name if isinstance(name, str) else None)
        return 0 if found is None else found.value

    def _priority(self, resource: InferenceDeployment) -> Priority | Problem:
        """Return the object's priority. The API server refuses pods of a class that does not exist."""
        template = resource.spec.pod_template
        name = template.priority_class_name if template else None
        priority = self.priorities.of(name)
        if priority is not None:
            return priority
        refusal = InvalidInput(
            "spec.podTemplate.priorityClassName",
            name,
            "The cluster has no such PriorityClass: create it, or name another one.",
        )
        return Problem(ConditionReason.PRIORITY_CLASS_MISSING, str(refusal), permanent=False)

    def _observe(self, case: Case, fleet: Fleet) -> None:
        """Step 2, second part: collect what the engines of this object report about their memory, now and earlier."""
        case.seen = remembered(case.record.observations, case.spec_digest)
        reading = about_cache(self._reading(case), case.request)
        reported = told_now(case.around, reading)
        case.reported = reported_tokens(case.record, case.generation, reported)
        case.silent = silent_pools(case.around, reading, case.record, case.reported)
        if case.request is None:
            return
        try:
            found = observed_now(
                case.request,
                case.pools,
                case.around,
                reported,
                fleet,
                generation=case.generation,
                spec=case.spec_digest,
                memo=self.memo,
            )
            reported = capacities(case.request, case.pools, reported, fleet, self.memo)
        except PlimsollError:
            return  # the model has no memory law: planning reports that
        case.seen = merged(case.seen, found)
        case.reported = reported_tokens(case.record, case.generation, reported)

    def _reading(self, case: Case) -> Reading | None:
        return self.live.reading(case.key) if _has_signals(case) else Reading()

    def _recall(self, case: Case, common: CommonLessons) -> None:
        """Step 2, last part: add the engines' reports and the live loop's last target to the request."""
        if case.resource is None or case.request is None:
            return
        case.request = self.reading.with_changes(
            case.uid,
            case.request,
            observed=observed_capacities(case.record, case.spec_digest, case.pools, case.around, case.reported),
            corrections=lessons(case.seen, common.of(case.key, case.request.model.name)),
            failed_starts=failed_starts(case.request, case.seen),
        )
        case.standing = Standing.read(
            case.resource.spec,
            case.record,
            case.request.replicas,
            came_back=self.scale_writes.came_back(case.uid, case.record.status.observed_generation),
        )
        target = case.standing.target_replicas
        target = min(target, 1) if case.request.mounts_alone else target
        case.request = self.reading.with_changes(case.uid, case.request, replicas=target)

    def _plan(self, cases: Sequence[Case], fleet: Fleet) -> Plan:
        """Step 3: plan all objects on one stock, each for the replicas that are decided so far."""
        self._read_demands(fleet)
        tenants = [tenant for case in cases if (tenant := tenant_of(case)) is not None]
        unplanned = [pool for case in cases if case.request is None for pool in case.pools]
        demands: list[Demand] = []
        for demand in demands_of(tenants, fleet, self.memo):
            self.beats.beat("planning", f"reading demands, after {demand.request.key}")
            demands.append(demand)
        stock = stock_for(demands, fleet, unplanned, self.quotas.remaining)
        priced = self.reading.priced(self.gpu_types, self.prices.current)
        adviser = Adviser(fleet, priced, self.memo, self.node_groups.of(priced))
        answered = self._beating(answers(demands, stock, adviser, self.solver))
        planned = self.time.spend(partial(Plan.of, answered, stock, adviser, self.solver), *self.time.queued())
        for case in cases:
            case.decision = planned.decisions.get(case.key)
            if case.decision is not None and case.decision.failure:
                self._plan_failed(case, case.decision)
            elif case.decision is not None and case.request is not None and case.request.total is not None:
                case.request = case.decision.request
                known = case.standing or Standing(0, 0, case.record.history)
                size = case.request.replicas
                case.standing = replace(known, base_replicas=size, target_replicas=size)
        return planned

    def _read_demands(self, fleet: Fleet) -> None:
        """Find the demands of new and changed objects, as long as there is time; the plan uses them again."""
        for case in self.time.queued():
            tenant = tenant_of(case)
            if tenant is not None and not self.time.has_to_wait(case):
                self.beats.beat("planning", f"reading the demand of {case.key}")
                self.time.spend(partial(remembered_demand, tenant, fleet, self.memo), case)

    def _beating(self, answered: Iterator[Answer]) -> Iterator[Answer]:
        for answer in answered:
            self.beats.beat("planning", f"planning, after {answer.tenant.request.key}")
            yield answer

    def _listen(self, cases: Sequence[Case], planned: Plan, now: float) -> Plan:
        """Step 4: give every object its turn, in the order of decisions. Each change takes from what is left.

        Return the plan with these changes.
        """
        by_key = {case.key: case for case in cases}
        allowances = Allowances.of(self.settings, ((case.key, case.record.history) for case in cases), now)
        self.turns.keep_only(case.uid for case in cases)
        self.scale_writes.keep_only(case.uid for case in cases)
        self.rooms.begin(cases)
        for key in planned.decisions:
            case = by_key[key]
            self._guarded(Step.LISTEN, case, partial(self._take_turn, case, planned, allowances, now))
            if case.turn is not None and case.turn.answer is not None:
                planned = planned.adopted(case.turn.answer)
                allowances.carried_out(key, case.turn.decision)
        return planned

    def _wake(self, cases: Sequence[Case], fleet: Fleet, ledger: Ledger) -> None:
        """Let replicas without a place wait for new nodes, in the order of decisions, where an admin allows it."""
        groups = self.node_groups.of(self.reading.priced(self.gpu_types, self.prices.current))
        pools = [pool for case in cases for pool in case.pools if pool.state is PoolState.ACTIVE]
        waker = Waker.of(groups, fleet, pools)
        if waker.groups:
            for case in _in_order(cases):
                self._guarded(Step.PLAN, case, partial(_wake_one, case, waker, ledger))

    @staticmethod
    def _suggest(case: Case, suggester: Suggester) -> None:
        """Step 4, last part: find what would make a new placement cheaper, on what is left after all changes."""
        if case.decision is not None:
            case.decision = suggester.advised(case.decision)

    def _compare(self, case: Case, fleet: Fleet) -> None:
        """Find the placements whose engines report less KV cache than the load needs there."""
        if case.decision is not None:
            case.too_small = too_small(case.decision.request, fleet, self.memo)

    def _replace(self, cases: Sequence[Case], leaving: frozenset[str], fleet: Fleet, ledger: Ledger) -> None:
        """Let pods start before the nodes go on which others serve, in the order of decisions, while there is room."""
        left = [ledger]
        for case in _in_order(cases):
            on = _on_leaving_nodes(case, leaving)
            if on and case.decision is not None:
                self._guarded(Step.PLAN, case, partial(self._replace_one, case, on, leaving, fleet, left))

    @staticmethod
    def _replace_one(
        case: Case, on: Mapping[str, OnLeavingNodes], leaving: frozenset[str], fleet: Fleet, left: list[Ledger]
    ) -> None:
        if case.decision is None:
            return
        pools, request = case.decision.pools, case.decision.request
        case.replacing, left[0] = replacements(request, pools, on, leaving, fleet, left[0])
        nodes = {pod.node for pods in case.around.pods.values() for pod in pods if pod.ready and pod.node in leaving}
        case.leaving = tuple(sorted(nodes)) if case.replacing else ()

    def _write_mail(self, case: Case, fleet: Fleet, now: float) -> None:
        """Step 4, last part: decide what to write about proposals and approvals."""
        if self.inbox is not None and case.inbox is not None and case.fault is None:
            entry = case.record.status.rebalancing
            answered = answered_of(entry) if case.standing is None else case.standing.answered
            case.outbox = self.inbox.outbox(owner_of(case), case.inbox, answered, case.turn, fleet, now)

    def _take_turn(self, case: Case, planned: Plan, allowances: Allowances, now: float) -> None:
        if case.resource is None or case.request is None or case.standing is None:
            return
        spec, reading = case.resource.spec, self._reading(case)
        off = spec.rebalancing.mode is RebalancingMode.OFF or spec.suspend
        if allowances.suspended and reading is None:
            reading = Reading(state=SignalState.UNAVAILABLE)  # no status may show an older decision
        # Without a reading the live loop has no turn: after a restart the last decision stays until the first reading.
        is_up = any(pool.replicas for pool in case.pools) and not _has_just_begun(case)
        if off or reading is None or not (allowances.suspended or _sleeps(case, spec) or is_up):
            return
        fleet = planned.left.fleet
        estimate = partial(figures_of, case.request, case.pools, fleet, self.memo)
        figures = self.reading.figures(case.uid, case.request, case.pools, fleet, estimate) if is_judged(case) else None
        pending = None if case.inbox is None else case.inbox.pending
        known = self.turns.recall(case, reading, pending, now)
        if known is not None:
            case.turn, case.standing = known, known.standing
            return
        standing, running = case.standing, running_of(case, figures, fleet, self.memo)
        remembered = self.turns.memories.get(case.uid)
        standing = standing if remembered is None else replace(standing, memory=remembered)
        what_if = planned.what_if(case.key, self.rooms.of(planned))
        asked = (spec, standing, running, case.around, reading, what_if)
        contested = self._is_contested(case, spec, now)
        try:
            allowance = allowances.of_deployment(case.key, spec.rebalancing)
            turn = take_turn(*asked, now=now, pending=pending, allowance=allowance, contested=contested)
        except HypothesisFailed as failed:
            self._plan_failed(case, failed.decision)
            return
        self.turns.keep(case, reading, pending, turn, now)
        case.turn, case.standing = turn, turn.standing
        if turn.answer is not None:
            case.request, case.decision = turn.answer.tenant.request, turn.answer.decision

    def _is_contested(self, case: Case, spec: InferenceDeploymentSpec, now: float) -> bool:
        """Whether others keep changing the number of replicas that the live loop decides."""
        is_ours = spec.rebalancing.mode is RebalancingMode.AUTO and spec.rebalancing.scale is not ScaleOwner.EXTERNAL
        return is_ours and self.scale_writes.is_contested(case.uid, now)

    def _plan_failed(self, case: Case, decision: Decision) -> None:
        """Report a failed plan: the user can change an unsupported model; anything else is a defect of this object."""
        if decision.is_refusal:
            case.stand_still(Problem(ConditionReason.UNSUPPORTED_MODEL, decision.failure, permanent=True))
        else:
            self._set_aside(case, Step.PLAN, RuntimeError(decision.failure))

    def _render(self, case: Case, now: float) -> None:
        """Render the status and the manifests. If that fails, set the object aside and render only its problem."""
        self.beats.beat("planning", f"render {case.key}")
        try:
            self._render_once(case, now)
        except Exception as error:  # noqa: BLE001 - any exception must stay with this object
            self._set_aside(case, Step.RENDER, error)
            case.seen = ()
            try:
                self._render_once(case, now)
            except Exception:  # noqa: BLE001 - the old status is unusable: the new one has only the problem
                case.report = report_of(case, now)
                case.new_status = document_of(new_status(case.report, Record(), to_rfc3339(now)))

    def _render_once(self, case: Case, now: float) -> None:
        begin_retune(case, now)
        read_updates(case, now)
        if self.rendered.fill_in(case):
            return
        case.report = report_of(case, now)
        make = partial(
            manifests_of, images=images_of(self.settings), scrape_annotations=self.settings.scrape_annotations
        )
        case.manifests = self.rendered.manifests(case, make)
        case.new_status = document_of(new_status(case.report, case.record, to_rfc3339(now)))
        self.rendered.keep(case)

    def _show(self, snapshot: Snapshot, cases: Sequence[Case]) -> None:
        """Update the metrics if they differ from those of the last pass."""
        self.metrics.show_live(self._live_figures(cases))
        self.metrics.show_solving(snapshot.record)
        self.metrics.show_record(snapshot.record)
        if self.shown is not None and snapshot.says_the_same(self.shown):
            return
        self.metrics.show_fleet(snapshot.fleet)
        self.metrics.show_cases(snapshot.reports)
        self.shown = snapshot

    @staticmethod
    def _live_figures(cases: Sequence[Case]) -> dict[ObjectKey, LiveFigures]:
        turns = {case.key: case.turn for case in cases if case.turn is not None}
        return {key: turn.figures for key, turn in turns.items() if turn.figures is not None}

    def _watch_prices(self, fleet: Fleet, now: float) -> None:
        """Show what is doubtful about the fleet's prices, if fleet or day have changed."""
        remarks = self.price_watch.look(fleet, now)
        if remarks is not None:
            self.metrics.show_prices(remarks)

    def _due(self, cases: Sequence[Case], now: float) -> Iterator[float]:
        """Yield the seconds until an object must be planned again even if nothing happens."""
        for case in cases:
            yield from (at - now for at in deadlines_of(case, self.settings.stranded_seconds, now) if at > now)
        fault = self.faults.next_due_in_seconds()
        if fault is not None:
            yield fault
        yield from self.time.due_in_seconds()
        yield from (at - now for at in self.leaving.ends() if at > now)


def _in_order(cases: Sequence[Case]) -> list[Case]:
    """Return the objects in the order of decisions."""
    return sorted(cases, key=lambda case: (-case.priority.value, case.created_at, case.key))


def _wake_one(case: Case, waker: Waker, ledger: Ledger) -> None:
    if case.decision is not None and case.resource is not None and not case.resource.spec.suspend:
        left = ledger.quota.get(case.key.namespace, {})
        case.decision = waker.woken(case.decision, case.generation, case.spec_digest, left)
        labels = {pool.target.selector for pool in case.decision.pools}
        case.awaits = tuple(group.name for group in waker.groups if not labels.isdisjoint(group.labels))


def _on_leaving_nodes(case: Case, leaving: frozenset[str]) -> dict[str, OnLeavingNodes]:
    """Return the pods of an object that serve on nodes that go, by pool."""
    found: dict[str, OnLeavingNodes] = {}
    planned = () if case.decision is None else case.decision.pools
    for pool in planned:
        pods = [pod for pod in case.around.pods.get(pool.name, ()) if not pod.terminating]
        serving = sum(pod.ready and pod.node in leaving for pod in pods)
        if serving:
            found[pool.name] = OnLeavingNodes(serving, max(0, len(pods) - pool.replicas))
    return found


def _left_nodes(case: Case) -> dict[str, str]:
    """Return the nodes that the object's pods stay off, each with the cause in one word; empty where it is forgotten.

    Pods that wait may go to nodes that were left more than an hour ago.
    """
    active = [pool for pool in case.pools if pool.state is PoolState.ACTIVE]
    found = dict.fromkeys((name for pool in active if not pool.stranded for name in pool.target.avoids), "")
    found |= {each.node: each.reason for each in case.left if each.node}
    return found | {name: cause for pool in active for name, cause in pool.bad_nodes}


def _waits_for_volumes(case: Case) -> bool:
    """Whether pods wait because of their volumes, or replicas have no place: what is known of its claims may be old."""
    planned = case.record.condition(ConditionType.PLANNED)
    if planned is not None and planned.status == "False":
        return True
    pods = (pod for listed in case.around.pods.values() for pod in listed)
    return any(not OF_VOLUMES.isdisjoint(pod.obstacles) for pod in pods)


def _has_just_begun(case: Case) -> bool:
    """Whether nothing of a deployment was made yet: the live loop's first words would be a write of their own."""
    return case.record.status.rebalancing is None and not case.around.pods


def _has_signals(case: Case) -> bool:
    """Whether there is anything to read: engines that serve, or a gateway's queue."""
    return bool(case.around.ready_pods() or case.inference_pool)


def _sleeps(case: Case, spec: InferenceDeploymentSpec) -> bool:
    """Whether the live loop wants no replica, or wanted none until now: the status has to say that somebody woke it."""
    entry, standing = case.record.status.rebalancing, case.standing
    was_asleep = entry is not None and entry.target_replicas == 0
    return may_sleep(spec.rebalancing) and (was_asleep or (standing is not None and standing.target_replicas == 0))
