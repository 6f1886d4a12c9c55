"""The situations of the rebalancing benchmark: requests come as declared, and the two sets never mix."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import fmean, pstdev

import pytest

from benchmarks.rebalance.arrivals import MOST_TOKENS, Lengths, Stream, drawn
from benchmarks.rebalance.demand import Demand, Point, constant, noisy, ramps, sine, steps, turns
from benchmarks.rebalance.engines import (
    CONTEXT_TOKENS,
    MOST_KV,
    engine_spec,
    rate_at,
    rate_with_kv,
    sustained_rate,
)
from benchmarks.rebalance.fitting import fitting
from benchmarks.rebalance.scenarios.known import QUICK, quick, situations
from benchmarks.rebalance.scenarios.situation import SETS, Group, Situation
from benchmarks.rebalance.scenarios.tuning import CHEAP_ENGINE, ENGINE
from benchmarks.rebalance.scenarios.validation import EXPERTS, LARGE, OPEN, SMALL
from benchmarks.rebalance.traces import DATA, JITTER_SECONDS, TRACES, Replay, requests_of
from plimsoll.simulation.values import Arrival
from tests.support.tables import every_case

QWEN = engine_spec("Qwen/Qwen3-32B", "h100-sxm-80gb", 2)


def count(moments: list[float], begin: float, end: float) -> int:
    return bisect_left(moments, end) - bisect_left(moments, begin)


def moments_of(demand: Demand, burstiness: float = 1.0) -> list[float]:
    return list(demand.moments(Random(3), burstiness))  # noqa: S311 - a reproducible draw


def variation_of(moments: list[float]) -> float:
    gaps = [right - left for left, right in pairwise(moments)]
    return pstdev(gaps) / fmean(gaps)


def test_poisson_gaps_vary_as_much_as_their_mean() -> None:
    moments = moments_of(constant(5, 4000))
    assert len(moments) == pytest.approx(20_000, rel=0.03)  # four standard deviations
    assert variation_of(moments) == pytest.approx(1, rel=0.03)


@pytest.mark.parametrize("burstiness", [0.25, 4.0])
def test_burstiness_changes_the_gaps_and_not_the_rate(burstiness: float) -> None:
    moments = moments_of(constant(5, 4000), burstiness)
    assert len(moments) == pytest.approx(20_000, rel=0.06)
    assert variation_of(moments) == pytest.approx(burstiness**-0.5, rel=0.05)


def test_a_step_changes_the_rate_at_its_moment() -> None:
    moments = moments_of(steps(((0, 2), (1000, 10)), 2000))
    assert count(moments, 0, 1000) == pytest.approx(2000, rel=0.1)
    assert count(moments, 1000, 2000) == pytest.approx(10_000, rel=0.05)
    assert count(moments, 940, 1000) < count(moments, 1000, 1060) / 2


def test_a_ramp_grows_with_the_square_of_time() -> None:
    moments = moments_of(ramps(((0, 0), (2000, 20))))
    assert len(moments) == pytest.approx(20_000, rel=0.03)
    assert count(moments, 0, 1000) == pytest.approx(5000, rel=0.06)


def test_a_ramp_down_to_nothing_ends() -> None:
    moments = moments_of(ramps(((0, 20), (2000, 0), (3000, 0))))
    assert count(moments, 0, 1000) == pytest.approx(15_000, rel=0.05)
    assert moments[-1] < 2000


def test_a_sine_begins_and_ends_low_and_is_high_between() -> None:
    demand = sine(1, 9, 4000)
    moments = moments_of(demand)
    assert demand.requests() == pytest.approx(20_000, rel=0.001)
    assert len(moments) == pytest.approx(20_000, rel=0.03)
    assert count(moments, 0, 100) / 100 == pytest.approx(1, abs=0.6)
    assert count(moments, 1950, 2050) / 100 == pytest.approx(9, rel=0.15)
    assert sine(1, 9, 4000, periods=2).points[48].rate == pytest.approx(1)


def test_noise_changes_a_demand_from_time_to_time_and_not_its_mean() -> None:
    smooth = sine(2, 8, 40_000)
    noise = noisy(smooth, 0.3, 100)
    rates = [(noise.rate_at(at) / smooth.rate_at(at)) for at in range(0, 40_000, 100)]
    assert 0.7 <= min(rates) < 0.75
    assert 1.25 < max(rates) <= 1.3
    assert noise.requests() == pytest.approx(smooth.requests(), rel=0.03)
    assert noise.rate_at(0) == noise.rate_at(99)
    assert noisy(smooth, 0.3, 100) == noise
    assert noisy(smooth, 0, 100).rate_at(500) == smooth.rate_at(500)


def test_the_expected_number_of_requests_is_the_area() -> None:
    assert steps(((0, 1), (10, 5)), 20).requests() == 60
    assert ramps(((0, 0), (10, 4))).requests() == 20
    assert turns(3, 10, (True, False, True)).requests() == 60


@pytest.mark.parametrize(
    "points", [((0, 1),), ((0, 1), (5, -1)), ((5, 1), (0, 1))], ids=["one point", "negative", "backwards"]
)
def test_what_is_no_demand_is_refused(points: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(ValueError, match="not a demand"):
        Demand(tuple(Point(*point) for point in points))
    assert Demand((Point(0, 1), Point(5, 0))).seconds == 5


def test_lengths_are_log_normal_around_their_means() -> None:
    arrivals = drawn(Stream(constant(20, 1000), Lengths(1000, 200, spread=0.5, cached=0.25)))(1)
    prompts = [each.prompt_tokens for each in arrivals]
    assert fmean(prompts) == pytest.approx(1000, rel=0.02)
    assert pstdev(prompts) == pytest.approx(500, rel=0.06)
    assert sorted(prompts)[len(prompts) // 2] == pytest.approx(1000 / 1.25**0.5, rel=0.02)  # the median is below
    assert fmean(each.output_tokens for each in arrivals) == pytest.approx(200, rel=0.02)
    assert fmean(each.cached_tokens for each in arrivals) == pytest.approx(250, rel=0.03)


def test_lengths_without_spread_are_all_the_same() -> None:
    arrivals = drawn(Stream(constant(5, 100), Lengths(700, 30, spread=0)))(1)
    assert {(each.prompt_tokens, each.output_tokens, each.cached_tokens) for each in arrivals} == {(700, 30, 0)}


def test_kinds_of_requests_take_turns() -> None:
    on = (True, False, True)
    arrivals = drawn(
        Stream(turns(5, 100, on), Lengths(6000, 100, spread=0)),
        Stream(turns(20, 100, [not each for each in on]), Lengths(600, 400, spread=0)),
    )(1)
    kinds = [{each.prompt_tokens for each in arrivals if begin <= each.at < begin + 100} for begin in (0, 100, 200)]
    assert kinds == [{6000}, {600}, {6000}]


def test_streams_are_drawn_apart_and_merged_in_time() -> None:
    stream = Stream(constant(5, 500), Lengths(700, 30))
    twice = drawn(stream, stream)(1)
    assert is_sorted(twice)
    assert len({each.at for each in twice}) == len(twice)
    assert set(drawn(stream)(1)) < set(twice)


def is_sorted(arrivals: tuple[Arrival, ...]) -> bool:
    return all(left.at <= right.at for left, right in pairwise(arrivals))


@pytest.mark.parametrize(
    ("trace", "requests", "seconds"),
    [
        ("azure-conv-2023", 19_366, 3501.72),
        ("azure-code-2023", 8_819, 3435.95),
        ("mooncake-synthetic-2025", 3_983, 1022.02),
    ],
)
def test_a_trace_is_carried_whole_and_sorted(trace: str, requests: int, seconds: float) -> None:
    carried = requests_of(trace)
    assert (len(carried), carried[0].at, carried[-1].at) == (requests, 0, seconds)
    assert is_sorted(carried)
    assert min(min(each.prompt_tokens, each.output_tokens) for each in carried) > 0
    assert all(0 <= each.cached_tokens < each.prompt_tokens for each in carried)
    assert (max(each.cached_tokens for each in carried) > 0) == trace.startswith("mooncake")


def test_a_trace_at_its_own_rate_is_the_trace() -> None:
    assert Replay("azure-code-2023")(1) == requests_of("azure-code-2023")


def test_a_factor_copies_requests_and_keeps_minutes() -> None:
    trace = requests_of("azure-code-2023")
    arrivals = Replay("azure-code-2023", 6)(1)
    assert is_sorted(arrivals)
    assert len(arrivals) == 6 * len(trace)
    assert arrivals[-1].at <= trace[-1].at + JITTER_SECONDS
    for begin in range(0, 3400, 200):
        own = sum(begin <= each.at < begin + 200 for each in trace)
        assert sum(begin <= each.at < begin + 200 for each in arrivals) == pytest.approx(6 * own, rel=0.2, abs=600)


def test_a_part_of_a_factor_copies_a_part_of_the_requests() -> None:
    whole = len(requests_of("azure-conv-2023"))
    assert len(Replay("azure-conv-2023", 1.5)(1)) == pytest.approx(1.5 * whole, rel=0.02)
    assert len(Replay("azure-conv-2023", 0.25)(1)) == pytest.approx(0.25 * whole, rel=0.06)


def test_a_replay_is_cut_to_a_time() -> None:
    arrivals = Replay("azure-conv-2023", 2, 600)(1)
    assert 590 < arrivals[-1].at < 600


def test_a_trace_that_is_not_carried_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"azure-2099 is not carried; there are azure-conv-2023"):
        Replay("azure-2099")(1)


def test_every_trace_is_small_and_named_with_its_licence() -> None:
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in DATA.iterdir()) == sorted(["README.md", *(f"{each}.csv.gz" for each in TRACES)])
    for trace in TRACES:
        row = next(line for line in readme.splitlines() if f"`{trace}.csv.gz`" in line)
        assert f"| {len(requests_of(trace)):,} |" in row
        assert re.search(r"CC-BY 4\.0|Apache-2\.0", row)
        assert (DATA / f"{trace}.csv.gz").stat().st_size < 200 * 1024


def test_a_replica_has_the_operators_own_estimate_and_the_catalogues_price() -> None:
    assert 300_000 < QWEN.kv_tokens < 350_000  # 256 KiB a token in what two cards of 80 GB leave beside 61 GiB
    assert (QWEN.max_num_seqs, QWEN.max_batched_tokens) == (256, 8192)
    assert QWEN.hourly_price == pytest.approx(2 * engine_spec("Qwen/Qwen3-32B", "h100-sxm-80gb", 1).hourly_price)
    assert engine_spec("Qwen/Qwen3-32B", "h100-sxm-80gb", 2, sequences=16).max_num_seqs == 16


def test_a_replica_that_has_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no price or no room"):
        engine_spec("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "l4-24gb", 1)


def test_a_sustained_rate_keeps_the_cache_and_the_promise() -> None:
    assert sustained_rate(QWEN, 4000, 1000) < rate_with_kv(QWEN, 4000, 1000, MOST_KV)
    assert sustained_rate(QWEN, 1000, 4000) == pytest.approx(rate_with_kv(QWEN, 1000, 4000, MOST_KV), rel=0.01)
    assert sustained_rate(QWEN, 1000, 250) < rate_with_kv(QWEN, 1000, 250, MOST_KV)  # the time per token binds
    assert sustained_rate(QWEN, 1000, 250, tpot_seconds=0.05) < sustained_rate(QWEN, 1000, 250)


def test_the_engines_own_limit_binds_a_sustained_rate() -> None:
    few = engine_spec("Qwen/Qwen3-32B", "h100-sxm-80gb", 2, sequences=16)
    assert sustained_rate(few, 4000, 1000) == pytest.approx(rate_at(few, 4000, 1000, 16))
    assert sustained_rate(few, 4000, 1000) < 0.6 * sustained_rate(QWEN, 4000, 1000)


EVERY = every_case("name", situations(), most=3, always=["S1", "V-FAULTS", "MORNING300"])


@every_case("name", ["S1", "S9", "S8", "mooncake", "V-LONG"], most=1, always=["S1"])
def test_a_seed_gives_the_same_requests_again_and_another_seed_others(name: str) -> None:
    first, second = situations()[name].seeds(2)
    draw = situations()[name].scenario.arrivals
    arrivals = draw(first)
    assert arrivals == draw(first)
    assert arrivals != draw(second)


@EVERY
def test_every_situation_is_sound(name: str) -> None:
    situation = situations()[name]
    scenario = situation.scenario
    arrivals = tuple(scenario.arrivals(situation.seeds(1)[0]))
    assert is_sorted(arrivals)
    assert arrivals[0].at >= 0
    assert arrivals[-1].at < scenario.seconds
    assert all(0 <= each.cached_tokens < each.prompt_tokens for each in arrivals)
    assert all(fitting(each, scenario.engine) is each for each in arrivals)
    assert scenario.engine.context_tokens == (131_072 if name == "mooncake" else CONTEXT_TOKENS)
    assert [tokens_around(rise, arrivals) for rise in situation.rises if not rises_at(rise, arrivals)] == []


def rises_at(rise: float, arrivals: tuple[Arrival, ...]) -> bool:
    before, after = tokens_around(rise, arrivals)
    return after > 1.4 * before


def tokens_around(rise: float, arrivals: tuple[Arrival, ...]) -> tuple[int, int]:
    """The tokens that arrive in the five minutes before a moment, and after it."""
    moments = [each.at for each in arrivals]
    begin, middle, end = (bisect_left(moments, rise + offset) for offset in (-300, 0, 300))
    before, after = arrivals[begin:middle], arrivals[middle:end]
    return tokens_of(before), tokens_of(after)


def tokens_of(arrivals: tuple[Arrival, ...]) -> int:
    return sum(each.prompt_tokens + each.output_tokens for each in arrivals)


def test_even_demand_has_no_rise() -> None:
    even = drawn(Stream(constant(5, 2000), Lengths(1000, 200)))(1)
    assert not any(rises_at(moment, even) for moment in (400, 1000, 1600))


@EVERY
def test_every_situation_is_declared_in_order(name: str) -> None:
    situation = situations()[name]
    scenario = situation.scenario
    assert scenario.min_replicas <= scenario.start_replicas <= scenario.max_replicas
    assert all(0 <= fault.begins_at < scenario.seconds for fault in scenario.faults)
    assert "\n" not in situation.tests
    assert len(situation.tests) > 20


def test_the_two_sets_share_no_seed_and_no_load() -> None:
    groups = {group: [each for each in situations().values() if each.group is group] for group in SETS}
    tuned, judged = groups[Group.TUNING], groups[Group.VALIDATION]
    assert sum(len(own) for own in groups.values()) == len(situations())
    assert len({seed for own in groups.values() for seed in seeds_of(own)}) == 1000 * len(SETS)
    assert {each.scenario.engine.model for each in tuned} == {"Qwen/Qwen3-32B"}
    replayed = {each.name for each in judged if isinstance(each.scenario.arrivals, Replay)}
    assert replayed == {"azure-conv", "azure-code", "mooncake"}
    assert {each.scenario.engine for each in judged if each.name not in replayed} == {SMALL, LARGE, EXPERTS, OPEN}
    assert {(each.scenario.engine.model, each.scenario.engine.gpu_type) for each in tuned} == {
        (engine.model, engine.gpu_type) for engine in (ENGINE, CHEAP_ENGINE)
    }


def test_every_fault_has_a_goal_and_is_compared_with_a_run_without_it() -> None:
    found = [each for each in situations().values() if each.group is Group.FAULTS]
    assert [each.name for each in found if each.goal is None] == []
    assert {
        each.name: each.goal for each in situations().values() if each.group is not Group.FAULTS and each.goal
    } == {}
    for each in found:
        assert each.goal is not None
        assert each.goal.than.name == each.name  # the same name has the same speed
        assert each.goal.flips == 1
        assert each.goal.by_fleet or replace(each.goal.than, name="") != replace(each.scenario, name="")
    said = str(next(each.goal for each in found if each.name == "SILENTPOD"))
    assert said == "at most 1 more, 1 points less, 1.3 x the GPU-hours, 1 flip than if it has metrics"


def seeds_of(own: list[Situation]) -> set[int]:
    return {seed for each in own for seed in each.seeds(1000)}


def test_a_quick_look_is_the_beginning_of_situations_of_both_sets() -> None:
    assert {each.group for each in quick()} == {Group.TUNING, Group.VALIDATION}
    assert {each.name for each in quick()}.isdisjoint(situations())
    for short, (name, seconds) in zip(quick(), QUICK.items(), strict=True):
        whole = situations()[name]
        assert short.scenario.seconds == seconds < whole.scenario.seconds
        assert short.rises == tuple(each for each in whole.rises if each < seconds)
        assert short.scenario.arrivals is whole.scenario.arrivals


def test_the_five_replica_step_needs_seven_and_the_steady_pair_fills_its_cache() -> None:
    step = situations()["B5"].scenario.arrivals(1)
    one = sustained_rate(QWEN, 2000, 500)
    assert sum(each.at < 600 for each in step) / 600 / one == pytest.approx(1.6, rel=0.05)
    assert sum(each.at >= 600 for each in step) / 2100 / one == pytest.approx(6.4, rel=0.05)
    steady = situations()["S5"].scenario
    assert len(steady.arrivals(1)) / steady.seconds == pytest.approx(2 * rate_with_kv(QWEN, 2000, 2000, 0.7), rel=0.03)


def test_lengths_stay_within_the_context() -> None:
    arrivals = drawn(Stream(constant(50, 200), Lengths(15_000, 15_000, spread=1)))(1)
    assert max(each.prompt_tokens for each in arrivals) == MOST_TOKENS
    assert 2 * MOST_TOKENS <= CONTEXT_TOKENS
