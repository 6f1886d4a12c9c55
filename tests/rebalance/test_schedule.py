"""The minimum of a schedule in one decision: which entry counts, and that it needs no metrics."""

from __future__ import annotations

import math
from dataclasses import replace

from plimsoll.domain.units import to_rfc3339
from plimsoll.rebalance.decide import decide
from plimsoll.rebalance.diagnosis.diagnose import DiagnosisKind
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.state.allowance import Opening
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason
from plimsoll.rebalance.state.policy import RebalancePolicy, ScheduledMinimum
from tests.support.engine_loads import NOW
from tests.support.hypotheses import no_room, room_for_all
from tests.support.live_situations import AUTO, EASY, situation
from tests.support.tables import every_case

READY_EARLY_SECONDS = 60.0

STARTUP = 240.0
NOTHING = LoadSummary(SignalState.UNAVAILABLE)


def at(replicas: int, ahead: float | None = None) -> ScheduledMinimum:
    """An entry that counts, or that will in so many seconds."""
    return ScheduledMinimum(replicas, Opening() if ahead is None else Opening(is_open=False, opens_at=NOW + ahead))


@every_case(
    ("entries", "least"),
    [
        ((), 2),
        ((at(3),), 3),
        ((at(1),), 2),
        ((at(3), at(5), at(4)), 5),
        ((at(3), at(9)), 6),
        ((at(4, STARTUP + READY_EARLY_SECONDS),), 4),
        ((at(4, STARTUP + READY_EARLY_SECONDS + 1),), 2),
        ((at(3), at(4, 10)), 4),
        ((at(5), at(4, 10)), 5),
        ((at(5, math.inf), at(3)), 3),
    ],
)
def test_the_largest_entry_that_counts_or_is_due_is_the_minimum_and_never_above_the_maximum(
    entries: tuple[ScheduledMinimum, ...], least: int
) -> None:
    policy = RebalancePolicy(min_replicas=2, max_replicas=6).with_schedule(entries, NOW, STARTUP)
    assert (policy.min_replicas, policy.max_replicas) == (least, 6)
    assert (policy.scheduled is not None) == (least > 2)


def test_where_another_controller_decides_the_number_no_schedule_does() -> None:
    outside = RebalancePolicy(min_replicas=0, max_replicas=9, scales=False)
    assert outside.with_schedule((at(3),), NOW, STARTUP) == outside


def test_a_schedule_needs_no_metrics_and_takes_what_has_a_place() -> None:
    policy = replace(AUTO, max_replicas=6).with_schedule((at(4),), NOW, STARTUP)
    decided = decide(situation(EASY, policy=policy, load=NOTHING), room_for_all(1))
    assert isinstance(decided.decision, AddReplica)
    assert (decided.decision.reason, decided.decision.count) == (DecisionReason.SCHEDULED_MINIMUM, 3)
    assert decided.kind is DiagnosisKind.TOO_FEW_REPLICAS
    blocked = decide(situation(EASY, policy=policy, load=NOTHING), no_room(1)).decision
    assert (blocked.reason, blocked.number("wanted")) == (DecisionReason.NO_PLACE_FOUND, "ScheduledMinimum")


@every_case(
    ("entry", "said"),
    [
        (at(4), (None, None)),
        (at(4, 100), (to_rfc3339(NOW + 100), 300)),
    ],
)
def test_a_minimum_that_is_still_to_come_says_when_it_counts_and_how_long_a_start_up_takes(
    entry: ScheduledMinimum, said: tuple[object, object]
) -> None:
    policy = replace(AUTO, max_replicas=6).with_schedule((entry,), NOW, STARTUP)
    numbers = dict(decide(situation(EASY, policy=policy, load=NOTHING), room_for_all(1)).decision.numbers)
    assert (numbers.get("ready_by"), numbers.get("startup_seconds")) == said
