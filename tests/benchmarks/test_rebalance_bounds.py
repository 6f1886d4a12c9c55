"""The bound of a goal: what a law misses that knows the demand, from runs made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.rebalance.arrivals import Stream, drawn
from benchmarks.rebalance.bounds import Informed, bound_of
from benchmarks.rebalance.demand import steps
from benchmarks.rebalance.runs import Task, scored_with
from benchmarks.rebalance.scenarios.known import situations
from benchmarks.rebalance.scenarios.situation import Goal
from benchmarks.rebalance.scenarios.tuning import USUAL
from benchmarks.rebalance.values import Maker, Outcome, Scenario
from plimsoll.simulation.peers.static import static_start
from plimsoll.simulation.peers.view import View
from plimsoll.simulation.values import AnsweredRequest, Arrival, Fate

BASE = situations()["NOHELP"]
CARRIED = 4.1
"""Requests a second of the usual lengths that a replica of the scenario carries: the capacity in the messages of the
live loop in RETRIES, where steps take about as long as the performance model says."""

DEMAND = drawn(Stream(steps(((0, 0.9 * CARRIED), (600, 2.6 * CARRIED), (1200, 0.1)), 1800), USUAL))
SCENARIO = replace(BASE.scenario, arrivals=DEMAND, seconds=1800.0, start_replicas=1, max_replicas=8)


def run(scenario: Scenario, maker: Maker, policy: str, seed: int) -> Outcome:
    assert maker(scenario).tick_seconds == 5.0
    good = AnsweredRequest(Arrival(0.0, 10, 10), Fate.SERVED, 0.1, 0.01)
    return Outcome(scenario, policy, seed, (good,) * 10, (), scenario.seconds)


def view(now: float, free: int | None = None) -> View:
    return View(
        now, wanted=1, pods=(), has_metrics=True, engine=SCENARIO.engine, min_replicas=1, max_replicas=8,
        declared_concurrency=64, ttft_seconds=2.0, tpot_seconds=0.1, free=free,
    )  # fmt: skip


def test_a_law_that_knows_the_demand_orders_what_it_needs_now_and_no_more_than_there_is() -> None:
    law = Informed(DEMAND, slowness=1.0)
    assert [law(view(at)) for at in (0.0, 599.0, 600.0, 1200.0)] == [1, 1, 3, 1]
    assert law(view(600.0, free=2)) == 2
    assert Informed(DEMAND, slowness=1.5)(view(600.0)) > 3, "slower replicas carry less"


@pytest.mark.parametrize(("points", "bound"), [(1.0, ()), (-1.0, ("100.0 %, 0.0 less",))])
def test_a_goal_that_nobody_reaches_is_missed_by_the_one_that_knows_as_well(
    points: float, bound: tuple[str, ...]
) -> None:
    goal = Goal(SCENARIO, "itself", replicas=None, points=points)
    situation = replace(BASE, scenario=SCENARIO, goal=goal)
    assert bound_of(run, situation, 1) == bound
    assert bound_of(run, replace(situation, goal=None), 1) is None
    for wanted in (True, False):
        found = scored_with(run, {"one": static_start}, Task(situation, "one", 1, bounds=wanted))
        assert found.bound == (bound if wanted and found.misses else None)
