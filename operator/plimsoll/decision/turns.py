"""One turn of the live loop for one object: collect the input, ask the core, return a target and a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace

from plimsoll.api.v1alpha1 import (
    InferenceDeploymentSpec,
    MovesMode,
    RebalancingMode,
    RebalancingSpec,
    ScaleOwner,
    WakeSignal,
)
from plimsoll.decision.approving import Offered, approval_of, is_carried_out, is_change, offered_by
from plimsoll.decision.deployment import LEAST_CHANGES
from plimsoll.decision.reuse_hint import ReuseHint, reuse_hint
from plimsoll.decision.surroundings import Surroundings
from plimsoll.domain.decisions.outcomes import MemoryEstimate, ReplicaShape, Split
from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE, StepLimits
from plimsoll.domain.requests.routing import ANSWER_SECONDS, RouterView
from plimsoll.domain.units import agreed, counted, to_rfc3339
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.performance.break_even import IDLE_SECONDS
from plimsoll.placement.demands.clocks import seconds_for_move
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.transition.answers import Answer
from plimsoll.placement.transition.hypothesis import WhatIf
from plimsoll.rebalance.decide import LoopResult, decide
from plimsoll.rebalance.diagnosis.replicas import cleared_nodes, is_certain
from plimsoll.rebalance.figures import LiveFigures, live_figures
from plimsoll.rebalance.inbox import AnsweredProposals, PendingProposals
from plimsoll.rebalance.law.reuse import reuse_of
from plimsoll.rebalance.signals.load import LoadSummary, summarize
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.allowance import Allowance
from plimsoll.rebalance.state.decisions import (
    AddReplica,
    DecisionReason,
    Keep,
    LoopDecision,
    Move,
    RemoveReplica,
    ReplaceReplica,
    Retune,
    Wait,
)
from plimsoll.rebalance.state.history import (
    ENDINGS,
    REPLACE_REASONS,
    ROOM_REASONS,
    ChangeHistory,
    ChangeKind,
    ChangeRecord,
)
from plimsoll.rebalance.state.memory import Learned, LoopMemory, Suspect
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy, ScheduledMinimum
from plimsoll.rebalance.state.replacement import Progress, Replacement, Step, step_of
from plimsoll.rebalance.state.room import TAKEN_SECONDS, Asked, RoomOrder, RoomProgress, leaving_of
from plimsoll.rebalance.state.situation import (
    DeclaredNeed,
    Engines,
    Newcomer,
    PlacementState,
    Serving,
    Situation,
)
from plimsoll.rebalance.why import sentence
from plimsoll.render.proposal_words import proposal_sentence
from plimsoll.status.record.loop import ANSWERED
from plimsoll.status.record.reading import Record
from plimsoll.status.record.report import RebalancingReport

_SUBJECTS = ("opens", "wanted", "how", "pod", "next_try", "until", "to_place", "to_engine")
"""The parts of a sentence that are no live figures: another one gives another message."""

UNBOUNDED_REPLICAS = 1000
"""The upper limit if the user gives none, which only Recommend mode and an external scaler allow."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of the live loop for one object, read from its status.

    ``approved`` means that people have approved the target in Recommend mode. ``answered`` holds people's answers.
    ``memory`` is what this process remembers, and ``learned`` the part of it that the status keeps. ``replacement`` is
    that of one replica, which is under way, and ``room`` the approved proposal for which others make room.
    """

    base_replicas: int
    target_replicas: int
    history: ChangeHistory
    last_change: str | None = None
    approved: bool = False
    answered: AnsweredProposals = field(default_factory=AnsweredProposals)
    memory: LoopMemory = field(default_factory=LoopMemory, repr=False)
    learned: Learned | None = None
    replacement: Replacement | None = None
    room: RoomOrder | None = None

    @staticmethod
    def read(
        spec: InferenceDeploymentSpec,
        record: Record,
        declared: int | None = None,
        *,
        came_back: bool = False,
        unread: int = 0,
    ) -> Standing:
        """Read it from the record. A new ``spec.replicas`` is the user's decision: the target starts again from it.

        While the number stays, so does the target, also if the loop may not change it any more: what serves does not
        end because a mode does. Of none wanted there is nothing to keep once the loop may not wake them.

        Args:
            spec: what the user wrote.
            record: the status.
            declared: replaces ``spec.replicas`` if the planner has chosen the number.
            unread: the replicas that serve if nothing is known of their load. In mode Auto a smaller number waits
                until something is: the loop could not make good what ended too much. Zero is a wish to stop.
            came_back: whether the spec was changed and changed back since the status was written. People scale a
                deployment without replicas to 0 and back, because a write of the same number is none, and both writes
                may come before the next pass.
        """
        entry, base = record.status.rebalancing, spec.replicas if declared is None else declared
        learned = record.learned
        memory = LoopMemory() if learned is None else LoopMemory.of(learned)
        replacing = record.replacing
        if replacing is not None and not replacing.is_for_others:
            memory = replace(memory, suspects=(Suspect(replacing.pod, replacing.reason, replacing.began),))
        if entry is None:
            return Standing(base, base, record.history, memory=memory, learned=learned)
        given, target, known = spec.rebalancing, entry.target_replicas, entry.base_replicas
        approved = given.mode is RebalancingMode.RECOMMEND and entry.approved
        if given.scale is ScaleOwner.EXTERNAL or (target == 0 and (came_back or not may_sleep(given))):
            target = None
        waits = given.mode is RebalancingMode.AUTO and unread > base > 0
        if target is not None and known is not None and known != base and waits:
            base, target = known, max(base, min(target, unread))
        room = record.room
        if known != base or target is None:
            target, approved, room = base, False, None
        changes, answered = (record.history, entry.last_change), ANSWERED.read(entry)
        return Standing(base, target, *changes, bool(approved), answered, memory, learned, replacing, room)


def kept_sentence(spec: InferenceDeploymentSpec, standing: Standing) -> str:
    """Say why more or fewer replicas are wanted than the spec names, if the loop does not decide it; else nothing."""
    base, target, mode = standing.base_replicas, standing.target_replicas, spec.rebalancing.mode
    if spec.rebalancing.scale is ScaleOwner.EXTERNAL or spec.total_concurrency is not None:
        return ""
    if mode is RebalancingMode.AUTO and spec.replicas != base:
        return (
            f"spec.replicas is {spec.replicas} now, and nothing is known of the load, so {_of_serving(target)} until "
            "metrics are read. To have the number at once, set spec.rebalancing.mode to Recommend or Off."
        )
    if mode is RebalancingMode.AUTO or target == base:
        return ""
    return (
        f"spec.replicas is {base}, and {target} are kept: in mode {mode.value} the live loop takes back nothing of "
        "what it changed before. Another number in spec.replicas, or one of kubectl scale, takes their place."
    )


def _of_serving(count: int) -> str:
    return f"the {count} replicas that serve stay" if count > 1 else "the replica that serves stays"


@dataclass(frozen=True, slots=True)
class Running(Engines):
    """The placement as it runs.

    Attributes:
        figures: the estimate on the placed GPU. None: unknown, or about to change with the spec; then nothing is moved.
        pool: the pool that these are about, and ``engine`` the name of its engine.
        engine: see ``pool``.
        shape: the pods of each of its replicas.
        mounts_alone: more than one replica cannot mount its volumes.
    """

    figures: MemoryEstimate | None = None
    pool: str = ""
    engine: str = DEFAULT_ENGINE
    shape: ReplicaShape = Split(1).shape
    mounts_alone: bool = False


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """The result of a turn: the state to remember, what to report, and what becomes of the plan.

    ``answer`` replaces what the plan decided for the object; None: the plan stays as it is. ``detail`` adds what the
    decision's own sentence does not contain: why Prometheus gave no answer. ``offered_id`` is the id of a change that
    is only proposed and has a destination, ``offered`` describes it. ``hints`` are for people; ``reuse`` is one
    with live figures. ``ends`` is the pod that a new one has replaced, and ``given_up`` says why a replacement was
    taken back just now. ``cleared`` are the nodes that were left for one replica and take further ones again, because
    it is not the node.
    """

    standing: Standing
    decision: LoopDecision
    proposal: Proposal | None = None
    detail: str = ""
    answer: Answer | None = field(default=None, compare=False, repr=False)
    decided: LoopResult | None = field(default=None, compare=False, repr=False)
    figures: LiveFigures | None = field(default=None, compare=False, repr=False)
    offered_id: str | None = None
    offered: Offered | None = field(default=None, compare=False, repr=False)
    hints: tuple[str, ...] = ()
    reuse: ReuseHint | None = None
    ends: str = ""
    given_up: str = ""
    cleared: frozenset[str] = frozenset()

    @property
    def lacks_room(self) -> bool:
        """Whether it would add a replica, or replace all of them, and no place was found."""
        without_place = DecisionReason.NO_PLACE_FOUND, DecisionReason.OTHERS_CAN_MAKE_ROOM
        wanted = dict(self.decision.numbers).get("wanted")
        return self.decision.reason in without_place and wanted not in (*REPLACE_REASONS, *ROOM_REASONS)

    @property
    def is_rejected(self) -> bool:
        """Whether somebody rejected the change that this turn would propose."""
        return self.offered_id is not None and self.standing.answered.refuses(self.offered_id)

    @property
    def acted(self) -> bool:
        """Whether the decision is a change that is carried out in this pass."""
        return self.answer is not None

    @property
    def asks_others(self) -> bool:
        """Whether the change has a place only once others have made room."""
        return self.proposal is not None and bool(self.proposal.changes)

    def report(
        self, previous: Record, mode: RebalancingMode, *, sized: bool = False, namespace: str = ""
    ) -> RebalancingReport:
        """Return the status part. An unchanged decision keeps its first message: live figures belong in metrics.

        What else the decision is about is no live figure: another change that waits, another place, another time at
        which a maintenance window opens, or another fault of Prometheus gives another message. ``sized`` means that
        the planner chose the number of replicas. The names of others are shown in their own ``namespace`` only.
        """
        entry = previous.status.rebalancing
        kind, reason = type(self.decision).__name__, self.decision.reason.value
        now = (kind, reason, self.standing.target_replicas)
        same = entry is not None and (entry.decision, entry.reason, entry.target_replicas) == now
        message = sentence(self.decision)
        message = f"{message} {self.detail}." if self.detail else message
        if entry is not None and same and not self.acted and all(each in entry.message for each in self._subjects()):
            message = entry.message
        proposes = (is_change(self.decision) or self.asks_others) and not self.acted and not self.is_rejected
        standing = self.standing
        words = _proposal(self.decision, message, standing.target_replicas, mode, sized=sized)
        if self.proposal is not None and self.asks_others:
            words = f"{words} Room for it: {proposal_sentence(self.proposal, namespace)}".lstrip()
        return RebalancingReport(
            decision=kind,
            reason=reason,
            message=message,
            proposal=words if proposes else None,
            proposal_id=self.offered_id if proposes else None,
            base_replicas=standing.base_replicas,
            target_replicas=standing.target_replicas,
            changes=standing.history.changes,
            last_change=standing.last_change,
            learned=standing.learned,
            diagnosis=None if self.decided is None else self.decided.kind.value,
            approved=standing.approved,
            answered=standing.answered,
            hints=(*self.hints, *self._reuse((entry and entry.hints) or ())),
            trouble=None if self.decided is None else self.decided.trouble,
            replacing=standing.replacement,
            room=standing.room,
        )

    def _reuse(self, earlier: Sequence[str]) -> tuple[str, ...]:
        return () if self.reuse is None else (self.reuse.or_earlier(earlier),)

    def _subjects(self) -> tuple[str, ...]:
        numbers = dict(self.decision.numbers)
        named = (str(numbers.get(name, "")) for name in _SUBJECTS)
        return *named, self.detail


def take_turn(
    spec: InferenceDeploymentSpec,
    standing: Standing,
    running: Running,
    around: Surroundings,
    reading: Reading,
    what_if: WhatIf,
    *,
    now: float,
    pending: PendingProposals | None = None,
    allowance: Allowance | None = None,
    contested: bool = False,
    scheduled: Sequence[ScheduledMinimum] = (),
    asked: Asked | None = None,
    progress: RoomProgress | None = None,
    left: Iterable[Rehoming] = (),
) -> LoopTurn:
    """Ask the core once. In Auto mode a change updates the standing and the plan; else it is only reported.

    An approved change is carried out as in Auto mode.

    Args:
        spec: what the user wrote.
        standing: the state of the loop.
        running: the placement as it runs.
        around: the pods.
        reading: the latest signals.
        what_if: answers what the object would get for a change.
        now: POSIX seconds.
        pending: the proposals of this object that stand, and people's answers. None: nobody can approve anything.
        allowance: what the hour and the rest of the cluster allow. None: everything.
        contested: whether others keep changing ``spec.replicas``.
        scheduled: the minima of the schedule.
        asked: the pod that makes room for another object, as people have approved it; None: none does.
        progress: the state of the order by which others make room for this object; None: it has given none.
        left: the places and nodes that replicas left within the last hour.

    Raises:
        HypothesisFailed: the object cannot be planned with the change.
    """
    floor = 0 if spec.total_concurrency is None else standing.base_replicas
    ceiling = 1 if running.mounts_alone else UNBOUNDED_REPLICAS
    memory = standing.memory.about(running.pool, running.engine)
    memory = memory.with_way(cut_off=is_cut_off(spec, around.router), now=now)
    policy = policy_of(spec, floor, ceiling, contested=contested)
    if _stays_awake(standing, memory, now):
        policy = policy.awake
    policy = policy.with_schedule(scheduled, now, memory.expected_startup_seconds)
    history = standing.history.clamped(now)
    situation = Situation(
        _need_of(running.figures),
        placement_of(standing, running, around, what_if),
        load_of(running, around, reading, policy, history, now=now),
        history,
        now,
        policy,
        memory,
        allowance or Allowance(),
        standing.replacement,
        asked,
        tuple(each for each in left if each.is_of_one_replica),
    )
    decided = decide(situation, what_if)
    learned = _worth_writing(standing, decided)
    standing = replace(standing, history=decided.history, memory=decided.memory, learned=learned)
    if pending is not None:
        standing = replace(standing, answered=pending.heard(standing.answered, now))
    cleared = cleared_nodes(standing.memory, situation)
    step = _step(standing, situation, around)
    if standing.replacement is not None and _is_not_the_node(step, standing.replacement, standing.memory):
        cleared |= {standing.replacement.node}
    standing, ends, given_up = _gone_on(standing, step, situation, around)
    standing, no_room = _room_gone_on(standing, situation, what_if, progress)
    turn, detail = _answered(spec, policy, standing, decided, what_if, pending, now), ""
    if not turn.acted and decided.decision.reason is DecisionReason.METRICS_UNAVAILABLE:
        detail = reading.error or (reading.gateway.error if reading.gateway else "")
    return replace(
        turn,
        detail=detail,
        ends=ends,
        given_up=" ".join(filter(None, (given_up, no_room))),
        decided=decided,
        figures=live_figures(situation, decided, turn.standing.target_replicas),
        hints=(
            *hints_of(reading, policy, contested=contested, pool_fault=around.pool_fault),
            *_room_hints(turn.standing),
            *_left_hints(each for each in situation.left if each.is_shunned and each.node not in cleared),
        ),
        cleared=cleared,
        reuse=reuse_hint(reuse_of(situation.load, decided.wish, situation.placement.model), what_if.decision),
    )


def is_cut_off(spec: InferenceDeploymentSpec, router: RouterView) -> bool:
    """Whether no request that comes while no replica runs reaches the picker of the router that a spec asks for."""
    if not spec.routing.has_router or router.missing:
        return spec.routing.has_router
    through = router.gateway
    return spec.routing.gateway is not None and (through is None or not through.leads_to_replicas)


def _stays_awake(standing: Standing, memory: LoopMemory, now: float) -> bool:
    """Whether a replica has to run because no request could start one.

    The last replica does not go at all then. One starts only after a while: a controller that starts again, or that
    reads another route, has not answered for a moment.
    """
    since = memory.cut_off_since
    return since is not None and (standing.target_replicas > 0 or now - since >= ANSWER_SECONDS)


def _step(standing: Standing, situation: Situation, around: Surroundings) -> Step:
    """Return the next step of a replacement. Nothing ends while the cluster's switch is set."""
    replacement = standing.replacement
    if replacement is None or situation.allowance.suspended:
        return Step.START
    return step_of(replacement, _progress(replacement, standing, situation, around), situation.now)


