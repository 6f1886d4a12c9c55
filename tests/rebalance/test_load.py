"""Which pods are known, with every way in which a sample can be unusable, and what the known ones add up to."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import pytest

from plimsoll.rebalance.signals import load as load_module
from plimsoll.rebalance.signals.load import LoadSummary, is_usable
from plimsoll.rebalance.signals.metrics import COUNTS, NO_NUMBERS, EngineSample, PodSignals, PodState, SignalState
from tests.support.engine_loads import KV_TOKENS, LONG_AGO, NOW, Serves, moments, pod, summary
from tests.support.tables import every_case

STEADY = Serves(rate=2.0)
SAMPLE = STEADY.sample(NOW)


def steady(name: str = "a", *, times: list[float] | None = None, **changes: Any) -> PodSignals:
    found = pod(name, STEADY, times)
    return replace(found, samples=tuple(replace(each, **changes) for each in found.samples))


def with_number(name: str, number: float | None) -> EngineSample:
    """The sample with another number in one field."""
    changes: dict[str, Any] = {name: number}
    return replace(SAMPLE, **changes)


def spoiled(**changes: Any) -> PodSignals:
    """A pod of whose last ten samples one is spoiled."""
    samples = list(steady().samples)
    samples[-5] = replace(samples[-5], **changes)
    return PodSignals("a", tuple(samples))


def test_a_pod_that_is_scraped_is_known() -> None:
    load = summary(steady(times=moments(phase=5.0)))
    assert (load.state, load.fresh_pods, load.period_seconds) == (SignalState.FRESH, 1, 15)
    assert load.pods == (PodState("a", SignalState.FRESH, 5.0),)
    assert (load.held_tokens, load.smallest_capacity_tokens) == (KV_TOKENS, KV_TOKENS)
    assert load.traffic is not None


def test_a_pod_with_nothing_new_is_not_looked_through_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the pod whose readiness is another one now, or that has a new sample, is."""
    looked: list[EngineSample] = []

    def noticed(sample: EngineSample, now: float) -> bool:
        looked.append(sample)
        return is_usable(sample, now)

    monkeypatch.setattr(load_module, "is_usable", noticed)
    quiet, busy = steady("a", times=[NOW - 20, NOW - 5]), steady("b", times=[NOW - 15, NOW])
    first = summary(quiet, busy)
    assert len(looked) == 4
    assert summary(quiet, busy) == first
    assert len(looked) == 4
    summary(quiet, replace(busy, samples=(*busy.samples, replace(SAMPLE, at=NOW + 1))))
    assert len(looked) == 7
    assert summary(quiet, ready_since={"a": NOW - 10}).pods == (PodState("a", SignalState.FRESH, 5.0),)
    assert len(looked) == 8


def test_a_sample_from_the_future_counts_when_its_time_has_come_and_no_more_when_the_clock_is_set_back() -> None:
    """The same samples are asked about at three times."""
    ahead = steady(times=[NOW, NOW + 100])
    ages = {now: summary(ahead, now=now).pods[0].age_seconds for now in (NOW, NOW + 100, NOW + 101, NOW + 1)}
    assert ages == {NOW: 0, NOW + 100: 0, NOW + 101: 1, NOW + 1: 1}


def test_the_period_is_the_middle_of_the_last_seven_times_between_scrapes() -> None:
    ages = (400, 65, 60, 55, 50, 35, 20, 5, 0)
    assert summary(steady(times=[NOW - age for age in ages])).period_seconds == 5
    ages = (400, 80, 65, 50, 35, 15, 10, 5, 0)
    assert summary(steady(times=[NOW - age for age in ages])).period_seconds == 15


@every_case(
    ("signals", "state"),
    [
        (PodSignals("a"), SignalState.MISSING),
        (steady(times=[NOW]), SignalState.COLD),
        (steady(times=moments(phase=60.0)), SignalState.FRESH),
        (steady(times=moments(phase=61.0)), SignalState.STALE),
        (steady(times=moments(phase=400.0)), SignalState.STALE),
        (steady(kv_usage=None), SignalState.MISSING),
        (steady(waiting=None), SignalState.MISSING),
        (steady(kv_capacity_tokens=None), SignalState.FRESH),
        (steady(kv_capacity_tokens=0), SignalState.INVALID),
        (steady(kv_usage=math.nan), SignalState.INVALID),
        (steady(kv_usage=1.0001), SignalState.INVALID),
        (steady(waiting=-1), SignalState.INVALID),
        (steady(waiting=math.inf), SignalState.INVALID),
        (steady(preemptions_total=math.nan), SignalState.INVALID),
        (steady(running=1e300), SignalState.INVALID),
        (steady(times=[NOW + 60, NOW + 75]), SignalState.INVALID),
        (steady(times=[NOW - 10, NOW + 5]), SignalState.FRESH),
    ],
)
def test_every_kind_of_not_a_number_has_its_name(signals: PodSignals, state: SignalState) -> None:
    load = summary(signals)
    assert (load.state, load.pods[0].state) == (state, state)
    assert (load.traffic is None) is (load.held_tokens == 0) is (state is not SignalState.FRESH)


