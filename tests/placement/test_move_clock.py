"""How long a move may take, and how its clock runs on across passes and restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.performance.worth import FIRST_STARTUP_SECONDS
from plimsoll.placement.demands.clocks import MoveClock, continued, seconds_for_move, trusted

DOWNLOAD_BYTES_PER_SECOND = 125e6
LEAST_SECONDS = 900.0
LONGEST_SECONDS = 86_400.0

NOW = 1_800_000_000.0
CLOCK = MoveClock(("a",), NOW - 100, NOW + 800, "s")


@pytest.mark.parametrize(
    ("startup", "weights", "seconds"),
    [
        (None, [], LEAST_SECONDS),
        (200.0, [15 * 10**9], LEAST_SECONDS),
        (600.0, [15 * 10**9], 1800.0),
        (600.0, [15 * 10**9, 250 * 10**9], 6000.0),
        (10.0**6, [], LONGEST_SECONDS),
    ],
    ids=["nothing known", "small and quick", "slow start", "large weights", "for ever"],
)
def test_a_move_gets_three_times_the_expected_start_and_a_quarter_of_an_hour_at_least(
    startup: float | None, weights: list[int], seconds: float
) -> None:
    assert seconds_for_move(startup, weights) == seconds


def test_the_least_time_is_three_assumed_start_ups_and_may_be_set() -> None:
    assert LEAST_SECONDS == 3 * FIRST_STARTUP_SECONDS
    assert [seconds_for_move(None, [], least=least) for least in (0.0, 20.0)] == [0.0, 20.0]
    assert seconds_for_move(None, [int(10 * DOWNLOAD_BYTES_PER_SECOND)], least=20.0) == 30.0


def test_it_is_over_at_its_end() -> None:
    assert [CLOCK.is_over(CLOCK.due - 1), CLOCK.is_over(CLOCK.due)] == [False, True]


def test_it_begins_with_the_first_pools_and_runs_on_while_they_are_the_same() -> None:
    assert continued(None, ("a",), 900, "s", NOW) == MoveClock(("a",), NOW, NOW + 900, "s")
    assert continued(CLOCK, ("a",), 90_000, "s", NOW) == CLOCK, "a later, longer start-up changes nothing"


def test_replicas_that_go_on_to_another_place_begin_anew_there_within_twice_the_time() -> None:
    assert continued(CLOCK, ("b",), 900, "s", NOW) == MoveClock(("b",), CLOCK.began, NOW + 900, "s")
    late = continued(CLOCK, ("b",), 900, "s", NOW + 1600)
    assert (late.began, late.due) == (CLOCK.began, CLOCK.began + 1800)


def test_another_spec_is_another_start_and_no_clock_is_none() -> None:
    assert trusted(CLOCK, "t", NOW) is None
    assert trusted(None, "s", NOW) is None
    assert trusted(CLOCK, "s", NOW) == CLOCK


def test_times_to_come_count_from_now() -> None:
    ahead = replace(CLOCK, began=NOW + 10**9, due=NOW + 2 * 10**9)
    assert trusted(ahead, "s", NOW) == MoveClock(("a",), NOW, NOW + 2 * LONGEST_SECONDS, "s")
