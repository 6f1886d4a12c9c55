"""The live loop's turn for one object: gather what it needs, ask the core, make a target and a report of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.adapters.prometheus import Reading
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, RebalancingMode
from plimsoll.app.objects import Surroundings
from plimsoll.domain.outcomes import MemoryEstimate
from plimsoll.domain.serving import ServingShape
from plimsoll.domain.times import from_rfc3339, to_rfc3339
from plimsoll.memory.load import needed_tokens
from plimsoll.rebalance.decide import DeclaredNeed, PlacementState, ceiling_of, decide
from plimsoll.rebalance.decisions import AddReplica, Decision, DecisionReason, Move, RemoveReplica, Wait
from plimsoll.rebalance.history import Ceiling, ChangeHistory
from plimsoll.rebalance.load import summarize
from plimsoll.rebalance.policy import Mode, RebalancePolicy
from plimsoll.rebalance.signals import LoadSummary, SignalState
from plimsoll.rebalance.why import sentence
from plimsoll.render.report import RebalancingReport

OLDEST_SAMPLE_SECONDS = 60
"""No decision on samples older than this, or than half the window where that is shorter: one scrape is no window."""

UNBOUNDED_REPLICAS = 1000
"""Upper bound where the user gives none: only Recommend mode may go without."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the live loop stands with an object, as its status tells."""

    base_replicas: int
    target_replicas: int
    history: ChangeHistory
    last_change: str | None = None

    @staticmethod
    def read(spec: InferenceDeploymentSpec, status: Mapping[str, Any]) -> Standing:
        """From the status. A new ``spec.replicas`` is the user's word: the target starts over from it."""
        told = status.get("rebalancing") or {}
        times = [from_rfc3339(text) for text in told.get("changeTimes") or ()]
        history = ChangeHistory(tuple(at for at in times if at is not None), _ceiling(told.get("ceiling")))
        base, target = told.get("baseReplicas"), told.get("targetReplicas")
        if spec.rebalancing.mode is not RebalancingMode.AUTO or base != spec.replicas or target is None:
            target = spec.replicas
        return Standing(spec.replicas, target, history, told.get("lastChange"))


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of the turn: the number of replicas to plan for, whether to move, and what to tell.

    ``detail`` is what the decision's own sentence cannot know: in which way Prometheus gave no answer.
    """

    standing: Standing
    decision: Decision
    acted: bool = False
    moves: bool = False
    detail: str = ""

    def report(self, previous: Mapping[str, Any], mode: RebalancingMode) -> RebalancingReport:
        """The status part. A decision that stays the same keeps its first wording: live figures belong in metrics."""
        told = previous.get("rebalancing") or {}
        kind, reason = type(self.decision).__name__, self.decision.reason.value
        before = (told.get("decision"), told.get("reason"), told.get("targetReplicas"))
        same = not self.acted and before == (kind, reason, self.standing.target_replicas)
        message = str(told.get("message")) if same else self._words()
        proposes = mode is RebalancingMode.RECOMMEND and isinstance(self.decision, AddReplica | RemoveReplica | Move)
        standing = self.standing
        return RebalancingReport(
            decision=kind,
            reason=reason,
            message=message,
            proposal=_proposal(self.decision, message, standing.target_replicas) if proposes else None,
            base_replicas=standing.base_replicas,
            target_replicas=standing.target_replicas,
            change_times=tuple(to_rfc3339(at) for at in standing.history.changes),
            last_change=standing.last_change,
            ceiling=_ceiling_status(standing.history.ceiling),
        )

    def _words(self) -> str:
        return f"{sentence(self.decision)} {self.detail}." if self.detail else sentence(self.decision)

    def withdrawn(self, before: Standing, nearest: str) -> Turn:
        """Back to where things stood, where no place was found; ``nearest`` says what came closest, or nothing."""
        wanted = (("wanted", self.decision.reason.value), ("nearest", nearest))
        return Turn(before, Wait(DecisionReason.NO_PLACE_FOUND, wanted))


def take_turn(
    spec: InferenceDeploymentSpec,
    standing: Standing,
    figures: MemoryEstimate | None,
    shape: ServingShape,
    around: Surroundings,
    reading: Reading,
    *,
    now: float,
    moving: bool = False,
) -> Turn:
    """Ask the core once. In Auto mode a change is carried into the standing; else it stays a word.

    Args:
        spec: what the user wrote.
        standing: where the loop stands.
        figures: the estimate on the placed GPU. None: unknown, or about to change with the spec; then nothing moves.
        shape: the declared load.
        around: the pods.
        reading: the latest signals.
        now: POSIX seconds.
        moving: an old pool still serves in place of a new one. Whatever the signals say, they speak of both, so nothing
            is decided until the move is over.
    """
    policy = policy_of(spec)
    load = load_of(shape, around, reading, policy, now=now)
    placement = PlacementState(
        replicas=standing.target_replicas,
        ready=len(around.ready_pods()),
        kv_capacity_tokens=figures.kv_capacity_tokens if figures else 0,
        budget_bytes_per_gpu=figures.budget_bytes if figures else 0,
        startup_seconds=_slowest_start(around),
    )
    history = standing.history.clamped(now)
    if moving:
        numbers = (("replicas", placement.replicas), ("ready", placement.ready))
        return Turn(replace(standing, history=history), Wait(DecisionReason.MOVE_UNDER_WAY, numbers))
    decision = decide(_need_of(shape, figures), placement, load, history, now=now, policy=policy)
    if policy.mode is not Mode.AUTO or not isinstance(decision, AddReplica | RemoveReplica | Move):
        unanswered = decision.reason is DecisionReason.METRICS_UNAVAILABLE
        return Turn(replace(standing, history=history), decision, detail=reading.error if unanswered else "")
    step = {AddReplica: 1, RemoveReplica: -1, Move: 0}[type(decision)]
    moved_on = Standing(
        base_replicas=standing.base_replicas,
        target_replicas=standing.target_replicas + step,
        history=history.recorded(now, ceiling_of(decision, placement, load, now)),
        last_change=f"{to_rfc3339(now)}: {sentence(decision)}",
    )
    return Turn(moved_on, decision, acted=True, moves=isinstance(decision, Move))


def _need_of(shape: ServingShape, figures: MemoryEstimate | None) -> DeclaredNeed:
    """An admin's override of the memory outweighs what the engine reports, as it does in the placement.

    Without one the expected need counts: a placement that fits only probably was chosen for want of a better one.
    """
    if figures is None:
        return DeclaredNeed(0, 0)
    if figures.forced_bytes is not None:
        return DeclaredNeed(0, figures.forced_bytes)
    return DeclaredNeed(needed_tokens(shape), figures.expected_bytes)


def policy_of(spec: InferenceDeploymentSpec) -> RebalancePolicy:
    """The user's bounds as the core's policy."""
    given = spec.rebalancing
    most = UNBOUNDED_REPLICAS if given.max_replicas is None else given.max_replicas
    return RebalancePolicy(
        mode=Mode(given.mode.value),
        min_replicas=min(given.min_replicas, most),
        max_replicas=most,
        changes_per_hour=given.changes_per_hour,
        window_seconds=given.window_seconds,
        cooldown_seconds=given.cooldown_seconds,
        max_age_seconds=min(OLDEST_SAMPLE_SECONDS, given.window_seconds // 2),
    )


def load_of(
    shape: ServingShape, around: Surroundings, reading: Reading, policy: RebalancePolicy, *, now: float
) -> LoadSummary:
    """The load of one object from its latest reading."""
    ready = around.ready_pods()
    return summarize(
        tuple(reading.pods.values()),
        [pod.name for pod in ready],
        now,
        policy,
        request_tokens=_request_tokens(shape),
        ready_since={pod.name: pod.ready_since for pod in ready if pod.ready_since is not None},
        available=reading.state is SignalState.FRESH,
    )


def _request_tokens(shape: ServingShape) -> int:
    if shape.expected_prompt_tokens is None or shape.expected_output_tokens is None:
        return shape.context_tokens
    return shape.expected_prompt_tokens + shape.expected_output_tokens


def _slowest_start(around: Surroundings) -> float | None:
    seen = [pod.startup_seconds for pod in around.ready_pods() if pod.startup_seconds is not None]
    return max(seen, default=None)


def _proposal(decision: Decision, message: str, replicas: int) -> str:
    match decision:
        case AddReplica():
            return f"Set spec.replicas to {replicas + 1}. {message}"
        case RemoveReplica():
            return f"Set spec.replicas to {replicas - 1}. {message}"
        case _:
            return f"Set spec.rebalancing.mode to Auto to move. {message}"


def _ceiling(told: Mapping[str, Any] | None) -> Ceiling | None:
    at = from_rfc3339(str((told or {}).get("at")))
    if told is None or at is None:
        return None
    return Ceiling(at, told.get("promptTokensPerSecond"), told.get("generationTokensPerSecond"))


def _ceiling_status(ceiling: Ceiling | None) -> dict[str, Any] | None:
    if ceiling is None:
        return None
    prompt, generation = ceiling.prompt_tokens_per_second, ceiling.generation_tokens_per_second
    return {
        "at": to_rfc3339(ceiling.at),
        "promptTokensPerSecond": None if prompt is None else int(prompt),
        "generationTokensPerSecond": None if generation is None else int(generation),
    }
