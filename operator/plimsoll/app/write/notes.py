"""Events of one pass: decisions, not heartbeats."""

from __future__ import annotations

from plimsoll.app.plan.rendered import Desired
from plimsoll.app.write.executor import Note
from plimsoll.domain.public_words import ConditionType, EventReason
from plimsoll.domain.units import agreed, counted, to_rfc3339
from plimsoll.placement.demands.failed_moves import FailedMove, settings_words, subject_of
from plimsoll.placement.demands.pools import Decision, PlannedPool, PoolState
from plimsoll.placement.explain import place_words


def notes_of(desired: Desired) -> list[Note]:
    """Events for what was decided in this pass: decisions, not heartbeats."""
    outcome = desired.outcome
    if outcome.problem is not None:
        return (
            [Note(outcome.problem.reason, outcome.problem.message, warning=True)] if outcome.problem.permanent else []
        )
    decision = outcome.decision
    if decision is None:
        return []
    before = {pool.name: pool for pool in outcome.deployment.placed.pools}
    notes = [Note(EventReason.PLACEMENT_DECIDED, _opened(pool)) for pool in decision.pools if pool.name not in before]
    gone = (name for name in sorted(before) if not _has(decision, name))
    notes += [Note(EventReason.PLACEMENT_RETIRED, f"Pool {name} is gone.") for name in gone]
    if decision.missing or decision.change_blocked:
        planned = outcome.deployment.record.condition(ConditionType.PLANNED)
        if planned is None or planned.status != "False":
            notes.append(Note(EventReason.PLACEMENT_IMPOSSIBLE, _without_place(decision), warning=True))
    failed = {} if desired.report is None else {subject_of(each): each for each in desired.report.failed_moves}
    notes += [_rolled_back(failed.get(subject_of(each)), decision) for each in decision.rolled_back]
    if outcome.turn is not None and outcome.turn.acted:
        word = EventReason(f"Rebalanced{type(outcome.turn.decision).__name__}")
        notes.append(Note(word, outcome.turn.standing.last_change or ""))
    return notes


def _without_place(decision: Decision) -> str:
    if not decision.missing:
        return "The last change has no place yet. The previous placement keeps serving."
    missing = decision.missing
    return f"{counted(missing, 'replica')} {agreed(missing, 'has', 'have')} no place."


def _opened(pool: PlannedPool) -> str:
    price = pool.choice.hourly_price if pool.choice else None
    cost = "" if price is None else f" at ${price}/h each"
    engines = "" if pool.split.data_parallel == 1 else f", data parallel {pool.split.data_parallel}"
    cut = f"tensor parallel {pool.split.tensor_parallel}{engines}"
    return f"{counted(pool.replicas, 'replica')} on {pool.gpu_type}, {cut}{cost}."


def _rolled_back(failed: FailedMove | None, decision: Decision) -> Note:
    assert failed is not None  # noqa: S101 - the report remembers every roll-back of its decision
    if failed.is_of_settings:
        return _restored(failed)
    kept = ", ".join(pool.name for pool in decision.pools if pool.state is PoolState.ACTIVE)
    delay = failed.delay
    text = (
        f"The move to {place_words(*failed.place)} did not come up in time. The replicas stay on {kept}. It is not "
        f"tried again before {to_rfc3339(failed.until)}. {delay.reason}: {delay.message}"
    )
    return Note(EventReason.MOVE_ROLLED_BACK, text, warning=True)


def _restored(failed: FailedMove) -> Note:
    delay = failed.delay
    text = (
        f"Engines on {place_words(*failed.place)} with {settings_words(failed.limits)} "
        f"did not come up in time, so they get back their earlier settings. These are not changed there again before "
        f"{to_rfc3339(failed.until)}. {delay.reason}: {delay.message}"
    )
    return Note(EventReason.RETUNE_ROLLED_BACK, text, warning=True)


def _has(decision: Decision, name: str) -> bool:
    return any(pool.name == name for pool in decision.pools)
