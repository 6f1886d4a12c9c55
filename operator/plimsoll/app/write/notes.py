"""Events of one pass: decisions, not heartbeats. Each says why; each warning says what helps."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.app.plan.rendered import Desired
from plimsoll.app.write.executor import Note
from plimsoll.domain.public_words import ConditionReason, ConditionType, EventReason, PublicWord, RoutingTrouble
from plimsoll.domain.units import counted, to_rfc3339
from plimsoll.placement.demands.failed_moves import FailedMove, settings_words, subject_of
from plimsoll.placement.demands.pools import Decision, PlannedPool, PoolState
from plimsoll.placement.explain import estimate_sentence, place_words
from plimsoll.status.conditions import planned_sentence
from plimsoll.status.words.what_helps import WHAT_HELPS, why_and_help


def notes_of(desired: Desired) -> list[Note]:
    """Events for what was decided in this pass: decisions, not heartbeats."""
    outcome = desired.outcome
    if outcome.problem is not None:
        return [warning(outcome.problem.reason, outcome.problem.message)] if outcome.problem.permanent else []
    decision = outcome.decision
    if decision is None:
        return []
    before = {pool.name: pool for pool in outcome.deployment.placed.pools}
    opened = (pool for pool in decision.pools if pool.name not in before and pool.replicas)
    notes = [Note(EventReason.PLACEMENT_DECIDED, _opened(pool)) for pool in opened]
    gone = (name for name in sorted(before) if not _has(decision, name))
    notes += [Note(EventReason.PLACEMENT_RETIRED, f"Pool {name} is gone: {_successors(decision)}.") for name in gone]
    if decision.missing or decision.change_blocked:
        planned = outcome.deployment.record.condition(ConditionType.PLANNED)
        if planned is None or planned.status != "False":
            assert desired.report is not None  # noqa: S101 - each decision has its report
            notes.append(Note(EventReason.PLACEMENT_IMPOSSIBLE, planned_sentence(desired.report), warning=True))
    failed = {} if desired.report is None else {subject_of(each): each for each in desired.report.failed_moves}
    notes += [_rolled_back(failed.get(subject_of(each)), decision) for each in decision.rolled_back]
    notes += _begun(desired)
    if outcome.turn is not None and outcome.turn.acted:
        word = EventReason(f"Rebalanced{type(outcome.turn.decision).__name__}")
        notes.append(Note(word, " ".join((outcome.turn.standing.last_change or "", *_left(desired)))))
    if outcome.turn is not None and outcome.turn.given_up:
        notes.append(Note(EventReason.REPLACEMENT_ENDED, outcome.turn.given_up))
    notes += [Note(EventReason.NODE_USED_AGAIN, _used_again(*each)) for each in outcome.used_again.items()]
    return notes


def _left(desired: Desired) -> Iterator[str]:
    """Yield which node takes no further replicas from this decision on, and until when."""
    before = desired.outcome.deployment.placed.left
    for each in () if desired.report is None else desired.report.rehomings:
        if each.is_shunned and each not in before:
            until = to_rfc3339(each.until)
            yield f"Replicas are added on node {each.node} before {until} only if no other has room."


def _used_again(node: str, why: str) -> str:
    return f"Replicas may be added on node {node} again, which was left for a slow or silent one: {why}."


FINDING_PAUSE_SECONDS = 3600
"""The same finding has one event an hour at most: about as long as the API server keeps events."""

_SAID_ELSEWHERE = (ConditionReason.NO_GPU_FITS, ConditionReason.PODS_NOT_CREATED, RoutingTrouble.ROUTER_REFUSED)
"""The reasons that have an event of their own: ``PlacementImpossible``, and those of a refused write."""


def _begun(desired: Desired) -> Iterator[Note]:
    """Yield what stalls or serves worse than asked from this status on. Its condition says why, and what helps."""
    stated = {} if desired.new_status is None else {each["type"]: each for each in desired.new_status["conditions"]}
    for kind in (ConditionType.STALLED, ConditionType.TROUBLED):
        now, before = stated.get(kind), desired.outcome.deployment.record.condition(kind)
        if now is None or now["reason"] in _SAID_ELSEWHERE or (before is not None and before.reason == now["reason"]):
            continue
        yield Note(now["reason"], now["message"], warning=True, pause_seconds=FINDING_PAUSE_SECONDS)


def warning(reason: PublicWord, why: str, cause: PublicWord | str = "", helps: str = "") -> Note:
    """Return an event about what somebody may have to mend: why, and what helps.

    Args:
        reason: the reason of the event.
        why: a sentence.
        cause: the reason by which what helps is known; the event's own if it is empty.
        helps: what helps if the cause is none of the public words.
    """
    known = WHAT_HELPS.get(cause or reason)
    return Note(reason, why_and_help(cause or reason, why, known or helps), warning=True)


def _successors(decision: Decision) -> str:
    serving = [pool.name for pool in decision.pools if pool.state is PoolState.ACTIVE and pool.replicas]
    return f"its replicas are in {' and '.join(serving)}" if serving else "no replica is wanted any more"


def _opened(pool: PlannedPool) -> str:
    price = pool.choice.hourly_price if pool.choice else None
    cost = "" if price is None else f" at ${price}/h each"
    engines = "" if pool.split.data_parallel == 1 else f", data parallel {pool.split.data_parallel}"
    cut = f"tensor parallel {pool.split.tensor_parallel}{engines}"
    fits = "" if pool.choice is None else f" It fits: {estimate_sentence(pool.choice.estimate)}."
    return f"{counted(pool.replicas, 'replica')} on {pool.gpu_type}, {cut}{cost}.{fits}"


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
    return warning(EventReason.MOVE_ROLLED_BACK, text, delay.reason, _LOOK)


def _restored(failed: FailedMove) -> Note:
    delay = failed.delay
    text = (
        f"Engines on {place_words(*failed.place)} with {settings_words(failed.limits)} "
        f"did not come up in time, so they get back their earlier settings. These are not changed there again before "
        f"{to_rfc3339(failed.until)}. {delay.reason}: {delay.message}"
    )
    return warning(EventReason.RETUNE_ROLLED_BACK, text, delay.reason, _LOOK)


_LOOK = "look at the pods that did not come up"


def _has(decision: Decision, name: str) -> bool:
    return any(pool.name == name for pool in decision.pools)
