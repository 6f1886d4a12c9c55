"""Moments of a run, made from its replicas and requests.

The events of a run: each kind once, until it has not been seen for a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.rebalance.decide import LoopResult
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Move, RemoveReplica, ReplaceReplica, Retune
from plimsoll.rebalance.why import sentence
from plimsoll.simulation.batch import BLOCK_TOKENS
from plimsoll.simulation.fleet import Replica, SimulatedFleet, Stage
from plimsoll.simulation.gateway import Gateway
from plimsoll.simulation.result import Event, Happening, Moment, RunTotals, TimePercentiles
from plimsoll.simulation.run import ReplicaLimits
from plimsoll.simulation.values import Fate, QueueObstacle, SimulatedRequest

_HIGH = 0.95


@dataclass(slots=True)
class Watching:
    """The counts up to the last moment, so that each request is counted once."""

    fleet: SimulatedFleet[ReplicaLimits]
    gateway: Gateway
    _preemptions: int = field(default=0, init=False)
    _begun: set[SimulatedRequest] = field(default_factory=set, init=False)
    _open: dict[SimulatedRequest, None] = field(default_factory=dict, init=False)
    _seen: int = field(default=0, init=False)
    lost: int = field(default=0, init=False)
    """The requests that the last moment has found lost with their replica."""

    def moment(self, now: float, wanted: int) -> Moment:
        """Return the state now."""
        serving = [each for each in self.fleet.replicas if each.stage in (Stage.READY, Stage.DRAINING)]
        for each in serving:
            each.engine.sample(now)  # it takes the steps that have ended
        ready = [each for each in serving if each.stage is Stage.READY]
        new = self.gateway.requests[self._seen :]
        self._open.update(dict.fromkeys(new))
        self._seen += len(new)
        ended = [each for each in self._open if each.fate is not None]
        first = [each for each in self._open if each not in self._begun and _has_first_token(each, now)]
        self._begun.update(first)
        self.lost = sum(each.fate is Fate.LOST for each in ended)
        for request in ended:
            del self._open[request]
            self._begun.discard(request)
        return Moment(
            at=now,
            held_tokens=sum(each.engine.used_blocks for each in serving) * BLOCK_TOKENS,
            hold_tokens=sum(each.engine.total_blocks for each in serving) * BLOCK_TOKENS,
            fullest=max((each.engine.used_blocks / each.engine.total_blocks for each in serving), default=0.0),
            running=sum(each.engine.running for each in serving),
            sequence_slots=sum(each.engine.most_running for each in serving),
            waiting=sum(each.engine.waiting for each in serving) + self.gateway.held,
            preemptions=self._new_preemptions(),
            gave_up=sum(each.fate is Fate.GAVE_UP for each in ended),
            wanted=wanted,
            ready=len(ready),
            starting=sum(each.stage is Stage.STARTING for each in self.fleet.shown),
            ttft=spread_of(each.ttft_seconds for each in first),
            tpot=spread_of(each.tpot_seconds for each in ended),
        )

    def obstacles(self) -> dict[QueueObstacle, Replica]:
        """Return why requests wait now, each with the first replica where they do."""
        found: dict[QueueObstacle, Replica] = {}
        for each in self.fleet.ready():
            obstacle = each.engine.obstacle
            if obstacle is not None:
                found.setdefault(obstacle, each)
        return found

    def totals(self, seconds: float) -> RunTotals:
        """Return what became of all requests of a run of so many seconds."""
        requests = self.gateway.requests
        fates = [each.fate for each in requests]
        return RunTotals(
            arrived=len(requests),
            served=fates.count(Fate.SERVED),
            gave_up=fates.count(Fate.GAVE_UP),
            lost=fates.count(Fate.LOST),
            under_way=fates.count(None),
            preemptions=self._all_preemptions(),
            replica_seconds=self.fleet.replica_seconds(seconds),
            ttft=spread_of(each.ttft_seconds for each in requests),
            tpot=spread_of(each.tpot_seconds for each in requests),
        )

    def _all_preemptions(self) -> int:
        return sum(each.engine.totals.preemptions for each in self.fleet.replicas)

    def _new_preemptions(self) -> int:
        before, self._preemptions = self._preemptions, self._all_preemptions()
        return self._preemptions - before


def spread_of(seconds: Iterable[float | None]) -> TimePercentiles | None:
    """Return the middle and the 95th percentile of those times that are known; None if there are none."""
    ordered = sorted(each for each in seconds if each is not None)
    if not ordered:
        return None
    return TimePercentiles(ordered[ceil(len(ordered) / 2) - 1], ordered[ceil(_HIGH * len(ordered)) - 1])


def _has_first_token(request: SimulatedRequest, now: float) -> bool:
    return request.first_token_at is not None and request.first_token_at <= now


CALM_SECONDS: Final = 180.0
"""A state that comes back sooner is the same event."""

QUIET: Final = frozenset(
    {
        DecisionReason.MODE_OFF,
        DecisionReason.WITHIN_BAND,
        DecisionReason.COOLING_DOWN,
        DecisionReason.REPLICAS_STARTING,
        DecisionReason.WINDOW_NOT_COVERED,
        DecisionReason.METRICS_MISSING,
        DecisionReason.METRICS_STALE,
        DecisionReason.METRICS_UNAVAILABLE,
    }
)
"""The reasons of decisions that change nothing and ask for nothing."""


@dataclass(slots=True)
class Log:
    """Events in the order of their times."""

    events: list[Event] = field(default_factory=list)
    _seen: dict[Happening, float] = field(default_factory=dict, init=False)
    _said: tuple[str, str] = field(default=("", ""), init=False)
    _serving: tuple[str, ...] = field(default=(), init=False)

    def state(self, at: float, kind: Happening, words: str) -> None:
        """Note a state. It is an event if it was not seen for some time."""
        before = self._seen.get(kind)
        self._seen[kind] = at
        if before is None or at - before > CALM_SECONDS:
            self.events.append(Event(at, kind, words))

    def obstacle(self, at: float, obstacle: QueueObstacle, replica: Replica) -> None:
        """Note why requests wait at a replica. That a step takes its time is no event."""
        engine = replica.engine
        if obstacle is QueueObstacle.CACHE:
            words = f"The KV cache of {replica.name} is full: {_count(engine.waiting, 'request')} wait for room in it."
            self.state(at, Happening.CACHE_FULL, words)
        if obstacle is QueueObstacle.SEQUENCE_SLOTS:
            words = f"{replica.name} runs {engine.running:,} requests, as many as it may: {engine.waiting:,} more wait."
            self.state(at, Happening.SLOTS_FULL, words)

    def preempted(self, at: float, count: int) -> None:
        """Note running requests that lost their cache."""
        if count:
            words = f"Running requests lose their KV cache to others and are computed again: {count:,} so far."
            self.state(at, Happening.PREEMPTION, words)

    def gave_up(self, at: float, count: int, patience_seconds: float) -> None:
        """Note clients that lost patience."""
        if count:
            words = f"{_count(count, 'client')} had no first token within {patience_seconds:g} s and gave up."
            self.state(at, Happening.GAVE_UP, words)

    def decided(self, at: float, decided: LoopResult, *, is_made: bool) -> None:
        """Note a decision. One that is not carried out is noted once, until another one is made."""
        decision, said = decided.decision, (type(decided.decision).__name__, decided.decision.reason.value)
        is_change = isinstance(decision, AddReplica | RemoveReplica | Retune | Move | ReplaceReplica)
        if is_made or (decision.reason not in QUIET and said != self._said):
            kind = Happening.PROPOSAL if is_change else Happening.HELD_BACK
            words = f"{_what(decided, is_made=is_made)}{sentence(decision)}"
            self.events.append(Event(at, Happening.DECISION if is_made else kind, words, decision.reason.value))
        self._said = said

    def serves(self, at: float, replica: Replica, ready: int, wanted: int) -> None:
        """Note a new replica that serves. Those of the same moment are one event."""
        again = bool(self.events) and (self.events[-1].at, self.events[-1].kind) == (at, Happening.SERVES)
        self._serving = (*self._serving, replica.name) if again else (replica.name,)
        names = ", ".join(self._serving)
        words = f"{names} serve{'' if again else 's'}. Ready now: {ready:,}; wanted: {wanted:,}."
        if again:
            self.events.pop()
        self.events.append(Event(at, Happening.SERVES, words))


def _what(decided: LoopResult, *, is_made: bool) -> str:
    match decided.decision:
        case AddReplica(count=count):
            change = f"add {_count(count, 'replica')}"
        case RemoveReplica(count=count):
            change = f"remove {_count(count, 'replica')}"
        case Retune(limits=StepLimits(step_tokens=tokens)) if tokens:
            change = f"restart the engines with steps of {tokens:,} tokens"
        case Retune(limits=StepLimits(sequences=sequences)):
            change = f"restart the engines with up to {sequences:,} requests at the same time"
        case ReplaceReplica(pod=pod):
            change = f"replace {pod}"
        case Move():
            change = "move the replicas"
        case _:
            return ""
    return f"The policy {'decides' if is_made else 'proposes'} to {change}. "


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
