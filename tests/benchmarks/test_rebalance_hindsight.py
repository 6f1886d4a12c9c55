"""What can be reached in a scenario: the smallest fleet and an oracle, in runs by hand and a simulated one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from benchmarks.rebalance.__main__ import main
from benchmarks.rebalance.arrivals import Stream, drawn
from benchmarks.rebalance.demand import steps
from benchmarks.rebalance.hindsight import Oracle, Run, oracle, smallest_fleet
from benchmarks.rebalance.running import run, speed_factor
from benchmarks.rebalance.runs import Task, scored_with
from benchmarks.rebalance.scenarios.known import situations
from benchmarks.rebalance.scenarios.situation import Goal
from benchmarks.rebalance.scenarios.tuning import USUAL
from benchmarks.rebalance.scoring import goodput
from benchmarks.rebalance.values import Maker, Outcome, Scenario
from plimsoll.simulation.peers.static import static_start
from plimsoll.simulation.peers.view import PodView, View
from plimsoll.simulation.values import AnsweredRequest, Arrival, Fate

BASE = situations()["NOHELP"]
CARRIED = 4.1
"""Requests a second of the usual lengths that a replica of the scenario carries: the capacity in the messages of the
live loop in RETRIES, where steps take about as long as the performance model says."""

DEMAND = drawn(Stream(steps(((0, 0.8 * CARRIED), (600, 2.5 * CARRIED), (1200, 0.1)), 1800), USUAL))
SCENARIO = replace(
    BASE.scenario, arrivals=DEMAND, seconds=1800.0, start_replicas=1, max_replicas=8, speed_error=0.0, faults=(),
    cold_start_seconds=100.0, cold_start_spread=(1.0, 1.2),
)  # fmt: skip


def view(now: float, *pods: PodView, free: int | None = None) -> View:
    return View(
        now, wanted=1, pods=pods, has_metrics=True, engine=SCENARIO.engine, min_replicas=1, max_replicas=8,
        declared_concurrency=64, ttft_seconds=2.0, tpot_seconds=0.1, free=free,
    )  # fmt: skip


def test_the_oracle_orders_a_replica_one_start_before_it_is_needed_and_gives_it_back_when_it_is_over() -> None:
    law = Oracle(SCENARIO, seed=1, load=1.0)
    early, in_time, during, over = (law(view(at)) for at in (300.0, 480.0, 900.0, 1290.0))
    assert early in (1, 2)
    assert in_time >= 3, "a start takes 120 s at most, and the rise comes at 600 s"
    assert during >= 3
    assert over == 1


def test_the_oracle_takes_fewer_replicas_if_each_may_carry_more_and_more_if_they_are_slow() -> None:
    usual, more = (Oracle(SCENARIO, 1, load)(view(900.0)) for load in (1.0, 2.0))
    assert more < usual
    slow = next(seed for seed in range(1, 99) if speed_factor(BASE.scenario, seed) > 1.2)
    scenario = replace(SCENARIO, speed_error=BASE.scenario.speed_error, name=BASE.scenario.name)
    assert Oracle(scenario, slow, 1.0)(view(900.0)) > Oracle(SCENARIO, slow, 1.0)(view(900.0))


def test_the_oracle_replaces_what_does_not_start_and_takes_no_gpu_that_is_not_there() -> None:
    stuck, starting = PodView("stuck", 100.0, None), PodView("starting", 890.0, None)
    wanted = Oracle(SCENARIO, 1, 1.0)(view(900.0, starting))
    assert Oracle(SCENARIO, 1, 1.0)(view(900.0, starting, stuck)) == wanted + 1
    assert Oracle(SCENARIO, 1, 1.0)(view(900.0, starting, free=1)) == 2


def made(kept: Mapping[int, int], calls: list[int]) -> Run:
    """Return a simulator in which so many of a hundred requests keep the promises with each number of replicas."""

    def simulated(scenario: Scenario, maker: Maker, policy: str, seed: int) -> Outcome:
        replicas = maker(scenario)(view(0.0))
        assert isinstance(replicas, int)
        assert scenario.start_replicas == replicas, "a fleet is there from the first moment"
        calls.append(replicas)
        fast, slow = (AnsweredRequest(Arrival(0.0, 10, 10), Fate.SERVED, wait, 0.01) for wait in (0.1, 100.0))
        good = kept[replicas]
        answered = (fast,) * good + (slow,) * (100 - good)
        return Outcome(scenario, policy, seed, answered, (), replicas * scenario.seconds)

    return simulated


@pytest.mark.parametrize(
    ("kept", "smallest", "tried"),
    [
        ({1: 20, 2: 98, 3: 99, 4: 100}, 3, [1, 2, 3]),  # 98 of 100 are less than 98.5
        ({1: 100}, 1, [1]),
        ({1: 20, 2: 60, 3: 70, 4: 70}, 3, [1, 2, 3, 4]),  # none has enough: the most, and no replica in vain
    ],
)
def test_the_smallest_fleet_keeps_what_is_asked_for_or_the_most(
    kept: Mapping[int, int], smallest: int, tried: list[int]
) -> None:
    calls: list[int] = []
    scenario = replace(SCENARIO, max_replicas=4)
    found = smallest_fleet(made(kept, calls), scenario, "smallest-fleet", 1)
    assert (found.replica_seconds, calls) == (smallest * 1800.0, tried)


def test_a_neighbour_on_the_same_gpus_counts_as_well() -> None:
    def simulated(scenario: Scenario, _: Maker, policy: str, seed: int) -> Outcome:
        assert scenario.neighbour is not None
        replicas = scenario.start_replicas
        assert scenario.neighbour.start_replicas == replicas
        fast = AnsweredRequest(Arrival(0.0, 10, 10), Fate.SERVED, 0.1, 0.01)
        served = (fast,) * 100
        waits = (AnsweredRequest(fast.arrival, Fate.SERVED, 100.0 if replicas < 2 else 0.1, 0.01),) * 10
        other = Outcome(scenario.neighbour, policy, seed, waits, (), replicas * 10.0)
        return Outcome(scenario, policy, seed, served, (), replicas * 10.0, other)

    alone = replace(SCENARIO, name="alone")
    found = smallest_fleet(simulated, replace(SCENARIO, neighbour=alone), "smallest-fleet", 1)
    assert found.replica_seconds == 20.0, "100 of 110 requests are kept with one replica each"
    short = replace(SCENARIO, neighbour=alone, stock=3)
    assert smallest_fleet(simulated, short, "smallest-fleet", 1).replica_seconds == 10.0, "GPUs for one replica of each"


def test_simulated_the_oracle_keeps_what_the_fleet_keeps_for_fewer_hours() -> None:
    short = drawn(Stream(steps(((0, 0.8 * CARRIED), (240, 2.5 * CARRIED), (480, 0.1)), 720), USUAL))
    scenario = replace(SCENARIO, arrivals=short, seconds=720.0)
    best, fleet = oracle(run, scenario, "oracle", 1), smallest_fleet(run, scenario, "smallest-fleet", 1)
    assert best.replica_seconds < 0.9 * fleet.replica_seconds
    for each in (best, fleet):
        kept = goodput(each.answered, each.scenario)
        assert kept is not None
        assert kept >= 98.5


def test_a_goal_is_judged_against_the_same_search(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[int] = []
    goal = Goal(SCENARIO, "itself", replicas=None, points=-1.0)
    situation = replace(BASE, scenario=SCENARIO, goal=goal)
    simulated = made({1: 20, 2: 99}, calls)
    found = scored_with(simulated, {"one": static_start}, Task(situation, "smallest-fleet", 1))
    assert (found.policy, found.misses, calls) == ("smallest-fleet", ("99.0 %, 0.0 less",), [1, 2, 1, 2])

    assert main(["--list", "--policies", "oracle", "--scenarios", "S1"]) == 0
    with pytest.raises(SystemExit):
        main(["--list", "--policies", "prophet"])
    assert "'prophet' is unknown" in capsys.readouterr().err
