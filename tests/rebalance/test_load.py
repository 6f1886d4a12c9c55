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


def test_without_a_fresh_pod_every_figure_is_zero_or_unknown() -> None:
    load = summed(steady(ages=range(0, 200, 15)))

    assert load.state is SignalState.COLD
    assert (load.used_tokens, load.demanded_tokens, load.held_tokens, load.largest_capacity_tokens) == (0, 0, 0, 0)
    assert (load.demanded_sustained_tokens, load.demanded_peak_tokens) == (0, 0)
    assert (load.waiting_sustained, load.waiting_peak) == (0, 0)
    assert (load.preemptions, load.prompt_tokens_per_second, load.generation_tokens_per_second) == (None, None, None)


def test_pods_add_up_and_the_extremes_of_their_capacities_are_kept() -> None:
    large = steady("b", sample=replace(SAMPLE, kv_capacity_tokens=3000, waiting=2, preemptions_total=9))
    load = summed(steady("a"), large, expected=("a", "b"))

    assert (load.held_tokens, load.smallest_capacity_tokens, load.largest_capacity_tokens) == (4000, 1000, 3000)
    assert (load.used_tokens, load.demanded_tokens) == (2000, 2000 + 2 * 300)
    assert (load.waiting_sustained, load.waiting_peak, load.fresh_pods) == (2, 2, 2)
    assert (load.state, load.window_seconds) == (SignalState.FRESH, 300)


def test_the_sum_begins_when_every_pod_has_a_sample() -> None:
    early = waving("a", lambda age: 0.9 if age > 285 else 0.3, ages=range(0, 301, 15))
    late = steady("b", ages=range(0, 286, 15))
    load = summed(early, late, expected=("a", "b"))

    assert load.state is SignalState.FRESH
    assert (load.demanded_sustained_tokens, load.demanded_peak_tokens) == (800, 800)


def test_the_first_moment_with_every_pod_counts() -> None:
    first_is_highest = waving("a", lambda age: 0.9 if age == 285 else 0.3, ages=range(0, 286, 15))
    load = summed(first_is_highest, steady("b"), expected=("a", "b"))

    assert (load.demanded_sustained_tokens, load.demanded_peak_tokens) == (800, 1400)
    assert (load.used_tokens, load.demanded_tokens) == (800, 800), "those of the latest moment"


def test_a_sample_that_was_read_twice_counts_once() -> None:
    once = steady("a")
    assert summed(PodSignals("a", (*once.samples, *once.samples))) == summed(once)


def test_of_two_readings_of_one_moment_the_last_one_counts() -> None:
    corrected = waving("a", lambda _: 0.7)
    load = summed(PodSignals("a", (*steady("a").samples, *corrected.samples)))
    assert (load.used_tokens, load.demanded_sustained_tokens, load.demanded_peak_tokens) == (700, 700, 700)


def test_a_sum_of_rates_is_unknown_where_one_pod_reports_none() -> None:
    counting = tuple(
        replace(SAMPLE, at=NOW - age, prompt_tokens_total=10_000 - 2 * age, generation_tokens_total=5_000 - age)
        for age in range(0, 300, 15)
    )
    both = summed(PodSignals("a", counting), PodSignals("b", counting), expected=("a", "b"))
    assert both.prompt_tokens_per_second == pytest.approx(4.0)
    assert both.generation_tokens_per_second == pytest.approx(2.0)
    one = summed(PodSignals("a", counting), steady("b"), expected=("a", "b"))
    assert (one.prompt_tokens_per_second, one.generation_tokens_per_second) == (None, None)


def test_a_pod_counts_from_the_moment_since_when_it_serves() -> None:
    served = summarize([steady()], ["a"], NOW, POLICY, request_tokens=40, ready_since={"a": NOW - 285})
    assert served.state is SignalState.FRESH
    later = summarize([steady()], ["a"], NOW, POLICY, request_tokens=40, ready_since={"a": NOW - 200})
    assert later.state is SignalState.COLD
