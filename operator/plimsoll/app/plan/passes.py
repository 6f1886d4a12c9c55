"""Steps 1 to 4 of a pass: turn a picture of the cluster into statuses and manifests. Synchronous; sends no request.

1. Look: turn pods and nodes into a fleet, including the resources that every pod holds.
2. Read: parse every InferenceDeployment, and look up the facts of its model.
3. Decide: :func:`plimsoll.decision.decide.decide` answers for all of them.
4. Render statuses and manifests.

An exception for one object ends the pass for that object only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, TypeVar

from plimsoll.adapters.catalog import other_checkpoints
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, RESOURCE_QUOTAS
from plimsoll.adapters.garbage import collecting_later
from plimsoll.adapters.highs import fleetwide
from plimsoll.adapters.metrics import Metrics
from plimsoll.app.faults import Faults
from plimsoll.app.health import Beats
from plimsoll.app.live.signal_watch import LiveSignals
from plimsoll.app.live.wanted import wanted_signals
from plimsoll.app.plan.inbox import DeploymentInbox, ProposalInbox, ProposalWrites
from plimsoll.app.plan.planning_time import PlanningTime
from plimsoll.app.plan.rendered import Desired, Rendered
from plimsoll.app.plan.snapshot import Snapshot, snapshot_of
from plimsoll.app.reading.deployments import DeploymentReader, declared_replicas
from plimsoll.app.refusals import Refusals
from plimsoll.app.settings import Settings
from plimsoll.app.watch import pruning
from plimsoll.app.watch.contests import Contests
from plimsoll.app.watch.node_groups import NodeGroups
from plimsoll.app.watch.prices import PriceList, PriceWatch
from plimsoll.app.watch.scale_writes import ScaleWrites
from plimsoll.app.watch.store import Body, Picture, key_of, uid_of
from plimsoll.decision.decide import decide
from plimsoll.decision.deployment import Asked, Deployment, Identity, People, PlacedPools, Writes
from plimsoll.decision.kept import Kept
from plimsoll.decision.memory import Memory
from plimsoll.decision.outcome import Outcome, Outcomes
from plimsoll.decision.results.deadlines import deadlines_of
from plimsoll.decision.supervisor import PassStep, PassSupervisor
from plimsoll.decision.surroundings import Surroundings
from plimsoll.decision.world import World
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.cluster.quota_reading import read_quotas
from plimsoll.placement.fleet_record import record_of as fleet_record_of
from plimsoll.placement.solvers import Solver, Stock
from plimsoll.rebalance.figures import LiveFigures
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.render.placement_proposals import Owner
from plimsoll.status.record.loop import answered_proposals_of
from plimsoll.status.record.reading import Record, record_of, with_status
from plimsoll.status.record.report import DeploymentProblem

T = TypeVar("T")

logger = logging.getLogger("plimsoll.passes")


@dataclass(frozen=True, slots=True)
class PassResult:
    """The decisions of a pass, and the seconds until each change that depends on the clock alone.

    ``desired`` is for the writers, ``snapshot`` is for everybody else. ``left`` is what is free after all decisions.
    ``orphans`` are the answers to approvals that name no deployment.
    """

    desired: tuple[Desired, ...]
    snapshot: Snapshot
    left: Stock
    due_in_seconds: tuple[float, ...] = ()
    orphans: ProposalWrites = field(default_factory=ProposalWrites)


@dataclass(slots=True)
class Noticed:
    """The writes that this process has noticed: refusals, and changes of replicas by others."""

    refusals: Refusals = field(default_factory=Refusals)
    contests: Contests = field(default_factory=Contests)
    scale_writes: ScaleWrites = field(default_factory=ScaleWrites)

    def writes(
        self, identity: Identity, record: Record, workloads: Mapping[str, Body], *, is_under_way: bool, now: float
    ) -> Writes:
        """Return what is known of writes to the objects of one deployment."""
        contests = ((pool, self.contests.of(uid_of(body))) for pool, body in workloads.items())
        return Writes(
            is_under_way,
            self.refusals.of(identity.uid),
            tuple((pool, contest) for pool, contest in contests if contest is not None),
            self.scale_writes.came_back(identity.uid, record.status.observed_generation),
            self.scale_writes.is_contested(identity.uid, now),
        )


@dataclass(slots=True)
class _Seen:
    """The result of a pass's first step: each object's body and its proposals, by uid."""

    fleet: Fleet
    bodies: dict[str, Body] = field(default_factory=dict)
    inboxes: dict[str, DeploymentInbox] = field(default_factory=dict)
    deployments: list[Deployment] = field(default_factory=list)


@dataclass(slots=True)
class Passes:
    """Makes passes: it reads the world of a picture, asks for a decision, and renders what is to be written."""

    reader: DeploymentReader
    live: LiveSignals
    prices: PriceList
    metrics: Metrics
    faults: Faults
    noticed: Noticed = field(default_factory=Noticed)
    node_groups: NodeGroups = field(default_factory=NodeGroups)
    inbox: ProposalInbox | None = None
    beats: Beats = field(default_factory=Beats)
    time: PlanningTime = field(default_factory=PlanningTime)
    solver: Solver = field(default_factory=fleetwide)
    memory: Memory = field(default_factory=Memory)
    rendered: Rendered = field(default_factory=Rendered)
    shown: Snapshot | None = None
    _price_watch: PriceWatch = field(default_factory=PriceWatch)
    _complaints: set[str] = field(default_factory=set)
    _known: Kept[Deployment] = field(default_factory=Kept)

    @property
    def settings(self) -> Settings:
        """The settings of the cluster's admin."""
        return self.reader.settings

    @collecting_later()
    def make(self, picture: Picture, intended: Mapping[str, Mapping[str, Any]], now: float) -> PassResult:
        """Make one pass.

        Args:
            picture: the cluster at one moment.
            intended: statuses by uid that are being written now; they count as written.
            now: POSIX seconds.
        """
        supervisor = _OperatorSupervisor(self.time, self.beats, self.faults)
        seen = self._look(picture, intended, now, supervisor)
        world = self._world(picture, seen, now, supervisor)
        outcomes = decide(world, self.memory, supervisor, solver=self.solver, relatives=other_checkpoints)
        desired = tuple(self._desired(seen, outcome, now, supervisor) for outcome in outcomes.each)
        self.time.end([each.outcome for each in desired])
        snapshot = snapshot_of(desired, seen.fleet, now, fleet_record_of(outcomes.planned, supervisor.planning_seconds))
        self._show(snapshot, outcomes)
        remarks = self._price_watch.look(seen.fleet, now)
        if remarks is not None:
            self.metrics.show_prices(remarks)
        keys = {each.key for each in desired}
        orphans = ProposalWrites() if self.inbox is None else self.inbox.orphans(keys, now)
        return PassResult(desired, snapshot, outcomes.left.left, tuple(self._due(outcomes, now)), orphans)

    def _look(
        self, picture: Picture, intended: Mapping[str, Mapping[str, Any]], now: float, supervisor: _OperatorSupervisor
    ) -> _Seen:
        """Step 1. An object whose last fault is not due for a retry is left unchanged."""
        self.reader.begin(picture)
        self.rendered.begin(now, self.settings)
        self._known.begin()
        memo = self.reader.memo
        seen = _Seen(memo.fleet(picture, self.reader.gpu_types, self.prices.current))
        around = memo.surroundings(picture, now)
        if self.inbox is not None:
            self.inbox.begin(picture)  # reads every object on its own: it does not fail
        for stored in picture.all(INFERENCE_DEPLOYMENTS):
            if stored["metadata"].get("deletionTimestamp"):
                continue
            written = intended.get(uid_of(stored))
            body = stored if written is None else with_status(stored, written)
            uid, is_under_way = uid_of(body), written is not None
            seen.bodies[uid] = body
            seen.deployments.append(
                self._bare(body, around[key_of(body)], seen, now, supervisor, is_under_way=is_under_way)
            )
        self.noticed.scale_writes.keep_only(seen.bodies)
        return seen

    def _bare(
        self,
        body: Body,
        around: Surroundings,
        seen: _Seen,
        now: float,
        supervisor: _OperatorSupervisor,
        *,
        is_under_way: bool,
    ) -> Deployment:
        """Return an object with what runs of it, and without what it asks for."""
        identity, record = self.reader.identity(body), record_of(body)
        if pruning.why_reduced(body) is None:
            self.noticed.scale_writes.look(identity.uid, identity.generation, body.get("spec") or {}, now)
        asked = Asked(declared_replicas(body, record))
        writes = self.noticed.writes(identity, record, around.workloads, is_under_way=is_under_way, now=now)
        people = self._people(identity, seen)
        bare = Deployment(identity, record, PlacedPools(around), asked, writes, people)
        placed = supervisor.guarded(PassStep.READ, bare, lambda: self.reader.placed(body, bare, now))
        fault = self.faults.standing(identity.uid, identity.generation)
        if isinstance(placed, DeploymentProblem):
            return replace(bare, asked=replace(asked, problem=placed), is_faulty=True)
        if fault is not None:
            return replace(bare, placed=placed, asked=replace(asked, problem=fault.problem()), is_faulty=True)
        return Deployment(identity, record, placed, asked, writes, people)

    def _people(self, identity: Identity, seen: _Seen) -> People:
        if self.inbox is None:
            return _NOBODY
        try:
            found = self.inbox.of(Owner(identity.key, identity.uid, identity.generation))
        except Exception:
            logger.exception("%s: no proposals in this pass", identity.key)  # they are advice
            return _NOBODY
        if found is None:
            return _NOBODY
        seen.inboxes[identity.uid] = found
        return People(pending=found.pending, acknowledging=found.acknowledging)

    def _world(self, picture: Picture, seen: _Seen, now: float, supervisor: _OperatorSupervisor) -> World:
        """Step 2, and all that a decision is made from."""
        bodies = seen.bodies
        self.time.begin(seen.deployments, now, lambda each: self.reader.declared_priority(bodies[each.identity.uid]))
        read = {
            each.identity.uid: self._read(bodies[each.identity.uid], each, seen.fleet, now, supervisor)
            for each in self.time.in_turn(seen.deployments)
        }
        deployments = tuple(read[each.identity.uid] for each in seen.deployments)
        self.live.wanted = {each.key: wanted_signals(each) for each in deployments if each.has_signals}
        quotas = read_quotas(picture.all(RESOURCE_QUOTAS))
        self._complain(deployments, quotas.complaints)
        priced = self.reader.memo.priced(self.reader.gpu_types, self.prices.current)
        return World(
            now,
            seen.fleet,
            deployments,
            self.settings.of_cluster,
            quotas,
            priced,
            self.node_groups.of(priced),
            {each.key: self.live.reading(each.key) if each.has_signals else Reading() for each in deployments},
        )

    def _read(
        self, body: Body, bare: Deployment, fleet: Fleet, now: float, supervisor: _OperatorSupervisor
    ) -> Deployment:
        """Return an object with what it asks for; the same value as in the last pass if nothing of it has changed."""
        waits = self.time.waits(bare, reading=True)
        if waits is not None:
            read: Deployment | DeploymentProblem = replace(bare, asked=replace(bare.asked, problem=waits))
        elif bare.is_faulty:
            read = bare
        else:
            read = supervisor.guarded(PassStep.READ, bare, lambda: self.reader.with_spec(body, bare, fleet, now))
        if isinstance(read, DeploymentProblem):
            read = replace(bare, asked=replace(bare.asked, problem=read), is_faulty=True)
        known = self._known.get(read.identity.uid)
        return self._known.put(read.identity.uid, known if known is not None and known == read else read)

    def _complain(self, deployments: Sequence[Deployment], more: Sequence[str]) -> None:
        """Log each complaint once: something is ignored because it cannot be trusted."""
        found = {f"{each.key}: {complaint}" for each in deployments for complaint in each.record.complaints}
        found |= {complaint for each in deployments for complaint in each.placed.around.complaints} | set(more)
        for complaint in sorted(found - self._complaints):
            logger.warning("%s", complaint)
        self._complaints = found

    def _desired(self, seen: _Seen, outcome: Outcome, now: float, supervisor: _OperatorSupervisor) -> Desired:
        """Step 4. If an object cannot be rendered, it is set aside, and only its problem is rendered."""
        body = seen.bodies[outcome.uid]
        self.beats.beat("planning", f"render {outcome.key}")
        try:
            desired = self.rendered.desired(body, outcome)
        except Exception as error:  # noqa: BLE001 - any exception must stay with this object
            problem = supervisor.failed(PassStep.RENDER, outcome.deployment, error)
            outcome = Outcome(outcome.deployment, problem=problem, is_faulty=True)
            try:
                return self.rendered.desired(body, outcome)
            except Exception:  # noqa: BLE001 - the old status is unusable: the new one has only the problem
                return self.rendered.problem_alone(body, outcome)
        outbox = self._outbox(seen, desired, now)
        return desired if outbox.is_empty else replace(desired, outbox=outbox)

    def _outbox(self, seen: _Seen, desired: Desired, now: float) -> ProposalWrites:
        """Return what is to be written about proposals and approvals. They are advice: an exception is logged."""
        outcome = desired.outcome
        inbox = seen.inboxes.get(outcome.uid)
        if self.inbox is None or inbox is None or outcome.is_faulty:
            return _NOTHING
        entry, owner = outcome.deployment.record.status.rebalancing, outcome.deployment.owner
        answered = answered_proposals_of(entry) if outcome.standing is None else outcome.standing.answered
        try:
            return self.inbox.outbox(owner, inbox, answered, outcome.turn, desired.acknowledgements, seen.fleet, now)
        except Exception:
            logger.exception("%s: no proposals in this pass", outcome.key)
            return _NOTHING

    def _show(self, snapshot: Snapshot, outcomes: Outcomes) -> None:
        """Update the metrics if they differ from those of the last pass."""
        self.metrics.show_live(_live_figures(outcomes))
        self.metrics.show_solving(snapshot.record)
        self.metrics.show_record(snapshot.record)
        if self.shown is not None and snapshot.says_the_same(self.shown):
            return
        self.metrics.show_fleet(snapshot.fleet)
        self.metrics.show_cases(snapshot.reports)
        self.metrics.show_states(snapshot.states)
        self.shown = snapshot

    def _due(self, outcomes: Outcomes, now: float) -> Iterator[float]:
        """Yield the seconds until an object must be planned again even if nothing happens."""
        for outcome in outcomes.each:
            yield from (at - now for at in deadlines_of(outcome, self.settings.stranded_seconds, now) if at > now)
        fault = self.faults.next_due_in_seconds()
        if fault is not None:
            yield fault
        yield from self.time.due_in_seconds()
        yield from (at - now for at in outcomes.until if at > now)


