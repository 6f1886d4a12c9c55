"""What is expected from the days before: a morning that comes every day, and nothing from days that say nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.rebalance.signals.forecast import (
    Expected,
    Past,
    Point,
    Season,
    expected_within,
    scale_of,
    season_of,
    step_of,
)
from tests.support.tables import examples

DAY_STEPS = 288
DAYS = 7
KNOWN_SHARE = 0.8
MOST_SCALE = 1.25
STEP_SECONDS = 300.0

DAY = 86_400.0
MIDNIGHT = 19_700 * DAY
EIGHT = MIDNIGHT + 8 * 3600.0
STARTUP, AHEAD = 600.0, 2400.0
LOW, HIGH = 2.0, 6.0

Course = Callable[[float], float]
"""The requests a second by the seconds of a day."""


def morning(at: float) -> float:
    """A climb from 8:00 to 8:40, and a fall at 18:00."""
    climbed = min(1.0, max(0.0, (at - 8 * 3600) / 2400))
    return LOW + (HIGH - LOW) * climbed if at < 18 * 3600 else LOW


def flat(_: float) -> float:
    return LOW


def past_of(before: Sequence[Course], today: Course, now: float) -> Past:
    """The past with these days, the newest last, and today up to now."""
    found = []
    for index, course in enumerate([*before, today]):
        begin = MIDNIGHT - (len(before) - index) * DAY
        ends = [begin + (number + 1) * STEP_SECONDS for number in range(DAY_STEPS)]
        found += [Point(end, course(end - begin - STEP_SECONDS / 2)) for end in ends if end <= now]
    return Past().with_points(found, now)


def season_at(before: Sequence[Course], today: Course = morning, now: float = EIGHT) -> Season | None:
    return season_of(past_of(before, today, now), now, STARTUP, AHEAD)


def expected_at(before: Sequence[Course], today: Course = morning, now: float = EIGHT) -> Expected | None:
    season = season_at(before, today, now)
    return None if season is None else expected_within(season, now, STARTUP, today(now - MIDNIGHT))


@pytest.mark.parametrize(("ago", "counts"), [(0, True), (11, True), (12, False)])
def test_of_today_the_last_hour_says_how_much_of_the_usual_comes(ago: int, *, counts: bool) -> None:
    """Nothing came in the step that ended so many steps ago."""
    begin = 8 * 3600 - (ago + 1) * STEP_SECONDS
    seen, usual = (
        season_at([morning] * 3, today)
        for today in (lambda at: 0.0 if begin <= at < begin + STEP_SECONDS else morning(at), morning)
    )
    assert seen is not None
    assert usual is not None
    assert (seen.today < usual.today) is counts


def test_a_morning_of_all_days_is_expected_before_it_comes() -> None:
    found = expected_at(7 * [morning], now=EIGHT - 300)
    assert found is not None
    assert found.per_second == pytest.approx(morning(8 * 3600 + STARTUP), rel=0.06)
    assert (found.at, found.days) == (EIGHT - 300 + STARTUP + STEP_SECONDS, 7)
    assert found.error < 0.02
    assert expected_at(7 * [morning], now=EIGHT - 7200) is None


def test_a_season_is_known_from_the_middle_of_its_first_step_to_that_of_its_last() -> None:
    season = Season(0, (1.0, 2.0, 4.0), 1.0, 3, 0.0)
    at = {middle: season.at((middle - 0.5) * STEP_SECONDS) for middle in (-0.1, 0, 0.5, 1, 2, 2.1)}
    assert at == {-0.1: None, 0: 1.0, 0.5: 1.5, 1: 2.0, 2: 4.0, 2.1: None}


def test_the_largest_arrivals_until_then_are_expected_and_not_the_last_ones() -> None:
    season = Season(0, tuple([1.0] * 10 + [9.0] + [1.0] * 20), 1.0, 3, 0.0)
    found = expected_within(season, 8 * STEP_SECONDS, 1500.0, 1.0)
    assert found is not None
    assert found.per_second > 4
    assert found.at < 12 * STEP_SECONDS


@pytest.mark.parametrize(("startup", "steps"), [(0.0, 1), (1.0, 2), (STEP_SECONDS, 2), (STEP_SECONDS + 1, 3)])
def test_a_rise_is_looked_for_until_a_replica_serves_and_one_step_more(startup: float, steps: int) -> None:
    now = 8 * STEP_SECONDS
    found = expected_within(Season(0, tuple(1.0 + index for index in range(30)), 1.0, 3, 0.0), now, startup, 8.0)
    assert found is not None
    assert found.at == now + steps * STEP_SECONDS


@pytest.mark.parametrize("level", [0.85, 1.0, 1.2, 2.0])
def test_today_is_expected_to_go_on_as_it_went_so_far_within_bounds(level: float) -> None:
    found = expected_at(7 * [morning], lambda at: level * morning(at))
    assert found is not None
    assert found.per_second == pytest.approx(min(level, MOST_SCALE) * morning(8 * 3600 + STARTUP + 300), rel=0.12)


def test_a_day_on_which_nobody_comes_is_soon_seen() -> None:
    """A holiday: the morning is expected at first, and no more once it would have begun."""
    assert expected_at(7 * [morning], flat, EIGHT) is not None
    assert expected_at(7 * [morning], flat, EIGHT + 900) is None


def test_one_odd_day_among_seven_changes_nothing() -> None:
    usual, odd = expected_at(7 * [morning]), expected_at([*3 * [morning], flat, *3 * [morning]])
    assert usual is not None
    assert odd is not None
    assert odd.per_second == pytest.approx(usual.per_second, rel=0.02)


def test_a_monday_is_expected_to_be_like_working_days_and_a_saturday_like_a_weekend() -> None:
    before_monday: list[Course] = [*5 * [morning], flat, flat]
    before_saturday: list[Course] = [flat, flat, *5 * [morning]]
    monday = expected_at(before_monday)
    assert monday is not None
    assert monday.days == 5
    assert expected_at(before_saturday, flat) is None
    assert expected_at(7 * [morning], flat) is not None


def test_one_day_is_no_rhythm_and_two_are() -> None:
    assert season_at([morning]) is None
    two = expected_at([morning, morning])
    assert two is not None
    assert two.days == 2


def test_days_at_other_times_say_nothing() -> None:
    """Each day has the same climb at a time of its own, so that its neighbours are a bad forecast of it."""
    days: list[Course] = [lambda at, shift=shift: morning(at + shift) for shift in (-9000, -4500, 0, 4500)]  # type: ignore[misc]
    assert expected_at(days, flat) is None


@pytest.mark.parametrize(("share", "is_known"), [(0.05, True), (0.5, False)])
def test_days_with_too_many_holes_do_not_count(share: float, is_known: bool) -> None:  # noqa: FBT001
    assert share < 1 - KNOWN_SHARE or not is_known
    rng, whole = Random(1), past_of(2 * [morning], morning, EIGHT)  # noqa: S311 - a simulation
    kept = [
        Point((whole.first + index) * STEP_SECONDS, rate)
        for index, rate in enumerate(whole.rates)
        if rng.random() > share or index % 3
    ]
    cut = [point for point in kept if is_known or not EIGHT - DAY - 5000 < point.at < EIGHT - DAY + 3000]
    found = season_of(Past().with_points(cut, EIGHT), EIGHT, STARTUP, AHEAD)
    assert (found is not None) is is_known


def test_a_season_is_good_for_an_hour_and_not_for_longer() -> None:
    season = season_at(7 * [morning])
    assert season is not None
    assert season.at(EIGHT + 3600) is not None
    assert expected_within(season, EIGHT + 2 * 3600, STARTUP, LOW) is None
    assert expected_within(season, EIGHT - DAY, STARTUP, LOW) is None


def test_a_constant_series_asks_for_nothing_with_chance_or_without() -> None:
    assert expected_at(7 * [flat], flat) is None
    asked = 0
    for seed in range(40):
        rng = Random(seed)  # noqa: S311 - a simulation
        noisy: Course = lambda at, rng=rng: max(0.0, rng.gauss(flat(at), 0.08))  # type: ignore[misc] # noqa: E731
        asked += expected_at(7 * [noisy], noisy) is not None
    assert asked <= 1


def test_where_nothing_ever_comes_nothing_is_expected() -> None:
    assert season_at(7 * [lambda _: 0.0], lambda _: 0.0) is None
    assert scale_of(1.0, 0.0, 0.0) == 0.0


def test_a_night_without_requests_does_not_hide_the_morning() -> None:
    def from_nothing(at: float) -> float:
        return max(0.0, morning(at) - LOW)

    found = expected_at(7 * [from_nothing], from_nothing, EIGHT - 300)
    assert found is not None
    assert found.per_second == pytest.approx(from_nothing(8 * 3600 + STARTUP), rel=0.15)


rates = st.one_of(st.just(math.nan), st.just(math.inf), st.floats(-10, 1e6), st.sampled_from([0.0, 1.0, 1.0, 1.0, 5.0]))
moments = st.one_of(st.floats(EIGHT - 8 * DAY, EIGHT + DAY), st.floats(-1e3, 1e3))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(rates, min_size=1, max_size=40), st.integers(1, 9), moments, st.floats(0, 7200), st.floats(0, 1e6))
def test_no_series_is_an_error_and_what_is_expected_is_more_than_now(
    pattern: list[float], days: int, now: float, startup: float, current: float
) -> None:
    """The pattern is repeated over days with NaN, holes and impossible numbers, and the clock may be anywhere."""
    count = days * DAY_STEPS
    found = [Point(EIGHT - (count - index) * STEP_SECONDS, pattern[index % len(pattern)]) for index in range(count)]
    past = Past().with_points(found, EIGHT).with_points(found[: count // 2], now)
    season = season_of(past, now, startup, startup + 1800)
    if season is None:
        return
    assert all(rate >= 0 for rate in season.rates)
    assert 2 <= season.days <= DAYS
    coming = expected_within(season, now, startup, current)
    assert coming is None or (current < coming.per_second <= MOST_SCALE * max(season.rates) and coming.at >= now)


def test_steps_are_those_of_the_clock() -> None:
    assert step_of(EIGHT) * STEP_SECONDS == EIGHT
