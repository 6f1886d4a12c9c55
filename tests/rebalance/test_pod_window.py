"""One pod's samples at the bounds of what is usable, and the figures that follow from them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from plimsoll.rebalance.pod_window import LARGEST_COUNT, PodWindow, judge_pod
from plimsoll.rebalance.signals import EngineSample, SignalState

NOW = 1_700_000_000.0
SAMPLE = EngineSample(NOW, kv_usage=0.5, waiting=3, running=5, preemptions_total=7, kv_capacity_tokens=1000)


def judged(*samples: EngineSample) -> PodWindow:
    """The window of one pod: 30 s long, with a sample every 15 s."""
    return judge_pod("a", samples, now=NOW, window_seconds=30, max_age_seconds=15, request_tokens=40)


def at(*ages: float, **changes: Any) -> list[EngineSample]:
    """The same sample at these ages, in seconds."""
    return [replace(SAMPLE, at=NOW - age, **changes) for age in ages]


def test_a_sample_of_this_moment_or_of_a_clock_ahead_is_no_second_old() -> None:
    assert judged(*at(29, 15, 0)).age_seconds == 0
    assert judged(*at(29, 14, -1)).age_seconds == 0


def test_a_clock_may_be_five_seconds_ahead_and_no_more() -> None:
    assert judged(*at(25, 10, -5)).state is SignalState.FRESH
    assert judged(*at(25, 9.5, -5.5)).state is SignalState.INVALID


def test_a_sample_without_a_real_time_is_invalid_and_has_no_age() -> None:
    for time in (math.inf, math.nan):
        window = judged(*at(29, 15), replace(SAMPLE, at=time))
        assert (window.state, window.age_seconds) == (SignalState.INVALID, None)


def test_a_hole_may_be_as_long_as_the_age_and_no_longer() -> None:
    assert judged(*at(15, 0)).state is SignalState.FRESH
    assert judged(*at(15.5, 0.5)).state is SignalState.FRESH
    assert judged(*at(14.5, 0)).state is SignalState.COLD


def test_a_sample_as_old_as_the_window_is_outside_of_it() -> None:
    before, *within = at(30, 15, 0)
    assert judged(replace(before, preemptions_total=1), *within).preemptions == 0
    assert judged(replace(before, at=NOW - 29.5, preemptions_total=1), *within).preemptions == 6


def test_the_newest_sample_may_be_as_old_as_the_bound_and_no_older() -> None:
    assert judged(*at(29, 15)).state is SignalState.FRESH
    assert judged(*at(29, 15.5)).state is SignalState.STALE


@pytest.mark.parametrize(("running", "demanded"), [(1, 500 + 3 * 500), (2, 500 + 3 * 250), (0, 500 + 3 * 40)])
def test_a_waiting_request_counts_like_the_mean_of_those_that_run(running: int, demanded: int) -> None:
    assert {point.demanded_tokens for point in judged(*at(29, 15, 1, running=running)).points} == {demanded}


def test_the_largest_exact_capacity_is_plausible_and_a_larger_one_is_not() -> None:
    assert LARGEST_COUNT == 2**53, "a float holds every whole number up to it"
    assert judged(*at(29, 15, 1, kv_capacity_tokens=LARGEST_COUNT)).state is SignalState.FRESH
    assert judged(*at(29, 15, 1, kv_capacity_tokens=LARGEST_COUNT + 1)).state is SignalState.INVALID
    assert judged(*at(29, 15, 1, kv_capacity_tokens=0)).state is SignalState.INVALID


def test_the_largest_exact_count_of_a_metric_is_plausible_and_a_larger_one_is_not() -> None:
    assert judged(*at(29, 15, 1, preemptions_total=LARGEST_COUNT)).state is SignalState.FRESH
    assert judged(*at(29, 15, 1, preemptions_total=LARGEST_COUNT + 2)).state is SignalState.INVALID
    assert judged(*at(29, 15, 1, waiting=0, kv_usage=1)).state is SignalState.FRESH


def test_a_rate_is_the_increase_over_all_the_time_between_the_first_sample_and_the_last() -> None:
    first, middle, last = at(28, 13, 0)
    window = judged(
        replace(first, prompt_tokens_total=100),
        replace(middle, prompt_tokens_total=400),
        replace(last, prompt_tokens_total=660, generation_tokens_total=9),
    )
    assert window.prompt_tokens_per_second == pytest.approx(560 / 28)
    assert window.generation_tokens_per_second is None


def test_two_samples_of_one_moment_do_not_hide_the_rate() -> None:
    """Two Prometheus servers may have scraped at the same millisecond."""
    first, again, last = at(28, 28, 0)
    totals = (100, 100, 660)
    samples = (
        replace(each, prompt_tokens_total=total) for each, total in zip((first, again, last), totals, strict=True)
    )
    assert judged(*samples).prompt_tokens_per_second == pytest.approx(20)


def test_samples_of_one_moment_alone_give_no_rate() -> None:
    first, again = at(10, 10)
    window = judged(replace(first, prompt_tokens_total=1), replace(again, prompt_tokens_total=5))
    assert window.prompt_tokens_per_second is None