def _is_not_the_node(step: Step, replacement: Replacement, memory: LoopMemory) -> bool:
    """Whether the end of a replacement shows that its node was not why a replica was slow or silent.

    One that is silent no longer may be slow now. One that made room for others shows nothing.
    """
    if replacement.is_for_others:
        return False
    is_well = all(each.pod != replacement.pod for each in memory.suspects)
    return step is Step.NOT_BETTER or (step is Step.RECOVERED and is_well)


def _gone_on(standing: Standing, step: Step, situation: Situation, around: Surroundings) -> tuple[Standing, str, str]:
    """Return the standing after the next step of a replacement, the pod that ends, and why it was taken back."""
    replacement, now = standing.replacement, situation.now
    if replacement is None or step is Step.START:
        return standing, "", ""
    if step is Step.END_OLD:
        return standing, replacement.pod, ""
    if step is Step.END_STRAY:
        stray = stray_of(replacement, around)
        strays = (*(each for each in replacement.strays if each != stray), stray)
        return replace(standing, replacement=replace(replacement, strays=strays)), stray, ""
    standing = replace(standing, replacement=None)
    if step is Step.DONE:
        return standing, "", ""
    why = "nobody needs its room" if step is Step.RECOVERED and replacement.is_for_others else _ENDINGS[step]
    words = f"Pod {replacement.pod} is not replaced: {why}."
    if replacement.reason is DecisionReason.GIVES_WAY:
        standing = replace(standing, target_replicas=standing.target_replicas + 1)
        words = f"Pod {replacement.pod} does not end: {why}."
    if step is not Step.RECOVERED:
        is_stuck = step is not Step.NOT_BETTER and not replacement.is_for_others
        reason = DecisionReason.REPLICAS_STUCK if is_stuck else replacement.reason
        mark = ChangeRecord(now, ChangeKind.ROLL_BACK, reason.value, standing.target_replicas)
        standing = replace(standing, history=standing.history.recorded(mark))
    return replace(standing, last_change=f"{to_rfc3339(now)}: {words}"), "", words


