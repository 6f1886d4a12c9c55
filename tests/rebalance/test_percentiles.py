"""Percentiles from histograms: what they are, when they are not known, and what a promise makes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.decisions.latency import Slo
from plimsoll.rebalance.diagnosis.diagnose import Diagnosis, DiagnosisKind, diagnose
from plimsoll.rebalance.diagnosis.judging import judged
from plimsoll.rebalance.law.capacity import capacity_of
from plimsoll.rebalance.law.spread import Spread
from plimsoll.rebalance.signals.load import summarize
from plimsoll.rebalance.signals.metrics import Buckets, EngineSample, PodSignals
from plimsoll.rebalance.signals.percentiles import FIRST_TOKEN, Percentile, buckets_of, percentile_of, quantile
from plimsoll.rebalance.signals.tracks import Track
from plimsoll.rebalance.signals.traffic import Lengths
from plimsoll.rebalance.state.decisions import DecisionReason, Wait
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.why import sentence
from tests.support.engine_loads import LONG_AGO, NOW, moments, replica_model
from tests.support.live_situations import EASY, situation
from tests.support.tables import every_case

MOST_RATIO = 10.0

INF = math.inf
BOUNDS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, INF)
TIMES = st.lists(st.floats(0.001, 20.0), min_size=60, max_size=300)


def counted(times: Sequence[float], bounds: Sequence[float] = BOUNDS) -> Buckets:
    return Buckets(tuple(bounds), tuple(float(sum(each <= bound for each in times)) for bound in bounds))


def of_prometheus(share: float, found: Buckets) -> float:
    """``bucketQuantile`` of Prometheus' ``promql/quantile.go``, step by step, with its search from the left."""
    rank = share * found.counts[-1]
    for index, (bound, count) in enumerate(zip(found.bounds, found.counts, strict=True)):
        if count >= rank or index == len(found.bounds) - 1:
            if bound == INF:
                return found.bounds[-2]
            begin = found.bounds[index - 1] if index else 0.0
            below = found.counts[index - 1] if index else 0.0
            return begin + (bound - begin) * (rank - below) / (count - below)
    raise AssertionError


@given(TIMES, st.sampled_from([50, 95, 99]))
def test_it_is_what_prometheus_makes_of_the_same_buckets_and_in_the_bucket_of_the_true_one(
    times: list[float], percentile: int
) -> None:
    found = quantile(percentile, counted(times))
    beyond = len(times) * (100 - percentile) / 100
    assert (found is None) == (beyond < 3)
    if found is None:
        return
    assert found.seconds == pytest.approx(of_prometheus(percentile / 100, counted(times)))
    true = sorted(times)[math.ceil(len(times) * percentile / 100 - 1e-9) - 1]
    end = next(bound for bound in BOUNDS if true <= bound)
    begin = max((bound for bound in BOUNDS if bound < end), default=0.0)
    assert begin - 1e-9 <= found.seconds <= end + 1e-9
    assert found.is_least == (end == INF)


@every_case(
    "counts",
    [
        {1.0: 5.0, 2.0: 9.0},
        {INF: 9.0},
        {},
        {1.0: 5.0, INF: math.nan},
        {1.0: math.nan, INF: 9.0},
        {math.nan: 5.0, 1.0: 5.0, INF: 9.0},
        {1.0: -1.0, INF: 9.0},
        {1.0: 10.0, INF: 9.0},
        {1.0: 1.0, INF: INF},
        {1.0: 1.0, 2.0: 2.0, INF: INF},
        {1.0: 1.0, INF: 1e300 * 1e10},
    ],
)
def test_what_cannot_be_one_scrape_of_a_histogram_is_none(counts: dict[float, float]) -> None:
    assert buckets_of(counts) is None


@pytest.mark.parametrize(
    "counts", [{1.0: 0.0, INF: 9.0}, {1.0: 0.5, INF: 9.0}, {1.0: 9.0, INF: 9.0}, {1.0: 0.0, INF: 0.0}]
)
def test_one_scrape_of_a_histogram_has_its_counts_by_bound(counts: dict[float, float]) -> None:
    assert buckets_of(counts) == Buckets(tuple(counts), tuple(counts.values()))