@every_case("number", [math.nan, math.inf, -1.0])
@every_case("name", ["kv_usage", "first_tokens_total", "ttft_seconds_total", "prefix_hit_tokens_total"])
def test_a_number_that_cannot_be_costs_its_sample_only(name: str, number: float) -> None:
    load = summary(spoiled(**{name: number}))
    assert load.state is SignalState.FRESH
    assert load.traffic == summary(replace(steady(), samples=_without(steady(), -5))).traffic


def _without(signals: PodSignals, index: int) -> tuple[EngineSample, ...]:
    kept = list(signals.samples)
    del kept[index]
    return tuple(kept)


def test_every_number_of_a_sample_must_be_possible() -> None:
    assert is_usable(SAMPLE, NOW)
    names = [each.name for each in fields(SAMPLE) if each.init and each.name not in ("at", *NO_NUMBERS)]
    assert len(names) == len(COUNTS) + 2, "the sizes of caches are judged on their own"
    for name in names:
        assert not is_usable(with_number(name, math.nan), NOW), name
        assert not is_usable(with_number(name, -1), NOW), name
        optional = name not in ("kv_usage", "waiting")
        assert is_usable(with_number(name, None), NOW) is optional, name


def test_the_largest_exact_count_is_possible_and_a_larger_one_is_not() -> None:
    """2**53 and 2**53 + 2 are neighbours among the floats of 64 bits."""
    for name in ("kv_capacity_tokens", "prompt_tokens_total"):
        assert is_usable(with_number(name, 2**53), NOW)
        assert not is_usable(with_number(name, 2**53 + 2), NOW)


def test_a_clock_may_be_five_seconds_ahead_and_no_more() -> None:
    assert is_usable(replace(SAMPLE, at=NOW + 5), NOW)
    assert not is_usable(replace(SAMPLE, at=NOW + 5.5), NOW)
    for time in (math.inf, math.nan):
        assert not is_usable(replace(SAMPLE, at=time), NOW)


def test_the_newest_samples_of_a_pod_may_be_impossible_for_a_while() -> None:
    """Then it is known by those before; later it is invalid, and not only stale."""

    def last(count: int) -> PodSignals:
        samples = list(steady().samples)
        return PodSignals("a", (*samples[:-count], *(replace(each, kv_usage=math.nan) for each in samples[-count:])))

    assert summary(last(2)).state is SignalState.FRESH
    assert summary(last(6)).state is SignalState.INVALID


def test_a_sample_without_a_real_time_has_no_age_and_disturbs_no_other() -> None:
    lost = replace(SAMPLE, at=math.nan)
    assert summary(PodSignals("a", (lost,))).pods == (PodState("a", SignalState.INVALID, None),)
    samples = steady().samples
    assert summary(PodSignals("a", (*samples[5:], lost, *samples[:5]))).traffic == summary(steady()).traffic
    assert summary(PodSignals("a", (*samples, lost, lost, lost))) == summary(steady())


@pytest.mark.parametrize(
    ("changes", "state"), [({"waiting": -1}, SignalState.INVALID), ({"waiting": None}, SignalState.MISSING)]
)
def test_the_age_of_numbers_that_cannot_be_used_is_that_of_the_newest(
    changes: dict[str, Any], state: SignalState
) -> None:
    assert summary(steady(times=moments(phase=20.0), **changes)).pods == (PodState("a", state, 20.0),)
    assert summary(steady(times=[NOW + 60], **changes)).pods == (PodState("a", SignalState.INVALID, 0.0),)


@pytest.mark.parametrize("every", [5, 15, 30, 60])
def test_scrapes_that_are_far_apart_decide_with_a_short_window(every: float) -> None:
    load = summary(steady(times=moments(900, every=every, phase=every - 1)), window=60)
    assert load.state is SignalState.FRESH
    assert load.traffic is not None
    assert load.traffic.arrivals.per_second == pytest.approx(2.0)
    assert load.traffic.steady.seconds >= 2 * every