def _room_gone_on(
    standing: Standing, situation: Situation, what_if: WhatIf, progress: RoomProgress | None
) -> tuple[Standing, str]:
    """Return the standing after the next step of others who make room, and why no room was made, if it ends in vain.

    The replica is placed by the plan as soon as there is room, and then the order is done.
    """
    order, now = standing.room, situation.now
    if order is None or progress is None or situation.allowance.suspended:
        return standing, ""
    if not what_if.decision.missing:
        return replace(standing, room=None), ""
    gone = None if progress.there else min(now, order.gone or now)
    why = progress.why or ("others took it" if gone is not None and now - gone >= TAKEN_SECONDS else "")
    if not why:
        return replace(standing, room=replace(order, gone=gone)), ""
    target = max(situation.policy.min_replicas, standing.target_replicas - 1)
    kept = (mark for mark in standing.history.changes if (mark.kind, mark.at) != (ChangeKind.ADD, order.began))
    mark = ChangeRecord(now, ChangeKind.TAKE_BACK, DecisionReason.NO_ROOM_WAS_MADE.value, target)
    words = f"{sentence(Keep(DecisionReason.NO_ROOM_WAS_MADE))[:-1]}: {why}."
    ended = replace(
        standing,
        target_replicas=target,
        approved=standing.approved and target != standing.base_replicas,
        history=ChangeHistory(tuple(kept)).recorded(mark),
        last_change=f"{to_rfc3339(now)}: {words}",
        room=None,
    )
    return ended, words