def test_above_the_last_bound_a_promise_below_it_is_missed_and_of_one_above_it_nothing_is_known() -> None:
    found = quantile(95, counted([30.0] * 100))
    assert found == Percentile(10.0, is_least=True)
    assert (found.over(9.9), found.over(10.0), found.over(25.0)) == (10.0, None, None)


# -- over time and pods ------------------------------------------------------------------------------------------------

FAST, SLOW = [0.3] * 90 + [0.8] * 10, [0.3] * 80 + [8.0] * 20
"""Times of a hundred requests: p95 in (0.5, 1] and in (5, 10]."""


def pod(
    *served: Sequence[float] | None, name: str = "a", bounds: Sequence[float] = BOUNDS, every: float = 15.0
) -> Track:
    """A pod that began these requests before each of its scrapes. None: the engine began again, and its counters."""
    samples, so_far = list[EngineSample](), list[float]()
    for index, times in enumerate(served):
        so_far = [] if times is None else [*so_far, *times]
        samples.append(sample(NOW - every * (len(served) - 1 - index), so_far, bounds))
    return Track(name, samples, LONG_AGO)


def sample(at: float, times: Sequence[float], bounds: Sequence[float] = BOUNDS) -> EngineSample:
    return EngineSample(
        at,
        first_tokens_total=float(len(times)),
        ttft_seconds_total=float(sum(times)),
        first_token_buckets=counted(times, bounds),
    )


def p95(*pods: Track, windows: Sequence[float] = (30.0, 120.0, 600.0)) -> float | None:
    found = percentile_of(pods, FIRST_TOKEN, 95, windows, NOW)
    return None if found is None else found.seconds


def test_of_a_time_between_two_scrapes_a_part_counts_that_is_as_long() -> None:
    """Half of 80 slow requests, which came evenly in 40 s, and 100 fast ones: the 70th of 140 is a fast one."""
    slow = [7.5] * 80
    track = Track("p", [sample(NOW - 60, []), sample(NOW - 20, slow), sample(NOW, [*slow, *[0.3] * 100])])
    found = percentile_of([track], FIRST_TOKEN, 50, (40.0,), NOW)
    assert found is not None
    assert found.seconds == pytest.approx(0.1 + 0.4 * 70 / 100)


def test_only_what_came_lately_counts_and_its_mean_is_of_the_same_requests() -> None:
    found = percentile_of([pod([], SLOW, FAST, FAST)], FIRST_TOKEN, 95, (30.0,), NOW)
    assert found is not None
    assert found.seconds == pytest.approx(0.75)
    assert found.mean == pytest.approx(0.35)
    assert p95(pod([], FAST, SLOW)) == pytest.approx(7.5)


def test_what_came_between_two_scrapes_came_at_a_constant_rate() -> None:
    """Half of the fast ones count: 130 of the 150 requests are below 5 s, and 20 between 5 and 10."""
    scrapes = [sample(NOW - 40, []), sample(NOW - 10, FAST), sample(NOW, FAST + SLOW)]
    assert p95(Track("a", scrapes, LONG_AGO), windows=(25.0,)) == pytest.approx(5 + 5 * (142.5 - 130) / 20)


def test_of_counts_between_two_scrapes_only_what_was_added_counts() -> None:
    """Half of 100 slow requests, and 100 more: 80 % of 150 are fast ones, and 20 % are between 5 and 10 s."""
    scrapes = [(70, []), (40, FAST), (10, FAST + SLOW), (0, FAST + SLOW + SLOW)]
    track = Track("a", [sample(NOW - ago, times) for ago, times in scrapes], LONG_AGO)
    assert p95(track, windows=(25.0,)) == pytest.approx(5 + 5 * (0.95 - 0.8) / 0.2)


def test_few_requests_are_counted_over_a_longer_time_and_too_few_give_none() -> None:
    few = [0.3] * 20
    assert p95(pod([], few, few, few, few)) == pytest.approx(0.48)
    assert p95(pod([], few, few)) is None
    assert p95(pod([], few, few, few, few), windows=(30.0,)) is None