_NOBODY = People()
_NOTHING = ProposalWrites()


@dataclass(slots=True)
class _OperatorSupervisor(PassSupervisor):
    """The supervisor of an operator's pass: its time is shared and measured, and its exceptions are noted."""

    time: PlanningTime
    beats: Beats
    faults: Faults
    planning_seconds: float = 0.0

    def spend(self, work: Callable[[], T], *deployments: Deployment) -> T:
        """Do some work, and charge its time to these deployments."""
        return self.time.spend(work, *deployments)

    def planned(self, work: Callable[[], T]) -> T:
        """Do the work of the plan, and measure its seconds."""
        self.beat("planning")
        began = monotonic()
        try:
            return work()
        finally:
            self.planning_seconds = monotonic() - began

    def first(self) -> Sequence[Deployment]:
        """Return those that share the time of this pass, in fair order."""
        return self.time.queued()

    def waits(self, deployment: Deployment) -> DeploymentProblem | None:
        """Return why a deployment waits for another pass; None: it has its turn."""
        return self.time.waits(deployment)

    def failed(self, step: PassStep, deployment: Deployment, error: BaseException) -> DeploymentProblem:
        """Take note of an exception. The deployment is tried again after a pause."""
        identity = deployment.identity
        return self.faults.note(identity.key, identity.uid, identity.generation, step, error).problem()

    def complain(self, about: str, error: Exception) -> None:
        """Log an exception that changes no decision."""
        logger.error("%s", about, exc_info=error)

    def beat(self, at: str) -> None:
        """Say to the probes that the pass goes on."""
        self.beats.beat("planning", at)

    def guarded(self, step: PassStep, deployment: Deployment, work: Callable[[], T]) -> T | DeploymentProblem:
        """Do one step for one deployment before the decision. An exception becomes its problem."""
        self.beat(f"{step.name.lower()} {deployment.key}")
        try:
            return self.time.spend(work, deployment)
        except Exception as error:  # noqa: BLE001 - any exception must stay with this deployment
            return self.failed(step, deployment, error)


def _live_figures(outcomes: Outcomes) -> dict[ObjectKey, LiveFigures]:
    turns = {outcome.key: outcome.turn for outcome in outcomes.each if outcome.turn is not None}
    return {key: turn.figures for key, turn in turns.items() if turn.figures is not None}