def _room_hints(standing: Standing) -> tuple[str, ...]:
    order = standing.room
    if order is None:
        return ()
    what = f"{counted(len(order.leaving), 'pod')} of other deployments {agreed(len(order.leaving), 'leaves', 'leave')}"
    return (f"Proposal {order.proposal} was approved: {what} to make room for one more replica.",)


def _left_hints(left: Iterable[Rehoming]) -> Iterable[str]:
    nodes = [f"{each.node} (until {to_rfc3339(each.until)}: {each.reason})" for each in left]
    if nodes:
        yield f"Replicas are added on {', '.join(nodes)} only if no other node has room."


_ENDINGS = {
    Step.RECOVERED: "it is like the others again",
    Step.NOT_BETTER: "the new replica is no better, so it is not the node",
    Step.SAME_NODE: "the new replica came to the same node and is no better; cordon the node to try another one",
    Step.NOT_SERVING: "the new replica did not serve in time",
}


def _progress(replacement: Replacement, standing: Standing, situation: Situation, around: Surroundings) -> Progress:
    memory, load, ready = standing.memory, situation.load, around.ready_pods()
    suspects = {each.pod: each for each in memory.suspects}
    stays_away = replacement.node if replacement.is_for_others else ""
    new = [each for each in ready if each.name != replacement.pod and (each.ready_since or 0.0) >= replacement.began]
    new = [each for each in new if not stays_away or each.node != stays_away]
    known = {each.pod for each in load.pods if each.state is SignalState.FRESH}
    certain = [each for each in new if each.name in suspects and is_certain(suspects[each.name], situation)]
    known_as, asked = {each.reason for each in memory.suspects if each.pod == replacement.pod}, situation.asked
    is_asked = asked is not None and asked.pod == replacement.pod
    return Progress(
        is_there=any(each.name == replacement.pod for each in ready),
        is_suspect=is_asked if replacement.is_for_others else replacement.reason in known_as,
        spare=len(ready) - standing.target_replicas,
        newest_since=max((each.ready_since or 0.0 for each in new), default=None),
        newest_is_doubtful=any(each.name in suspects or each.name not in known for each in new),
        newest_is_certain=bool(certain),
        newest_is_elsewhere=any(not each.node or each.node != replacement.node for each in certain),
        patience_seconds=memory.stuck_after_seconds,
        stray=stray_of(replacement, around),
    )


