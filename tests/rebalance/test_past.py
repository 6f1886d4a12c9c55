"""The arrivals of days in steps: what is kept, what is left out, and what replaces what."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.rebalance.signals.forecast import Past, Point, step_of
from tests.support.tables import every_case

DAY_STEPS = 288
DAYS = 7
KEPT_STEPS = 2_088
STEP_SECONDS = 300.0

NOW = 1_700_000_100.0
HERE = step_of(NOW)


def points(*steps: tuple[int, float]) -> list[Point]:
    """Points by how many steps ago they ended."""
    return [Point((HERE - ago) * STEP_SECONDS, rate) for ago, rate in steps]


def test_a_step_has_its_rate_and_what_is_between_two_is_unknown() -> None:
    past = Past().with_points(points((3, 2.0), (1, 4.0)), NOW)
    assert [past.at(HERE - ago) for ago in (4, 3, 2, 1, 0)] == [None, 2.0, None, 4.0, None]


def test_what_is_read_again_replaces_what_was_known_and_the_rest_stays() -> None:
    past = Past().with_points(points((4, 2.0), (2, 3.0), (1, 4.0)), NOW).with_points(points((1, 5.0), (0, 6.0)), NOW)
    assert [past.at(HERE - ago) for ago in (5, 4, 3, 2, 1, 0)] == [None, 2.0, None, 3.0, 5.0, 6.0]


def test_a_source_whose_steps_begin_elsewhere_is_read_by_the_nearest_step() -> None:
    past = Past().with_points([Point((HERE - 5) * STEP_SECONDS + 100, 2.0)], NOW)
    assert past.at(HERE - 5) == 2.0


@every_case(
    "odd",
    [
        Point(HERE * STEP_SECONDS, math.nan),
        Point(HERE * STEP_SECONDS, math.inf),
        Point(HERE * STEP_SECONDS, -1.0),
        Point(HERE * STEP_SECONDS, 1_000_001.0),
        Point(math.nan, 1.0),
        Point(math.inf, 1.0),
        Point((HERE + 1) * STEP_SECONDS, 1.0),
        Point((HERE - KEPT_STEPS) * STEP_SECONDS, 1.0),
    ],
)
def test_what_cannot_be_lies_ahead_or_is_too_old_is_left_out(odd: Point) -> None:
    assert Past().with_points([odd], NOW) == Past()
    assert Past().with_points([odd, *points((2, 1.0))], NOW) == Past().with_points(points((2, 1.0)), NOW)


def test_no_request_and_a_million_requests_a_second_can_be() -> None:
    past = Past().with_points(points((1, 0.0), (0, 1_000_000.0)), NOW)
    assert (past.at(HERE - 1), past.at(HERE)) == (0.0, 1_000_000.0)


def test_a_week_and_some_hours_are_kept() -> None:
    old = Past().with_points(points((DAYS * DAY_STEPS, 1.0)), NOW)
    assert old.at(HERE - DAYS * DAY_STEPS) == 1.0
    assert old.with_points([], NOW + 86_400) == Past()


anything = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.builds(Point, st.one_of(anything, st.floats(NOW - 700_000, NOW + 700)), anything)), anything)
def test_no_series_is_an_error_and_all_that_is_kept_can_be(found: list[Point], now: float) -> None:
    past = Past().with_points(found, now).with_points(found, NOW)
    known = [rate for step in range(HERE - KEPT_STEPS - 2, HERE + 3) if (rate := past.at(step)) is not None]
    assert len(past.rates) <= KEPT_STEPS
    assert all(rate >= 0 and math.isfinite(rate) for rate in known)
