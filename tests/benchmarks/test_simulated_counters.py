"""The counters of a simulated engine that vLLM exports as histograms: gaps of tokens, queues, and the prefix cache."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest

from benchmarks.rebalance.step_seconds import times_of
from plimsoll.simulation.batch import BLOCK_TOKENS
from plimsoll.simulation.engine import SimulatedEngine
from plimsoll.simulation.peers.signals import is_possible
from plimsoll.simulation.values import Arrival, Sample, SimulatedRequest
from tests.benchmarks.rebalance_views import sample
from tests.support.simulated import SPEC, engine, serve
from tests.support.tables import every_case

CROWD = [Arrival(0.0, 50 * each, 10 * each) for each in range(1, 30)]


def last(served: SimulatedEngine) -> Sample:
    return served.sample(1e6)


def decoding_seconds(requests: list[SimulatedRequest]) -> float:
    return sum((each.finished_at or 0.0) - (each.first_token_at or 0.0) for each in requests)


@pytest.mark.parametrize("kv_tokens", [400_000, 2000], ids=["with room", "with preemptions"])
def test_gaps_of_tokens_are_the_times_of_all_later_tokens(kv_tokens: int) -> None:
    served = engine(kv_tokens=kv_tokens)
    requests = serve(served, *CROWD)
    found = last(served)
    assert (found.preemptions_total > 0) is (kv_tokens == 2000)
    assert found.token_gaps_total == sum(each.output_tokens - 1 for each in CROWD)
    assert found.token_gap_seconds_total == pytest.approx(decoding_seconds(requests))


def test_gaps_of_tokens_grow_with_the_steps_that_have_ended() -> None:
    served = engine()
    served.add(SimulatedRequest(Arrival(0.0, 160, 100)), 0.0)
    served.begin(0.0)
    assert served.plan is not None
    begin = served.plan.ends_at
    assert served.sample(begin).token_gaps_total == 0
    served.end()
    served.begin(begin)
    step = served.plan.step_seconds
    found = served.sample(begin + 20.5 * step)
    assert (found.token_gaps_total, found.generation_tokens_total) == (20, 21)
    assert found.token_gap_seconds_total == pytest.approx(20 * step)


@pytest.mark.parametrize("seqs", [1, 2], ids=["one after another", "together"])
def test_the_time_in_the_queue_counts_when_a_request_is_done(seqs: int) -> None:
    served = engine(max_num_seqs=seqs)
    first, _ = serve(served, Arrival(0.0, 100, 50), Arrival(0.0, 100, 50))
    found = last(served)
    assert found.dequeued_total == found.finished_total == 2
    waited = (first.finished_at or 0.0) - times_of(SPEC).request_seconds if seqs == 1 else 0.0
    assert found.queue_seconds_total == pytest.approx(waited)


def test_a_request_that_still_waits_has_no_time_in_the_queue_yet() -> None:
    served = engine(max_num_seqs=1)
    for _ in range(2):
        served.add(SimulatedRequest(Arrival(0.0, 100, 500)), 0.0)
    served.begin(0.0)
    found = served.sample(0.0)
    assert (found.waiting, found.queue_seconds_total, found.dequeued_total) == (1, 0, 0)


def test_the_prefix_cache_is_asked_once_for_each_prompt() -> None:
    served = engine()
    serve(served, Arrival(0.0, 4000, 1, 3200))
    cold = last(served)
    assert (cold.prefix_queried_tokens_total, cold.prefix_hit_tokens_total) == (4000, 0)
    serve(served, Arrival(0.0, 4000, 1, 3200), Arrival(0.0, 100, 1))
    warm = last(served)
    assert (warm.prefix_queried_tokens_total, warm.prefix_hit_tokens_total) == (8100, 3200)


def test_a_preempted_request_does_not_ask_the_prefix_cache_again() -> None:
    served = engine(kv_tokens=33 * BLOCK_TOKENS)
    serve(served, Arrival(0.0, 160, 100), Arrival(0.0, 160, 100))
    assert last(served).preemptions_total == 1
    assert last(served).prefix_queried_tokens_total == 320


@every_case("name", [each.name for each in fields(Sample) if each.name != "at"])
def test_a_sample_with_one_figure_that_is_no_number_is_impossible(name: str) -> None:
    honest = sample(60)
    assert is_possible(honest)
    assert not is_possible(replace(honest, **{name: math.nan}))
    assert not is_possible(replace(honest, **{name: math.inf}))
