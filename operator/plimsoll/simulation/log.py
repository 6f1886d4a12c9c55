"""The events of a run: each kind once, until it has not been seen for a while."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from plimsoll.rebalance.decide import Decided
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Move, RemoveReplica, Retune
from plimsoll.rebalance.why import sentence
from plimsoll.simulation.replica import Replica
from plimsoll.simulation.result import Event, Happening
from plimsoll.simulation.values import Obstacle

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
        """Note a state. It is an event where it was not seen for some time."""
        before = self._seen.get(kind)
        self._seen[kind] = at
        if before is None or at - before > CALM_SECONDS:
            self.events.append(Event(at, kind, words))

    def obstacle(self, at: float, obstacle: Obstacle, replica: Replica) -> None:
        """Note why requests wait at a replica. That a step takes its time is no event."""
        engine = replica.engine
        if obstacle is Obstacle.CACHE:
            words = f"The KV cache of {replica.name} is full: {_count(engine.waiting, 'request')} wait for room in it."
            self.state(at, Happening.CACHE_FULL, words)
        if obstacle is Obstacle.SEQUENCE_SLOTS:
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

    def decided(self, at: float, decided: Decided, *, is_made: bool) -> None:
        """Note a decision. One that is not carried out is noted once, until another one is made."""
        decision, said = decided.decision, (type(decided.decision).__name__, decided.decision.reason.value)
        is_change = isinstance(decision, AddReplica | RemoveReplica | Retune | Move)
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


def _what(decided: Decided, *, is_made: bool) -> str:
    """Return the change in words; empty where there is none."""
    match decided.decision:
        case AddReplica(count=count):
            change = f"add {_count(count, 'replica')}"
        case RemoveReplica(count=count):
            change = f"remove {_count(count, 'replica')}"
        case Retune(step_tokens=tokens) if tokens:
            change = f"restart the engines with steps of {tokens:,} tokens"
        case Retune(sequences=sequences):
            change = f"restart the engines with up to {sequences:,} requests at the same time"
        case Move():
            change = "move the replicas"
        case _:
            return ""
    return f"The policy {'decides' if is_made else 'proposes'} to {change}. "


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