def test_an_engine_that_began_again_counts_from_zero_in_all_buckets_together() -> None:
    assert p95(pod(SLOW * 3, None, FAST)) == pytest.approx(0.75)
    fell = sample(NOW, [0.05] * 40 + [0.8] * 60)
    before = sample(NOW - 15, [0.3] * 50 + [8.0] * 250)
    assert p95(Track("a", [before, fell], LONG_AGO), windows=(15.0,)) == pytest.approx(0.5 + 0.5 * 55 / 60)


def test_pods_of_two_releases_with_other_bounds_are_added_at_the_bounds_that_both_have() -> None:
    other = (0.25, 0.5, 1.0, 10.0, INF)
    assert p95(pod([], FAST, FAST), pod([], FAST, FAST, name="b", bounds=other)) == pytest.approx(0.75)
    assert p95(pod([], SLOW, SLOW), pod([], SLOW, SLOW, name="b", bounds=other)) == pytest.approx(7.75)
    assert p95(pod([], FAST, FAST), pod([], FAST, FAST, name="b", bounds=(0.2, 0.7, INF))) is None


def test_a_pod_with_requests_and_without_buckets_makes_it_unknown_and_an_idle_one_does_not() -> None:
    blind = pod([], SLOW, SLOW, name="b")
    blind = replace(blind, samples=[replace(each, first_token_buckets=None) for each in blind.samples])
    idle = replace(
        blind, samples=[replace(each, first_tokens_total=7.0, ttft_seconds_total=2.0) for each in blind.samples]
    )
    assert p95(pod([], FAST, FAST), blind) is None
    assert p95(pod([], FAST, FAST), idle) == pytest.approx(0.75)
    found = percentile_of([pod([], FAST, FAST), idle], FIRST_TOKEN, 95, (30.0,), NOW)
    assert found is not None
    assert found.mean == pytest.approx(0.35)


def test_times_that_are_not_counted_besides_the_buckets_have_no_mean() -> None:
    track = pod([], FAST, FAST)
    track = replace(track, samples=[replace(each, first_tokens_total=None) for each in track.samples])
    found = percentile_of([track], FIRST_TOKEN, 95, (30.0,), NOW)
    assert found is not None
    assert found.seconds == pytest.approx(0.75)
    assert found.mean is None


@pytest.mark.parametrize("lacks", ["first_tokens_total", "ttft_seconds_total"])
def test_a_pod_that_counts_the_times_or_their_sum_alone_leaves_the_mean_of_its_neighbour(lacks: str) -> None:
    half = pod([], SLOW, SLOW, name="b")
    half = replace(half, samples=[replace(each, **{lacks: None}) for each in half.samples])  # type: ignore[arg-type]
    found = percentile_of([pod([], FAST, FAST), half], FIRST_TOKEN, 95, (30.0,), NOW)
    assert found is not None
    assert found.mean == pytest.approx(0.35)


@given(
    st.lists(st.one_of(st.none(), st.lists(st.floats(0.01, 20.0), max_size=40)), min_size=2, max_size=12),
    st.sampled_from([BOUNDS, (1.0, INF), (0.1, 10.0, INF)]),
    st.sampled_from([50, 95, 99]),
)
def test_however_engines_begin_again_it_is_within_the_times_that_were_there(
    served: list[list[float] | None], bounds: tuple[float, ...], percentile: int
) -> None:
    found = percentile_of([pod(*served, bounds=bounds)], FIRST_TOKEN, percentile, (60.0, 600.0), NOW)
    times = [each for some in served if some for each in some]
    if found is not None:
        assert found.seconds <= next((bound for bound in bounds if max(times) <= bound), bounds[-2])
        assert found.seconds >= max([0.0, *(bound for bound in bounds if bound < min(times))])


# -- what a promise makes of it ----------------------------------------------------------------------------------------


