"""Requests that are larger than an engine are cut to what it holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.rebalance.fitting import fitting, room_of
from benchmarks.rebalance.values import EngineSpec
from plimsoll.simulation.values import Arrival, Fate
from tests.support.simulated import SPEC, Scripted, outcome, scenario

NARROW = replace(SPEC, context_tokens=1000)


@pytest.mark.parametrize(
    ("prompt", "output", "cut"),
    [(600, 400, (600, 400)), (600, 401, (600, 400)), (999, 50, (999, 1)), (5000, 50, (999, 1))],
    ids=["fits", "long answer", "full prompt", "long prompt"],
)
def test_the_answer_is_cut_first_and_then_the_prompt(prompt: int, output: int, cut: tuple[int, int]) -> None:
    found = fitting(Arrival(3.0, prompt, output, prompt - 1), NARROW)
    assert (found.at, found.prompt_tokens, found.output_tokens) == (3.0, *cut)
    assert found.cached_tokens == cut[0] - 1


def test_a_request_that_fits_is_left_as_it_is() -> None:
    arrival = Arrival(3.0, 600, 400, 100)
    assert fitting(arrival, NARROW) is arrival


def test_the_smaller_of_context_and_cache_counts() -> None:
    assert room_of(NARROW) == 1000
    assert room_of(replace(NARROW, kv_tokens=1000)) == 992, "62 whole blocks"
    assert room_of(replace(NARROW, context_tokens=1024, kv_tokens=1024)) == 1024


@pytest.mark.parametrize("engine", [NARROW, replace(SPEC, kv_tokens=1000)], ids=["context", "cache"])
def test_a_run_serves_a_request_that_is_too_large(engine: EngineSpec) -> None:
    asked = replace(scenario(Arrival(10.0, 5000, 50), Arrival(20.0, 200, 50)), engine=engine)
    large, small = outcome(asked, Scripted()).answered
    assert (large.fate, small.fate) == (Fate.SERVED, Fate.SERVED)
    assert large.arrival.prompt_tokens + large.arrival.output_tokens == room_of(asked.engine)
    assert small.arrival == Arrival(20.0, 200, 50)