def stray_of(replacement: Replacement, around: Surroundings) -> str:
    """Return a new pod on the node that is to be left, which may end; empty if there is none.

    Where one replica was slow or silent, one that serves is judged by what it does.
    """
    pods = (pod for some in around.pods.values() for pod in some if not pod.terminating and pod.node)
    here = (pod for pod in pods if pod.node == replacement.node and pod.name != replacement.pod)
    new = (pod for pod in here if (pod.bound_since or 0.0) >= replacement.began)
    may_end = (
        pod.name for pod in new if replacement.may_end(pod.name) and (replacement.is_for_others or not pod.ready)
    )
    return next(may_end, "")


def _answered(
    spec: InferenceDeploymentSpec,
    policy: RebalancePolicy,
    standing: Standing,
    decided: LoopResult,
    what_if: WhatIf,
    pending: PendingProposals | None,
    now: float,
) -> LoopTurn:
    """Carry the decision out if the spec or a person allows it; else offer it."""
    offered = offered_by(decided, what_if, pending)
    room = decided.room if decided.room is not None and decided.room.proposal.by_loop and decided.room.is_open else None
    is_possible = decided.answer is not None or room is not None
    vote = approval_of(offered, pending, standing.answered, now) if is_possible else None
    if vote is None and not is_carried_out(policy, decided):
        known = None if offered is None else offered.id
        return LoopTurn(standing, decided.decision, decided.proposal, offered_id=known, offered=offered)
    if vote is None:
        return _carried_out(standing, decided, now)
    who, answered = f" Approved by {vote.by}.", standing.answered.with_carried_out(vote)
    if room is None or offered is None or pending is None:
        turn = _carried_out(standing, decided, now, who)
        return replace(turn, standing=_approved(spec, turn.standing, answered))
    order = RoomOrder(vote.proposal, offered.basis, vote.uid, pending.generation, now, leaving_of(room.proposal))
    made = replace(decided, decision=room.change, answer=room.lacking, proposal=room.proposal)
    turn = _carried_out(standing, made, now, f" Others make room for it first.{who}")
    return replace(turn, standing=replace(_approved(spec, turn.standing, answered), room=order))