def load_of(times: Sequence[float], *, percentile: int | None) -> Any:
    """A pod with two requests a second of these times, as an engine reports them."""
    serves, samples = replace(EASY, rate=2.0, first_token_seconds=sum(times) / len(times)), list[EngineSample]()
    for at in moments():
        share = 2.0 * (at - LONG_AGO) / len(times)
        one = counted(times)
        counts = tuple(each * share for each in one.counts)
        samples.append(replace(serves.sample(at), first_token_buckets=Buckets(one.bounds, counts)))
    return summarize(
        [PodSignals("pod-0", tuple(samples))],
        ["pod-0"],
        NOW,
        window_seconds=120,
        capacity_tokens=400_000,
        ready_since={"pod-0": LONG_AGO},
        percentile=percentile,
    )


def found_with(slo: Slo, times: Sequence[float]) -> Diagnosis:
    model = replace(replica_model(), slo=slo)
    where = situation(EASY, model=model, load=load_of(times, percentile=slo.percentile))
    return diagnose(where, judged(where))


UNEVEN = [0.2] * 80 + [8.7] * 20
"""Their mean is 1.9 s and their p95 above 8 s."""


def test_a_p95_of_eight_seconds_with_a_mean_of_two_is_a_miss_if_p95_is_promised() -> None:
    assert found_with(Slo(5.0, None), UNEVEN).reason is DecisionReason.WITHIN_BAND
    missed = found_with(Slo(5.0, None, percentile=95), UNEVEN)
    assert (missed.kind, missed.reason) == (DiagnosisKind.PROMISE_MISSED, DecisionReason.PROMISE_MISSED)
    numbers = dict(missed.numbers)
    assert (numbers["figure"], numbers["percentile"], numbers["measured_ms"]) == ("ttft", 95, 8750)
    assert "the 95th percentile of the time to the first token is 8,750 ms and 5,000 ms are promised" in sentence(
        Wait(missed.reason, missed.numbers)
    )


def test_a_promise_at_a_percentile_that_is_not_known_is_not_judged_by_the_mean() -> None:
    slow = [30.0] * 100
    assert found_with(Slo(5.0, None), slow).reason is DecisionReason.PROMISE_MISSED
    assert found_with(Slo(25.0, None, percentile=95), slow).reason is DecisionReason.WITHIN_BAND
    blind = load_of(slow, percentile=None)
    where = situation(EASY, model=replace(replica_model(), slo=Slo(5.0, None, percentile=95)), load=blind)
    assert diagnose(where, judged(where)).reason is DecisionReason.WITHIN_BAND


def test_half_of_the_requests_in_time_keep_a_promise_at_p50() -> None:
    assert found_with(Slo(1.0, None, percentile=50), UNEVEN).reason is DecisionReason.WITHIN_BAND
    assert found_with(Slo(1.0, None), UNEVEN).reason is DecisionReason.PROMISE_MISSED


# -- the ratio to the mean ---------------------------------------------------------------------------------------------


def learned(memory: LoopMemory, times: Sequence[float], percentile: int | None, turns: int = 60) -> LoopMemory:
    traffic = load_of(times, percentile=percentile).traffic
    for turn in range(turns):
        memory = memory.with_spread(replace(traffic, end=NOW + 60 * turn), percentile)
    return memory


def test_the_ratio_of_the_percentile_to_the_mean_is_learned_step_by_step() -> None:
    one, many = (learned(LoopMemory(), UNEVEN, 95, turns) for turns in (1, 60))
    assert one.spread.first_token is not None
    assert many.spread.first_token == pytest.approx(8.75 / 1.9, rel=0.01)
    assert 2.9 < one.spread.first_token < 3.2
    assert many.spread.token is None, "nobody saw it"


@pytest.mark.parametrize(("ratio", "kept"), [(0.1, 0.25), (0.25, 0.25), (3.0, 3.0), (10.0, 10.0), (11.0, 10.0)])
def test_a_ratio_is_learned_within_bounds(ratio: float, kept: float) -> None:
    seen = Percentile(2.0 * ratio, mean=2.0)
    found = Spread(50).learned(seen, seen, (1.0, 1.0), share=1.0)
    assert [found.first_token, found.token] == pytest.approx([kept, kept])
    assert Spread(50).learned(replace(seen, is_least=True), replace(seen, mean=0.0), (1.0, 1.0), 1.0) == Spread(50)


