"""The true speed of a run: near the performance model, another for each seed, and the same for all policies."""

from __future__ import annotations

from dataclasses import replace
from math import log
from statistics import fmean, pstdev

import pytest

from benchmarks.rebalance.running import speed_factor
from benchmarks.rebalance.scenarios.known import situations
from benchmarks.rebalance.step_seconds import times_of
from benchmarks.rebalance.values import SPEED_ERROR, Scenario
from plimsoll.simulation.values import Arrival
from tests.support.simulated import SPEC, Scripted, outcome, scenario

LONE = replace(scenario(Arrival(100.0, 1000, 500)), speed_error=SPEED_ERROR)


def tpot(asked: Scenario, seed: int) -> float:
    (answered,) = outcome(asked, Scripted(), seed).answered
    return answered.tpot_seconds or 0.0


def test_factors_are_log_normal_around_the_model() -> None:
    logs = [log(speed_factor(LONE, seed)) for seed in range(4000)]
    assert fmean(logs) == pytest.approx(0, abs=0.01)
    assert pstdev(logs) == pytest.approx(SPEED_ERROR, rel=0.05)


def test_without_an_error_the_speed_is_the_models() -> None:
    assert {speed_factor(replace(LONE, speed_error=0.0), seed) for seed in range(5)} == {1.0}


def test_scenarios_of_the_same_seed_have_speeds_of_their_own() -> None:
    found = {speed_factor(each.scenario, 1) for each in situations().values()}
    assert len(found) == len(situations())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_step_of_a_run_takes_so_many_times_as_long(seed: int) -> None:
    factor = speed_factor(LONE, seed)
    assert tpot(LONE, seed) == pytest.approx(factor * tpot(replace(LONE, speed_error=0.0), seed))
    assert abs(factor - 1) > 0.001


def test_what_a_policy_does_does_not_change_the_speed() -> None:
    idle, other = Scripted(), Scripted({10.0: 3})
    lone, two = (outcome(LONE, policy, 4).answered[0] for policy in (idle, other))
    assert lone.tpot_seconds == pytest.approx(two.tpot_seconds)


def test_prompts_and_their_attention_take_so_many_times_as_long() -> None:
    usual = times_of(SPEC)
    slow = usual.times(1.5)
    assert slow.step(8, 1000, 500) == pytest.approx(1.5 * usual.step(8, 1000, 500))
    assert slow.attention(100, 4000) == pytest.approx(1.5 * usual.attention(100, 4000))
    assert slow.request_seconds == usual.request_seconds
    assert usual.step(8, 1000, 500) == times_of(SPEC).step(8, 1000, 500)