def test_a_pod_with_far_scrapes_is_known_although_one_of_them_is_lost() -> None:
    times = moments(900, every=60)
    assert summary(steady(times=times[:-2])).state is SignalState.FRESH, "120 s old"
    assert summary(steady(times=times[:-3])).state is SignalState.STALE, "180 s old"


def test_a_pod_with_one_sample_is_known_where_its_whole_life_is() -> None:
    once = steady(times=[NOW])
    assert summary(once, ready_since={"a": LONG_AGO}).state is SignalState.COLD
    assert summary(once, ready_since={"a": NOW - 20}).state is SignalState.FRESH


def test_an_outage_is_told_apart_from_pods_without_series() -> None:
    load = summary(steady(), available=False)
    assert (load.state, load.pods[0].state) == (SignalState.UNAVAILABLE, SignalState.UNAVAILABLE)
    assert (load.traffic, load.held_tokens, load.smallest_capacity_tokens) == (None, 0, None)


def test_the_worst_pod_names_the_state_and_the_known_ones_make_the_figures() -> None:
    load = summary(steady("a"), steady("b", times=moments(phase=90.0)), expected=("a", "b", "c"))
    assert load.state is SignalState.MISSING
    assert load.worst_pod == PodState("c", SignalState.MISSING)
    assert (load.fresh_pods, load.held_tokens) == (1, KV_TOKENS)
    assert load.traffic is not None
    assert load.traffic.pods == 1


def test_the_worst_pod_is_the_first_by_name_among_equals() -> None:
    load = summary(expected=("b", "a"))
    assert load.worst_pod == PodState("a", SignalState.MISSING)
    assert LoadSummary(SignalState.MISSING).worst_pod is None


def test_samples_of_an_earlier_pod_of_the_same_name_do_not_count() -> None:
    load = summary(steady(), ready_since={"a": NOW - 14})
    assert load.traffic is not None
    assert load.traffic.pods == 1
    assert summary(steady(times=moments(phase=20.0)), ready_since={"a": NOW - 14}).state is SignalState.MISSING


def test_pods_that_nobody_expects_are_left_out() -> None:
    assert summary(steady("a"), steady("gone"), expected=("a",)) == summary(steady("a"))


def test_capacities_add_up_and_the_smallest_one_is_kept() -> None:
    large, silent = steady("b", kv_capacity_tokens=3 * KV_TOKENS), steady("c", kv_capacity_tokens=None)
    load = summary(steady("a"), large, silent, capacity=7)
    assert (load.held_tokens, load.smallest_capacity_tokens) == (4 * KV_TOKENS + 7, KV_TOKENS)
    assert summary(silent).smallest_capacity_tokens is None


def test_a_pod_with_one_sample_already_reports_its_capacity() -> None:
    assert summary(steady(times=[NOW])).smallest_capacity_tokens == KV_TOKENS


def test_a_sample_that_was_read_twice_counts_once() -> None:
    """Two Prometheus servers may answer together."""
    once = steady()
    assert summary(PodSignals("a", (*once.samples, *once.samples))) == summary(once)
    corrected = replace(once.samples[-1], kv_usage=0.7)
    found = summary(PodSignals("a", (*once.samples, corrected))).traffic
    assert found is not None
    assert found.used_tokens == pytest.approx(0.7 * KV_TOKENS), "of two readings of one moment the last one counts"


def test_the_order_in_which_samples_were_read_does_not_matter() -> None:
    backwards = replace(steady("a"), samples=tuple(reversed(steady("a").samples)))
    assert summary(steady("b"), backwards, expected=("a", "b")) == summary(steady("a"), steady("b"))


def test_a_pod_that_has_just_begun_to_serve_is_new_until_its_first_scrape() -> None:
    for ready_since, new in ((NOW - 10, 1), (LONG_AGO, 0)):
        load = summary(steady("a"), expected=("a", "b"), ready_since={"a": LONG_AGO, "b": ready_since})
        assert (load.fresh_pods, load.new_pods) == (1, new)
    scraped = summary(steady("a"), steady("b", times=[NOW]), ready_since={"a": LONG_AGO, "b": NOW - 10})
    assert (scraped.fresh_pods, scraped.new_pods) == (2, 0)
    assert summary(steady("a"), expected=("a", "b"), ready_since={}).new_pods == 0


def test_where_prometheus_is_away_no_pod_is_new() -> None:
    """Pods that are new are not missed; those that nobody can read are."""
    assert summary(steady(), available=False).new_pods == 0
