"""A rise is extrapolated where it is steady; a step, a fall and chance are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from statistics import correlation

import pytest

from plimsoll.rebalance.signals.forecast import Point, rise_within
from tests.support.tables import every_case

FEWEST_POINTS = 12
LEAST_SECONDS = 300.0
SIGNIFICANT = 3.0


def points(rate: Callable[[float], float], seconds: float = 600, every: float = 15) -> list[Point]:
    """Arrivals at the scrapes of this time."""
    return [Point(1e9 + every * index, rate(every * index)) for index in range(int(seconds // every) + 1)]


def test_a_steady_rise_goes_on() -> None:
    assert rise_within(points(lambda at: 5 + at / 100), 300) == pytest.approx(3.0)
    assert rise_within(points(lambda at: 5 + at / 100), 0) == 0


def test_a_rise_with_chance_in_it_goes_on_about_as_fast() -> None:
    rng = Random(1)  # noqa: S311 - a simulation
    assert rise_within(points(lambda at: 20 + at / 30 + rng.gauss(0, 1)), 300) == pytest.approx(10, rel=0.2)


@every_case("step_at", [60, 150, 300, 450, 540, 585])
@every_case("height", [1, 10, 100])
def test_a_step_does_not_go_on(step_at: float, height: float) -> None:
    assert rise_within(points(lambda at: 5 + (height if at >= step_at else 0)), 300) == 0


def test_both_halves_of_the_time_must_rise_and_not_the_first_third() -> None:
    """The first half of these 12 points rises by 13 / 35 a point, the second by 1, and all of them by 114 / 143.

    Fewer than 12 points say nothing, so no later part of them counts.
    """
    late, later = ([Point(1e9 + 30.0 * at, float(max(0, at - flat))) for at in range(12)] for flat in (3, 4))
    assert rise_within(late, 30.0) == pytest.approx(114 / 143)
    assert rise_within(later, 30.0) == 0, "its first half rises by a seventh of a request a point"


def arrived(dice: Random, rate: Callable[[float], float], seconds: float) -> list[Point]:
    """Requests that come by chance, counted over 30 s each. The normal distribution is that of such counts."""
    return [
        Point(1e9 + at, max(0.0, dice.gauss(rate(at), math.sqrt(rate(at) / 30.0))))
        for at in (30.0 * index for index in range(int(seconds // 30)))
    ]


@every_case("seconds", [600, 1400])
@every_case("rate", [1, 3, 20])
def test_chance_and_a_step_are_believed_to_rise_in_one_of_a_hundred_courses_at_most(
    rate: float, seconds: float
) -> None:
    """A rise of a tenth within 400 s, of 400 courses that are flat and 400 with a step to twice as much."""
    dice, wrong = Random(f"{rate} {seconds}"), 0  # noqa: S311 - a simulation
    for _ in range(400):
        step_at = dice.uniform(0, seconds)
        courses = (lambda _: rate), (lambda at, step_at=step_at: rate * (1 + (at >= step_at)))
        wrong += sum(rise_within(arrived(dice, course, seconds), 400) > 0.1 * rate for course in courses)
    assert wrong <= 8


@every_case("seconds", [600, 1400])
@every_case("rate", [5, 20])
def test_a_rise_that_began_after_a_flat_time_is_soon_seen(rate: float, seconds: float) -> None:
    """It doubles in 1,500 s, and began 300 s before at the latest. With the whole time alone, 36 to 61 % are seen."""
    dice, seen = Random(f"{rate} {seconds}"), 0  # noqa: S311 - a simulation
    for _ in range(200):
        since = dice.uniform(0, seconds - 300)
        course = arrived(dice, lambda at, since=since: rate * (1 + max(0.0, at - since) / 1500), seconds)  # type: ignore[misc]
        seen += rise_within(course, 400) > 0.1 * rate
    assert seen >= (0.4 if rate < 20 and seconds < 1000 else 0.7) * 200


def test_noise_is_no_rise() -> None:
    found = []
    for seed in range(200):
        rng = Random(seed)  # noqa: S311 - a simulation
        found.append(rise_within(points(lambda _, dice=rng: 20 + dice.gauss(0, 1)), 300))  # type: ignore[misc]
    assert sum(rise > 0 for rise in found) <= 4


def test_a_step_with_a_hole_after_it_is_no_rise() -> None:
    """While requests wait no point is kept. These were seen around a step from 2.2 to 7.5 requests a second."""
    before = (1.7, 2.34, 2.14, 2.49, 2.29, 2.48, 2.37, 2.86)
    known = [Point(400.0 + 30 * index, rate) for index, rate in enumerate(before)]
    after = [Point(910.0 + 30 * index, rate) for index, rate in enumerate((7.7, 7.08, 7.75, 7.72))]
    assert rise_within([*known, *after], 284.5) == 0


def test_a_rise_that_has_two_levels_as_well_is_taken_for_a_step() -> None:
    """The sums of squares of the best line and of the best step, by hand."""
    rates = [10, 10, 10, 10, 11, 11, 13, 13, 14, 14, 14, 14]
    found = [Point(1e9 + 30.0 * index, float(rate)) for index, rate in enumerate(rates)]
    assert rise_within(found, 300) == 0
    line = [Point(each.at, 10 + 4 * index / 11 + (0.2 if index % 2 else -0.2)) for index, each in enumerate(found)]
    assert rise_within(line, 300) == pytest.approx(3.7, abs=0.2)


@every_case("count", [12, 16, 20])
@every_case("errors", [0.5, 0.98, 3.0])
def test_a_rise_counts_from_the_standard_errors_that_make_it_significant(count: int, errors: float) -> None:
    """The slope over its standard error is r sqrt((n - 2) / (1 - r^2)), with the correlation r (Student's t)."""
    scrapes = [(30.0 * index, (1.0, -1.0, -1.0, 1.0)[index % 4]) for index in range(count)]
    slope = 0.01
    noise = slope * math.sqrt(sum((at - 15.0 * (count - 1)) ** 2 for at, _ in scrapes) * (count - 2) / count)
    rates = [5 + slope * at + noise / (SIGNIFICANT * errors) * chance for at, chance in scrapes]
    r = correlation([at for at, _ in scrapes], rates)
    t = r * math.sqrt((count - 2) / (1 - r * r))
    assert t == pytest.approx(SIGNIFICANT * errors)
    found = [Point(1e9 + at, rate) for (at, _), rate in zip(scrapes, rates, strict=True)]
    assert rise_within(found, 300) == pytest.approx(3.0 if errors > 1 else 0.0)


def test_a_fall_and_a_flat_line_are_no_rise() -> None:
    assert rise_within(points(lambda at: 50 - at / 100), 300) == 0
    assert rise_within(points(lambda _: 5), 300) == 0


def test_a_wave_at_its_top_is_no_rise() -> None:
    assert rise_within(points(lambda at: 50 + 10 * math.sin(math.pi * at / 600)), 300) == 0


def test_too_few_points_or_too_short_a_time_say_nothing() -> None:
    def rising(at: float) -> float:
        return 5 + at / 10

    assert rise_within([], 300) == 0
    assert rise_within(points(rising, LEAST_SECONDS - 15), 300) == 0
    assert rise_within(points(rising, 300.0), 300) == pytest.approx(30.0), "the shortest time that says something"
    few = points(rising, 600, every=600 / (FEWEST_POINTS - 2))
    assert len(few) == FEWEST_POINTS - 1
    assert rise_within(few, 300) == 0


def test_points_of_one_moment_are_no_rise() -> None:
    same = [Point(1e9, float(index)) for index in range(20)]
    late = Point(1e9 + 400, 30.0)
    assert rise_within(same, 300) == 0
    assert rise_within([*same, late], 300) == 0
