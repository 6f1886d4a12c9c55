"""The prompts that replicas keep, the routers that find them, and the share of a published trace that is found."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.cli.commands.simulate import Simulated, simulation_run_of
from plimsoll.cli.plans.replays import of_trace
from plimsoll.cli.reading.traces import read_trace
from plimsoll.simulation.prefix_cache import PrefixCache, seen_share
from plimsoll.simulation.replay import Replay, routed, served
from plimsoll.simulation.routing import Router
from plimsoll.simulation.run import SimulationRun
from plimsoll.simulation.values import HASH_BLOCK_TOKENS, Arrival, Prefix, Routing
from tests.benchmarks.test_simulated_cluster import replicas

TRACE = Path(__file__).parent / "data" / "mooncake-synthetic.jsonl.gz"
"""FAST25-release/traces/synthetic_trace.jsonl of github.com/kvcache-ai/Mooncake at 3b5a594 (Apache-2.0), packed."""

MILLION = 1_000_000
EVERYTHING = 10**12
KEPT = (100_000, 300_000, MILLION, 3 * MILLION, 10 * MILLION, EVERYTHING)

FOUND = {
    (1, Routing.ROUND_ROBIN): (1, 5, 14, 32, 58, 65),
    (4, Routing.ROUND_ROBIN): (2, 5, 11, 26, 37, 37),
    (4, Routing.PREFIX): (6, 16, 37, 61, 65, 65),
}
"""Per cent of the tokens of all prompts, by what a replica keeps. Counted apart from this project, request by request
over caches of 512-token blocks that give up the least recently used, without any time."""


def prefix_of(*blocks: int) -> Prefix:
    return Arrival(0.0, 1, 1, blocks=blocks).prefix


@cache
def big() -> SimulationRun:
    asked = Simulated("meta-llama/Llama-3.1-8B-Instruct", "h100-sxm-80gb", tp=4, context_length=131_072, concurrency=8)
    return simulation_run_of(asked)


@cache
def slow_trace() -> tuple[Arrival, ...]:
    """The trace, twenty times as slow: one replica has time for each request."""
    return tuple(replace(each, at=20 * each.at) for each in read_trace(TRACE))


@pytest.mark.parametrize(("replicas", "routing"), FOUND, ids=str)
@pytest.mark.parametrize("kept", KEPT)
def test_a_published_trace_finds_what_was_counted_apart(replicas: int, routing: Routing, kept: int) -> None:
    arrivals = slow_trace()
    run, seconds = big(), arrivals[-1].at + 1
    replay = Replay(
        run.kind, arrivals, seconds, run.policy, patience_seconds=seconds, routing=routing, kept_tokens=kept
    )
    found = served(replay, replicas)
    assert found.requests == len(arrivals)
    assert found.found == pytest.approx(FOUND[replicas, routing][KEPT.index(kept)], abs=1)


def test_a_router_and_a_host_tier_multiply_and_save_a_replica() -> None:
    """The trace as fast as it was."""
    run = replace(big(), replicas=4)
    few, many = (of_trace(str(TRACE), run, host).replay for host in (None, 10 * MILLION))
    assert (few.kept_tokens, many.kept_tokens) == (run.kind.limits.kv_tokens, 10 * MILLION)
    ways = (Routing.ROUND_ROBIN, Routing.PREFIX)
    even, near = routed(few, ways)
    tiered, both = (served(replace(many, routing=each), 4).found for each in ways)
    assert even.asked.found < tiered < both
    assert even.asked.found < near.asked.found < both
    assert both > 2.5 * even.asked.found
    times = [each.asked.ttft_p50_seconds or 0.0 for each in (even, near)]
    assert 0 < times[1] < 0.5 * times[0]
    assert even.fewest is not None
    assert near.fewest is not None
    assert near.fewest < even.fewest


def test_the_least_recently_used_goes_first_and_the_end_of_a_prompt_before_its_beginning() -> None:
    cache_of_four = PrefixCache(4 * HASH_BLOCK_TOKENS)
    cache_of_four.keep(prefix_of(1, 2, 3))
    assert cache_of_four.found(prefix_of(1, 2, 9, 3)) == 2 * HASH_BLOCK_TOKENS, (
        "a block counts behind its own beginning"
    )
    cache_of_four.keep(prefix_of(7, 8))
    assert cache_of_four.found(prefix_of(1, 2, 3)) == 2 * HASH_BLOCK_TOKENS
    cache_of_four.keep(prefix_of(1))
    cache_of_four.keep(prefix_of(5, 6))
    assert [cache_of_four.found(prefix_of(each)) for each in (1, 2, 7, 8)] == [512, 0, 512, 0]


@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True), max_size=40), st.integers(0, 20))
def test_it_keeps_what_is_newest_and_no_more_than_it_may(prompts: list[list[int]], most: int) -> None:
    kept = PrefixCache(most * HASH_BLOCK_TOKENS)
    for blocks in prompts:
        kept.keep(prefix_of(*blocks))
        assert kept.found(prefix_of(*blocks)) == min(len(blocks), most) * HASH_BLOCK_TOKENS
        assert sum(kept.found(prefix_of(each)) for each in range(31)) <= most * HASH_BLOCK_TOKENS


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)), max_size=12
    ),
    st.integers(0, 20),
)
def test_what_came_before_is_counted_block_by_block_from_the_beginning(
    came: list[tuple[int, list[int]]], within: int
) -> None:
    """Compared with a search through all earlier prompts."""
    arrivals, at = [], 0
    for gap, blocks in came:
        at += gap
        arrivals.append(Arrival(float(at), HASH_BLOCK_TOKENS * len(blocks), 1, blocks=tuple(blocks)))
    seen = 0
    for index, arrival in enumerate(arrivals):
        before = {block for each in arrivals[:index] if arrival.at - each.at <= within for block in each.blocks}
        known = [block in before for block in arrival.blocks]
        seen += known.index(False) if False in known else len(known)
    total = sum(len(each.blocks) for each in arrivals)
    assert seen_share(arrivals, within) == pytest.approx(seen / max(1, total))


def test_a_published_trace_comes_again_within_half_an_hour() -> None:
    """65 % of the tokens of all prompts, as much as a cache without an end finds: the whole trace takes 17 minutes."""
    arrivals = read_trace(TRACE)
    assert 100 * seen_share(arrivals, 1800) == pytest.approx(65, abs=1)
    assert seen_share(arrivals, 10) < 0.5 * seen_share(arrivals, 1800)


def test_a_request_goes_to_the_longest_known_prefix_and_of_equals_to_the_least_loaded() -> None:
    router, ready = Router(Routing.PREFIX, Random(1)), replicas([2, 0, 1])  # noqa: S311 - a simulation

    def sent(*blocks: int) -> int:
        return router.choose(ready, Arrival(0.0, 2000, 1, blocks=blocks)).number

    assert sent(1, 2) == 1, "nobody knows it"
    ready[1].engine.load = 5
    assert sent(1, 2, 3) == 1, "its load does not matter"
    assert sent(1, 9) == 1
    assert sent(8) == 2
    ready[2].engine.load = 9
    assert sent(1, 8) == 1
    del ready[1]
    assert sent(1, 2, 3) == 0, "who knew it is gone"
