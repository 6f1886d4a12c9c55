"""Events of one pass: decisions, not heartbeats."""

from __future__ import annotations

from plimsoll.app.case import Case
from plimsoll.app.executor import Note
from plimsoll.domain.public_words import ConditionType, EventReason
from plimsoll.placement.pools import Decision, PlannedPool


def notes_of(case: Case) -> list[Note]:
    """Events for what was decided in this pass: decisions, not heartbeats."""
    if case.problem is not None:
        return [Note(case.problem.reason, case.problem.message, warning=True)] if case.problem.permanent else []
    decision = case.decision
    if decision is None:
        return []
    before = {pool.name: pool for pool in case.pools}
    notes = [Note(EventReason.PLACEMENT_DECIDED, _opened(pool)) for pool in decision.pools if pool.name not in before]
    gone = (name for name in sorted(before) if not _has(decision, name))
    notes += [Note(EventReason.PLACEMENT_RETIRED, f"Pool {name} is gone.") for name in gone]
    if decision.missing or decision.change_blocked:
        planned = case.record.condition(ConditionType.PLANNED)
        if planned is None or planned.status != "False":
            text = f"{decision.missing} replicas have no place."
            notes.append(Note(EventReason.PLACEMENT_IMPOSSIBLE, text, warning=True))
    if case.turn is not None and case.turn.acted:
        word = EventReason(f"Rebalanced{type(case.turn.decision).__name__}")
        notes.append(Note(word, case.turn.standing.last_change or ""))
    return notes


def _opened(pool: PlannedPool) -> str:
    price = pool.choice.hourly_price if pool.choice else None
    cost = "" if price is None else f" at ${price}/h each"
    engines = "" if pool.split.data_parallel == 1 else f", data parallel {pool.split.data_parallel}"
    cut = f"tensor parallel {pool.split.tensor_parallel}{engines}"
    return f"{pool.replicas} replicas on {pool.gpu_type}, {cut}{cost}."


def _has(decision: Decision, name: str) -> bool:
    return any(pool.name == name for pool in decision.pools)