def _carried_out(standing: Standing, decided: LoopResult, now: float, who: str = "") -> LoopTurn:
    decision, answer = decided.decision, decided.answer
    assert answer is not None  # noqa: S101 - checked by the callers
    assert is_change(decision)  # noqa: S101 - checked by the callers
    replicas = answer.tenant.request.replicas
    moved_on = replace(
        standing,
        target_replicas=replicas,
        memory=standing.memory.after_retune() if isinstance(decision, Retune) else standing.memory,
        history=replace(decided, history=standing.history).recorded(now, replicas),
        last_change=f"{to_rfc3339(now)}: {sentence(decision)}{who}",
        replacement=_replacement(decision, now) or standing.replacement,
    )
    return LoopTurn(moved_on, decision, decided.proposal, answer=answer)


def _replacement(decision: LoopDecision, now: float) -> Replacement | None:
    if not isinstance(decision, ReplaceReplica | RemoveReplica) or not decision.pod:
        return None
    whom = str(dict(decision.numbers).get("whom", ""))
    return Replacement(decision.pod, decision.node, decision.reason, now, whom)


def _approved(spec: InferenceDeploymentSpec, standing: Standing, answered: AnsweredProposals) -> Standing:
    """Return the standing after an approved change. In Recommend mode the status says whose number the target is."""
    is_peoples = spec.rebalancing.mode is RebalancingMode.RECOMMEND
    return replace(
        standing, approved=is_peoples and standing.target_replicas != standing.base_replicas, answered=answered
    )


