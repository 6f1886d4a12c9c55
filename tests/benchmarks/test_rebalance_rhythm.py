"""Days before a run: they are of the same demand, a law sees them with the run's own steps, and only one looks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from benchmarks.rebalance.policies.ours import Ours, ours, ours_today
from benchmarks.rebalance.running import run
from benchmarks.rebalance.scenarios.known import situations
from benchmarks.rebalance.scenarios.rhythm import DAY, DAYS, RUN_SECONDS
from benchmarks.rebalance.scraping import STEP_SECONDS
from benchmarks.rebalance.values import Scenario
from plimsoll.rebalance.signals.forecast import Past, Point, season_of
from plimsoll.simulation.peers.view import View

SEED = 2001


def scenario(name: str) -> Scenario:
    return situations()[name].scenario


def mean_of(points: list[tuple[float, float]], begin: float, end: float) -> float:
    found = [rate for at, rate in points if begin < at <= end]
    return sum(found) / len(found)


def days_of(name: str) -> list[tuple[float, float]]:
    past = scenario(name).past
    assert past is not None
    return list(past(SEED))


def test_the_days_before_have_no_holes_and_end_where_the_run_begins() -> None:
    found = days_of("MORNING600")
    moments = [at for at, _ in found]
    assert moments == sorted(set(moments))
    assert moments[-1] == 0.0
    assert {later - earlier for earlier, later in pairwise(moments)} == {STEP_SECONDS}
    assert moments[0] < -DAYS * DAY
    assert found == days_of("MORNING600")


def test_each_day_before_has_the_morning_of_today() -> None:
    found = days_of("MORNING600")
    today = len(scenario("MORNING600").arrivals(SEED)) / RUN_SECONDS
    for day in range(1, DAYS + 1):
        before = mean_of(found, -day * DAY, RUN_SECONDS - day * DAY)
        assert before == pytest.approx(today, rel=0.25)
        assert before > 1.3 * mean_of(found, -day * DAY - 7200, -day * DAY)


def test_a_holiday_is_quiet_and_a_saturday_has_a_quiet_one_a_week_ago() -> None:
    for name in ("HOLIDAY600", "SATURDAY600"):
        arrivals = scenario(name).arrivals(SEED)
        assert sum(each.at > RUN_SECONDS / 2 for each in arrivals) == pytest.approx(len(arrivals) / 2, rel=0.1)
    quiet, busy = (mean_of(days_of("SATURDAY600"), RUN_SECONDS / 3 - days * DAY, 7000 - days * DAY) for days in (7, 1))
    assert busy > 2 * quiet


def test_a_law_sees_the_days_before_and_what_the_pods_have_begun_since() -> None:
    seen: list[View] = []

    class Watching:
        tick_seconds = 300.0

        def __call__(self, view: View) -> int:
            seen.append(view)
            return view.wanted

    short = replace(scenario("MORNING600"), seconds=1900.0)
    outcome = run(short, lambda _: Watching(), "watching", SEED)
    before = len(days_of("MORNING600"))
    assert [len(view.past) - before for view in seen] == list(range(1, len(seen) + 1))
    own = seen[-1].past[before:]
    assert [at for at, _ in own] == [STEP_SECONDS * (index + 1) for index in range(len(own))]
    served = sum(rate for _, rate in own) * STEP_SECONDS
    assert served == pytest.approx(sum(each.arrival.at < own[-1][0] for each in outcome.answered), rel=0.1)


def test_a_run_without_days_before_shows_none() -> None:
    seen: list[View] = []

    class Watching:
        tick_seconds = 300.0

        def __call__(self, view: View) -> int:
            seen.append(view)
            return view.wanted

    run(replace(situations()["START600"].scenario, seconds=700.0), lambda _: Watching(), "watching", 1)
    assert seen
    assert all(not view.past for view in seen)


def test_both_laws_know_the_start_up_and_only_one_looks_back() -> None:
    laws = ours(scenario("MORNING600")), ours_today(scenario("MORNING600"))
    assert [each.looks_back for each in laws if isinstance(each, Ours)] == [True, False]
    assert {each.standing.memory.startup_seconds for each in laws if isinstance(each, Ours)} == {780.0}
    unknown = ours(situations()["START600"].scenario)
    assert isinstance(unknown, Ours)
    assert unknown.standing.memory.startup_seconds is None


@pytest.mark.parametrize(
    ("name", "days"), [("MORNING600", 7), ("YOUNG600", 2), ("MONDAY600", 5), ("HOLIDAY600", 7), ("SATURDAY600", 2)]
)
def test_before_the_morning_the_days_like_today_are_found(name: str, days: int) -> None:
    past = Past().with_points((Point(*each) for each in days_of(name)), 0.0)
    found = season_of(past, 1500.0, 780.0, 2580.0)
    assert found is not None
    assert found.days == days
