"""The changes that the loop remembers: how long each counts, and what a clock that is set back does to them."""

from __future__ import annotations

import pytest

from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord

HOUR_SECONDS = 3600.0
KEPT = 10
ONE_ADDITION_SECONDS = 60.0
READ_SECONDS = 5_400.0
REVERSAL_SECONDS = 1800.0

NOW = 1_800_000_000.0
ADD, REMOVE, MOVE, RETUNE = ChangeKind.ADD, ChangeKind.REMOVE, ChangeKind.MOVE, ChangeKind.RETUNE
ROLL_BACK = ChangeKind.ROLL_BACK


def history(*changes: tuple[float, ChangeKind]) -> ChangeHistory:
    """Changes of these ages in seconds."""
    return ChangeHistory(tuple(ChangeRecord(NOW - age, kind) for age, kind in changes))


def recorded(*changes: tuple[float, ChangeKind]) -> ChangeHistory:
    """The same, recorded one after another."""
    found = ChangeHistory()
    for age, kind in changes:
        found = found.recorded(ChangeRecord(NOW - age, kind))
    return found


def test_removals_moves_and_settings_count_for_an_hour_and_additions_never() -> None:
    assert history((3600, REMOVE), (3599, REMOVE), (900, MOVE), (60, RETUNE), (5, ADD)).budget_spent(NOW) == 3
    assert ChangeHistory().budget_spent(NOW) == 0


def test_an_addition_soon_after_a_removal_is_a_reversal() -> None:
    assert history((2000, REMOVE), (100, REMOVE), (50, ADD)).reversals(NOW) == 1
    assert history((REVERSAL_SECONDS + 50, REMOVE), (50, ADD)).reversals(NOW) == 1
    assert history((REVERSAL_SECONDS + 51, REMOVE), (50, ADD)).reversals(NOW) == 0
    assert history((100, ADD), (50, REMOVE)).reversals(NOW) == 0
    assert history((100, REMOVE), (70, MOVE), (50, ADD)).reversals(NOW) == 1, "a move between them excuses nothing"


def test_a_move_that_was_taken_back_is_a_reversal_and_a_change_for_an_hour() -> None:
    taken_back = history((HOUR_SECONDS, ROLL_BACK), (1000, MOVE), (100, ROLL_BACK))
    assert (taken_back.reversals(NOW), taken_back.budget_spent(NOW)) == (1, 2)
    assert history((900, MOVE), (100, ADD)).reversals(NOW) == 0


def test_of_several_additions_only_the_first_takes_a_removal_back() -> None:
    assert history((900, REMOVE), (800, ADD), (700, ADD), (600, ADD)).reversals(NOW) == 1
    assert history((900, REMOVE), (800, ADD), (700, REMOVE), (600, ADD)).reversals(NOW) == 2


def test_a_reversal_counts_for_an_hour_from_the_addition_on() -> None:
    """The removal that it takes back may be older than an hour."""
    assert history((HOUR_SECONDS + 900, REMOVE), (HOUR_SECONDS - 1, ADD)).reversals(NOW) == 1
    assert history((HOUR_SECONDS + 900, REMOVE), (HOUR_SECONDS, ADD)).reversals(NOW) == 0


def test_what_no_bound_reads_is_forgotten_but_the_last_ones() -> None:
    old = [(READ_SECONDS + 900.0 * count, MOVE) for count in range(30, 0, -1)]
    kept = recorded(*old, (READ_SECONDS - 1, REMOVE), (0, ADD)).changes
    assert len(kept) == KEPT + 1
    assert kept[0].at < NOW - READ_SECONDS < kept[-2].at
    assert [mark.kind for mark in kept[-2:]] == [REMOVE, ADD]


def test_many_changes_of_the_last_hour_are_all_kept() -> None:
    assert len(recorded(*((float(age), MOVE) for age in range(3000, 0, -60))).changes) == 50


def test_of_additions_within_a_minute_the_last_one_is_kept_and_the_first_one_too() -> None:
    kept = recorded((900, REMOVE), (100, ADD), (95, ADD), (60, ADD), (5, ADD), (0, ADD)).changes
    assert [(NOW - mark.at, mark.kind) for mark in kept] == [(900, REMOVE), (100, ADD), (0, ADD)]
    apart = recorded((2 * ONE_ADDITION_SECONDS, ADD), (ONE_ADDITION_SECONDS, ADD), (0, ADD))
    assert len(apart.changes) == 3


def test_additions_without_an_end_hide_no_reversal() -> None:
    rising = recorded((3000, REMOVE), *((float(age), ADD) for age in range(2900, 0, -30)))
    assert rising.reversals(NOW) == 1
    assert len(rising.changes) == 3


def test_times_in_the_future_become_now() -> None:
    assert history((-900, REMOVE), (-60, ADD)).clamped(NOW) == history((0, REMOVE), (0, ADD))
    past = history((90, REMOVE), (60, ADD))
    assert past.clamped(NOW) == past
    assert history((-900, MOVE)).budget_spent(NOW) == 1
    assert history((-900, REMOVE), (-60, ADD)).reversals(NOW) == 1


def test_the_last_change_of_a_kind() -> None:
    changes = history((90, REMOVE), (60, ADD), (30, MOVE))
    assert changes.last(ADD) == NOW - 60
    assert changes.last(ADD, REMOVE) == NOW - 60
    assert changes.last(*ChangeKind) == NOW - 30
    assert changes.last(RETUNE) is None


@pytest.mark.parametrize(
    ("kind", "reason", "hours"),
    [
        (ChangeKind.ROLL_BACK, "MakesRoom", 7 * 24.0),
        (ChangeKind.REMOVE, "MakesRoom", 1.5),
        (ChangeKind.ROLL_BACK, "PodsPending", 1.5),
    ],
)
def test_only_an_order_that_was_taken_back_is_remembered_for_a_week(
    kind: ChangeKind, reason: str, hours: float
) -> None:
    """Ten changes that came after it are always kept, so it goes when nothing asks about it any more."""
    history = ChangeHistory().recorded(ChangeRecord(NOW, kind, reason))
    for index in range(12):
        history = history.recorded(ChangeRecord(NOW + 3600 * hours - 1 - index, ChangeKind.REMOVE, "SustainedSlack"))
    assert [each.at for each in history.changes[:1]] == [NOW]
    history = history.recorded(ChangeRecord(NOW + 3600 * hours + 3600, ChangeKind.REMOVE, "SustainedSlack"))
    assert NOW not in [each.at for each in history.changes]