def _worth_writing(standing: Standing, decided: LoopResult) -> Learned | None:
    """Return what the status shall say was learned. Small differences are not worth a write."""
    known, now = standing.learned, decided.memory.learned
    if known is None and now == Learned(now.pool, engine=now.engine):
        return None
    return known if known is not None and now.is_like(known) else now


def placement_of(standing: Standing, running: Running, around: Surroundings, what_if: WhatIf) -> PlacementState:
    """Return the placement as the live loop sees it, from the pods that have not ended."""
    figures, pods = running.figures, [pod for some in around.pods.values() for pod in some if not pod.ended]
    serving = [pod.ready_since for pod in pods if pod.ready and pod.ready_since is not None]
    starting = [pod for pod in pods if not pod.ready and not pod.terminating]
    failing = (pod for pod in starting if pod.restarts or pod.failure is not None)
    weights_bytes = figures.weights_bytes * running.shape.gpus if figures else 0
    return PlacementState(
        replicas=standing.target_replicas,
        ready=len(around.ready_pods()),
        kv_capacity_tokens=figures.kv_capacity_tokens if figures else 0,
        budget_bytes_per_gpu=figures.budget_bytes if figures else 0,
        starting_since=tuple(pod.bound_since for pod in starting if pod.bound_since is not None),
        newcomers=tuple(filter(None, map(_newcomer, starting))),
        failing_since=tuple(pod.bound_since for pod in failing if pod.bound_since is not None),
        first_start_seconds=seconds_for_move(None, [weights_bytes]),
        settled_since=max(serving, default=None),
        startup_seconds=_slowest_start(around),
        new_replicas=what_if.new_replicas,
        has_states=figures is not None and figures.max_sequences is not None,
        updating=running.shape.replicas_of(sum(not pod.terminating for pod in pods)) > standing.target_replicas,
        serving=tuple(Serving(pod.name, pod.node, pod.ready_since, pod.bound_since) for pod in around.ready_pods()),
        **{each.name: getattr(running, each.name) for each in fields(Engines)},
    )


def _newcomer(pod: PodFacts) -> Newcomer | None:
    """Return a pod without service; None if it waits for a queue."""
    since = pod.bound_since if pod.unscheduled_since is None else pod.unscheduled_since
    if since is None or pod.is_gated:
        return None
    failure = pod.failure
    words = pod.scheduler_message if failure is None else failure.message or failure.reason.value
    failures = 0 if failure is None else 1 if pod.restarts == 1 else 2
    return Newcomer(since, words[:_MOST_WORDS], failures)


def _need_of(figures: MemoryEstimate | None) -> DeclaredNeed:
    """The declared need. An admin's memory override has priority over the engine's report, as in the placement.

    Without an override the expected need counts: a placement that only probably fits was chosen because there was no
    better one.
    """
    if figures is None:
        return DeclaredNeed(0, 0)
    if figures.forced_bytes is not None:
        return DeclaredNeed(0, figures.forced_bytes)
    return DeclaredNeed(figures.kv_needed_tokens, figures.expected_bytes)


def policy_of(
    spec: InferenceDeploymentSpec, floor: int = 0, ceiling: int = UNBOUNDED_REPLICAS, *, contested: bool = False
) -> RebalancePolicy:
    """The user's limits as the core's policy.

    Fewer replicas than ``floor`` do not hold ``totalConcurrency``. More than ``ceiling`` cannot mount the volumes.
    ``contested``: others keep changing ``spec.replicas``.
    """
    given, scales = spec.rebalancing, spec.rebalancing.scale is not ScaleOwner.EXTERNAL
    most = UNBOUNDED_REPLICAS if given.max_replicas is None or not scales else given.max_replicas
    most = min(most, ceiling) if scales else most
    return RebalancePolicy(
        mode=Mode(given.mode.value),
        min_replicas=min(max(given.min_replicas, floor), most) if scales else 0,
        max_replicas=most,
        changes_per_hour=given.changes_per_hour,
        window_seconds=given.window_seconds,
        cooldown_seconds=given.cooldown_seconds,
        reversals_per_hour=given.reversals_per_hour,
        asks_before_moves=given.moves is MovesMode.RECOMMEND,
        idle_seconds=(given.idle_seconds or IDLE_SECONDS) if may_sleep(given) else None,
        wakes=may_sleep(given)
        and (given.gateway is not None or spec.routing.has_router)
        and given.wake is not WakeSignal.MANUAL,
        scales=scales,
        contested=contested,
        additions_per_hour=None if given.limits is None else given.limits.additions_per_hour,
        dollars_per_hour=None if given.limits is None else given.limits.dollars,
    )


