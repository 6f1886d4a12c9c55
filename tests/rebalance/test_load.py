from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from plimsoll.rebalance.load import summarize
from plimsoll.rebalance.pod_window import counter_increase
from plimsoll.rebalance.policy import RebalancePolicy
from plimsoll.rebalance.signals import EngineSample, LoadSummary, PodSignals, SignalState

NOW = 1_700_000_000.0
POLICY = RebalancePolicy(max_replicas=4, window_seconds=300)
SAMPLE = EngineSample(NOW, kv_usage=0.5, waiting=0, running=5, preemptions_total=7, kv_capacity_tokens=1000)


def steady(pod: str = "a", *, sample: EngineSample = SAMPLE, ages: range = range(0, 300, 15)) -> PodSignals:
    return PodSignals(pod, tuple(replace(sample, at=NOW - age) for age in ages))


def waving(pod: str, usage: Callable[[int], float], *, ages: range = range(0, 300, 15)) -> PodSignals:
    return PodSignals(pod, tuple(replace(SAMPLE, at=NOW - age, kv_usage=usage(age)) for age in ages))


def summed(*pods: PodSignals, expected: tuple[str, ...] = ("a",)) -> LoadSummary:
    return summarize(pods, expected, NOW, POLICY, request_tokens=40)


def test_a_whole_window_is_fresh_and_says_how_old_it_is() -> None:
    load = summed(steady(ages=range(5, 300, 15)))

    assert load.state is SignalState.FRESH
    assert load.oldest_age_seconds == 5
    assert (load.used_tokens, load.held_tokens, load.sustained_percent, load.preemptions) == (500, 1000, 50, 0)


def test_waiting_requests_need_what_the_running_ones_hold_on_average() -> None:
    assert summed(steady(sample=replace(SAMPLE, waiting=2))).demanded_tokens == 500 + 2 * 100


@pytest.mark.parametrize(("running", "usage"), [(0, 0.5), (None, 0.5), (5, 0.0)])
def test_without_a_mean_a_waiting_request_needs_what_is_declared(running: float | None, usage: float) -> None:
    load = summed(steady(sample=replace(SAMPLE, waiting=2, running=running, kv_usage=usage)))

    assert load.demanded_tokens == int(usage * 1000) + 2 * 40


def test_sustained_is_the_lowest_sum_and_peak_the_highest() -> None:
    wave = waving("a", lambda age: {150: 0.2, 30: 0.9}.get(age, 0.5))
    load = summed(wave, steady("b"), expected=("a", "b"))

    assert (load.demanded_sustained_tokens, load.demanded_tokens, load.demanded_peak_tokens) == (700, 1000, 1400)


def test_pods_scraped_at_different_moments_are_added_at_their_latest_sample() -> None:
    high_then_low = waving("a", lambda age: 0.9 if age > 150 else 0.1)
    low_then_high = waving("b", lambda age: 0.1 if age > 150 else 0.9, ages=range(7, 300, 15))

    load = summed(high_then_low, low_then_high, expected=("a", "b"))

    assert load.demanded_peak_tokens == 1000
    assert load.demanded_sustained_tokens == 200, "between the two scrapes that saw the swap"


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        (steady(ages=range(0)), SignalState.MISSING),
        (steady(ages=range(61, 300, 15)), SignalState.STALE),
        (steady(ages=range(400, 600, 15)), SignalState.STALE),
        (steady(ages=range(0, 200, 15)), SignalState.COLD),
        (steady(ages=range(0, 300, 75)), SignalState.COLD),
        (steady(sample=replace(SAMPLE, kv_usage=None)), SignalState.MISSING),
        (steady(sample=replace(SAMPLE, waiting=None)), SignalState.MISSING),
        (steady(sample=replace(SAMPLE, kv_capacity_tokens=None)), SignalState.MISSING),
        (steady(sample=replace(SAMPLE, kv_capacity_tokens=0)), SignalState.INVALID),
        (steady(sample=replace(SAMPLE, kv_usage=math.nan)), SignalState.INVALID),
        (steady(sample=replace(SAMPLE, kv_usage=1.0001)), SignalState.INVALID),
        (steady(sample=replace(SAMPLE, waiting=-1)), SignalState.INVALID),
        (steady(sample=replace(SAMPLE, waiting=math.inf)), SignalState.INVALID),
        (steady(sample=replace(SAMPLE, preemptions_total=math.nan)), SignalState.INVALID),
        (steady(sample=replace(SAMPLE, running=1e300)), SignalState.INVALID),
        (steady(ages=range(-60, 300, 15)), SignalState.INVALID),
        (steady(ages=range(-5, 300, 15)), SignalState.FRESH),
    ],
)
def test_every_kind_of_not_a_number_has_its_name(pod: PodSignals, state: SignalState) -> None:
    load = summed(pod)

    assert load.state is state
    assert load.pods[0].state is state
    assert state is SignalState.FRESH or load.held_tokens == 0


def test_an_outage_is_told_from_pods_without_series() -> None:
    load = summarize([], ["a"], NOW, POLICY, request_tokens=40, available=False)

    assert load.state is SignalState.UNAVAILABLE
    assert load.pods[0].state is SignalState.UNAVAILABLE


def test_the_worst_pod_names_the_state_and_the_fresh_ones_make_the_figures() -> None:
    load = summed(steady("a"), steady("b", ages=range(90, 300, 15)), expected=("a", "b", "c"))

    assert load.state is SignalState.MISSING
    assert load.worst_pod is not None
    assert load.worst_pod.pod == "c"
    assert load.fresh_pods == 1
    assert load.held_tokens == 1000
    assert load.oldest_age_seconds == 90


def test_samples_of_an_earlier_pod_of_the_same_name_do_not_count() -> None:
    load = summarize([steady()], ["a"], NOW, POLICY, request_tokens=40, ready_since={"a": NOW - 100})

    assert load.state is SignalState.COLD


def test_pods_nobody_expects_are_left_out() -> None:
    assert summed(steady("a"), steady("gone")).held_tokens == 1000


def test_a_young_pod_already_tells_its_capacity() -> None:
    assert summed(steady(ages=range(0, 30, 15))).smallest_capacity_tokens == 1000


@pytest.mark.parametrize(
    ("values", "increase"),
    [
        ([], None),
        ([None, 5, None], None),
        ([5, 5], 0),
        ([5, 8, 9], 4),
        ([5, 8, 1, 3], 6),
        ([9, None, 2], 2),
    ],
)
def test_counters_are_read_across_resets(values: list[float | None], increase: float | None) -> None:
    assert counter_increase(values) == increase


def test_throughput_is_the_counters_growth_over_the_time_it_took() -> None:
    samples = tuple(
        replace(SAMPLE, at=NOW - age, prompt_tokens_total=10_000 - 2 * age, generation_tokens_total=5_000 - age)
        for age in range(0, 300, 15)
    )

    load = summed(PodSignals("a", samples))

    assert load.prompt_tokens_per_second == pytest.approx(2.0)
    assert load.generation_tokens_per_second == pytest.approx(1.0)
    assert summed(steady()).prompt_tokens_per_second is None