def test_before_anything_is_measured_the_usual_shares_are_assumed() -> None:
    """A measurement moves the ratio by 0.15 of the way, on a logarithmic scale."""
    measured = Percentile(6.0, mean=1.0)
    seen = replace(load_of(UNEVEN, percentile=95).traffic, ttft_percentile=measured, token_percentile=measured)
    found = LoopMemory().with_spread(seen, 95).spread
    assert found.first_token == pytest.approx((1 / 0.35) ** 0.85 * 6.0**0.15)
    assert found.token == pytest.approx((1 / 0.85) ** 0.85 * 6.0**0.15)


def test_a_window_teaches_a_ratio_once() -> None:
    seen = load_of(UNEVEN, percentile=95).traffic
    once, seconds = LoopMemory().with_spread(seen, 95), seen.recent.seconds
    assert once.with_spread(replace(seen, end=seen.end + seconds - 1), 95) == once
    assert once.with_spread(replace(seen, end=seen.end + seconds), 95).spread != once.spread


def test_nothing_is_learned_of_no_percentile_and_of_another_one_nothing_is_known() -> None:
    known = learned(LoopMemory(), UNEVEN, 95)
    assert learned(LoopMemory(), UNEVEN, None).spread == Spread()
    assert known.with_spread(load_of(UNEVEN, percentile=99).traffic, 99).spread == Spread(99)
    assert known.about("another").spread == known.spread
    assert LoopMemory.of(known.learned).spread == known.spread
    assert not known.learned.is_like(LoopMemory().learned)


def test_a_queue_and_a_time_above_all_bounds_teach_nothing() -> None:
    traffic = load_of(UNEVEN, percentile=95).traffic
    assert LoopMemory().with_spread(replace(traffic, waiting=9.0), 95).spread == Spread(95)
    assert learned(LoopMemory(), [30.0] * 100, 95).spread == Spread(95)


LENGTHS = Lengths(6000.0, 200.0, 0.0, 6100.0)


def test_the_law_takes_the_promise_over_the_learned_ratio_and_the_usual_share_before() -> None:
    model = replace(replica_model(kv_tokens=10**7), slo=Slo(3.0, 0.1, percentile=95))
    assert (model.first_token_share, model.token_share) == (0.35, 0.85)
    wide = replace(model, spread=Spread(95, first_token=8.0, token=1.5))
    assert (wide.first_token_share, wide.token_share) == (1 / 8, 1 / 1.5)
    narrow = replace(model, spread=Spread(95, first_token=1.0, token=1.0))
    assert (narrow.first_token_share, narrow.token_share) == (0.85, 0.85)
    carried = [capacity_of(each, LENGTHS).per_second for each in (wide, model, narrow)]
    assert carried == sorted(carried)
    assert carried[0] < carried[2]
    most = replace(model, spread=Spread(95, first_token=MOST_RATIO))
    assert 0 < capacity_of(most, LENGTHS).per_second <= carried[0]


def test_a_neighbour_that_promises_no_percentile_has_the_figures_that_it_had() -> None:

    plain = load_of(UNEVEN, percentile=None).traffic
    assert (plain.ttft_percentile, plain.token_percentile) == (None, None)
    assert replace(load_of(UNEVEN, percentile=95).traffic, ttft_percentile=None) == plain


@pytest.mark.parametrize("alone", [[0.4], [0.4, 0.6]], ids=["one request", "two"])
def test_the_mean_is_of_the_requests_whose_times_are_added_up_however_few_they_are(alone: list[float]) -> None:
    """One engine has buckets alone. Another one has a sum and a number, too, and served so many requests."""
    without = pod([], FAST, FAST)
    unknown = [replace(each, first_tokens_total=None, ttft_seconds_total=None) for each in without.samples]
    found = percentile_of(
        [replace(without, samples=unknown), pod([], [], alone, name="b")], FIRST_TOKEN, 95, (30.0,), NOW
    )
    assert found is not None
    assert found.mean == pytest.approx(sum(alone) / len(alone))