def may_sleep(given: RebalancingSpec) -> bool:
    """Whether the user lets the loop take the last replica away."""
    is_ours = given.mode is RebalancingMode.AUTO and given.scale is not ScaleOwner.EXTERNAL
    return is_ours and given.min_replicas == 0


def hints_of(reading: Reading, policy: RebalancePolicy, *, contested: bool, pool_fault: str = "") -> tuple[str, ...]:
    """Return hints for people: the minimum of a schedule, and the things that are not as the spec expects them.

    ``pool_fault`` is what is wrong with the InferencePool that the spec names. It is said whatever Prometheus answers,
    as long as no queue of such a pool is known: it may be one of an earlier API.
    """
    hints, queue = [], reading.gateway
    is_known = queue is not None and queue.is_known
    if pool_fault and not is_known:
        hints.append(f"Requests that wait at the gateway are not counted (spec.rebalancing.gateway): {pool_fault}")
    elif queue is not None and not is_known and reading.state is SignalState.FRESH:
        hints.append(f"Requests that wait at the gateway are not counted: {queue.error}")
    if reading.season_error:
        hints.append(f"Nothing is expected from the days before: {reading.season_error}.")
    if policy.scheduled is not None:
        opening = policy.scheduled.opening
        when = "now" if opening.is_open else f"from {to_rfc3339(opening.opens_at)} on"
        hints.append(f"spec.rebalancing.schedule asks for {policy.min_replicas} ready replicas {when}.")
    return (*hints, *((_CONTESTED,) if contested else ()))


_MOST_WORDS = 300
"""Characters of what is said about a pod that are kept."""

_CONTESTED = (
    f"spec.replicas was changed {LEAST_CHANGES} times within an hour, so the live loop adds and removes nothing until "
    "it stays for an hour. If another controller scales this InferenceDeployment, set spec.rebalancing.scale to "
    "External, or remove that controller."
)


def load_of(
    running: Running,
    around: Surroundings,
    reading: Reading,
    policy: RebalancePolicy,
    history: ChangeHistory,
    *,
    now: float,
) -> LoadSummary:
    """The load of one object from its latest reading."""
    ready = around.ready_pods()
    load = summarize(
        tuple(reading.pods.values()),
        [pod.name for pod in ready],
        now,
        window_seconds=policy.window_seconds,
        capacity_tokens=running.figures.kv_capacity_tokens if running.figures else 0,
        ready_since={pod.name: pod.ready_since for pod in ready if pod.ready_since is not None},
        removed_at=history.last(*ENDINGS),
        available=reading.state is SignalState.FRESH,
        gateway=reading.gateway,
        percentile=None if running.model is None else running.model.slo.percentile,
    )
    return replace(load, gpus=reading.gpus, season=reading.season, quiet_before=reading.quiet_before)


def _slowest_start(around: Surroundings) -> float | None:
    seen = [pod.startup_seconds for pod in around.ready_pods() if pod.startup_seconds is not None]
    return max(seen, default=None)


def _proposal(decision: LoopDecision, message: str, replicas: int, mode: RebalancingMode, *, sized: bool) -> str:
    field_name = "spec.minReplicas" if sized else "spec.replicas"
    match decision:
        case AddReplica(count=count):
            return f"Set {field_name} to {replicas + count}. {message}"
        case RemoveReplica(count=count):
            return f"Set {field_name} to {replicas - count}. {message}"
        case Retune(limits=StepLimits(step_tokens=tokens)) if tokens:
            return f"Set spec.engine.maxBatchedTokens to {tokens}. {message}"
        case Retune(limits=StepLimits(sequences=sequences)):
            return f"Set spec.engine.maxSequences to {sequences}. {message}"
        case ReplaceReplica(pod=pod, node=node):
            return f"Cordon node {node or 'of the pod'} and delete pod {pod} once another replica serves. {message}"
        case Wait():
            return ""
        case Move(engine=engine) if engine:
            named = f"With spec.engine.name {engine} it stays on its GPUs with as many replicas, if it fits there."
            return f"Approve this proposal to move to another engine. {named} {message}"
        case _:
            switch = "moves" if mode is RebalancingMode.AUTO else "mode"
            return f"Set spec.rebalancing.{switch} to Auto to move. {message}"
