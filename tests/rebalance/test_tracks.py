"""One pod's figures over time: between scrapes, across restarts of the engine, and before the first scrape."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.rebalance.signals import tracks
from plimsoll.rebalance.signals.metrics import Buckets, EngineSample, PodSignals
from plimsoll.rebalance.signals.percentiles import FIRST_TOKEN, percentile_of
from plimsoll.rebalance.signals.tracks import TimeSeries, Track
from plimsoll.rebalance.signals.traffic import traffic_of
from tests.support.tables import every_case

NEW_SECONDS = 180.0

NOW = 1_700_000_000.0


def counting(*values: float | None, every: float = 15.0, ready_since: float | None = None) -> Track:
    """A pod whose counter of first tokens, and whose queue, had these values at scrapes that end now."""
    first = NOW - every * (len(values) - 1)
    samples = [
        EngineSample(first + every * index, waiting=value, first_tokens_total=value)
        for index, value in enumerate(values)
    ]
    return Track("a", samples, ready_since)


def test_between_two_moments_a_line_is_straight_and_outside_of_them_it_is_flat() -> None:
    line = TimeSeries((10.0, 20.0, 40.0), (1.0, 3.0, 2.0))
    moments = (0.0, 10.0, 15.0, 20.0, 30.0, 40.0, 99.0)
    assert [line.at(moment) for moment in moments] == [1.0, 1.0, 2.0, 3.0, 2.5, 2.0, 2.0]


def test_a_line_of_one_moment_has_one_value() -> None:
    assert [TimeSeries((10.0,), (7.0,)).at(moment) for moment in (0.0, 10.0, 20.0)] == [7.0, 7.0, 7.0]


def test_a_line_that_jumps_at_a_moment_has_the_later_value_there() -> None:
    assert TimeSeries((10.0, 10.0, 20.0), (1.0, 5.0, 5.0)).at(10.0) == 5.0


def test_a_counter_grows_by_what_lies_between_two_moments() -> None:
    track = counting(100, 130, 190)
    assert track.grown(tracks.FIRST_TOKENS, NOW - 30, NOW) == 90
    assert track.grown(tracks.FIRST_TOKENS, NOW - 15, NOW) == 60
    assert track.grown(tracks.FIRST_TOKENS, NOW - 7.5, NOW) == pytest.approx(30), "half of the way between scrapes"


@every_case(
    ("values", "grown"),
    [
        ((5, 5), 0),
        ((5, 8, 9), 4),
        ((5, 8, 1, 3), 6),
        ((9, None, 2), 2),
        ((9, None, 12), 3),
        ((7,), 0),
    ],
    ids=str,
)
def test_a_counter_that_fell_began_again_at_zero(values: tuple[float | None, ...], grown: float) -> None:
    assert counting(*values).grown(tracks.FIRST_TOKENS, NOW - 600, NOW) == grown


def test_a_gauge_may_fall() -> None:
    assert counting(9, 30, 4).grown(tracks.WAITING, NOW - 600, NOW) == -5


def test_a_figure_that_no_scrape_has_is_unknown_and_not_zero() -> None:
    track = counting(None, None)
    assert track.grown(tracks.FIRST_TOKENS, NOW - 600, NOW) is None
    assert track.grown(tracks.WAITING, NOW - 600, NOW) is None
    assert counting(0, 0).grown(tracks.FIRST_TOKENS, NOW - 600, NOW) == 0


def test_a_pod_that_has_just_begun_to_serve_is_counted_from_zero() -> None:
    track = counting(40, 60, ready_since=NOW - 20)
    assert (track.is_new, track.begins_at) == (True, NOW - 20)
    assert track.grown(tracks.FIRST_TOKENS, NOW - 600, NOW) == 60
    assert track.grown(tracks.WAITING, NOW - 600, NOW) == 60


def test_a_pod_that_served_before_its_first_scrape_is_counted_from_it() -> None:
    for ready_since in (None, NOW - 7200):
        track = counting(40, 60, ready_since=ready_since)
        assert (track.is_new, track.begins_at) == (False, NOW - 15)
        assert track.grown(tracks.FIRST_TOKENS, NOW - 600, NOW) == 20


def test_a_pod_is_new_where_its_first_scrape_came_soon_after_its_readiness() -> None:
    first = NOW - 15
    assert counting(4, 6, ready_since=first - NEW_SECONDS).is_new
    assert not counting(4, 6, ready_since=first - NEW_SECONDS - 1).is_new


BEGINS = [
    (None, False), (-NEW_SECONDS - 1, False), (-NEW_SECONDS, True), (-1, True), (0, False), (1, False), (10, False),
]  # fmt: skip
"""When a pod became ready, in seconds after its first scrape, and whether its figures are counted from zero."""


@every_case(("ready", "from_zero"), BEGINS)
def test_the_life_of_a_pod_begins_with_its_readiness_or_with_a_scrape_before_it(
    ready: float | None, *, from_zero: bool
) -> None:
    """A histogram begins when the counter of its values does."""
    track = counting(400, 460, ready_since=None if ready is None else NOW - 15 + ready)
    buckets = [Buckets((1.0, 2.0, math.inf), (0.0, each.waiting or 0.0, each.waiting or 0.0)) for each in track.samples]
    track = replace(track, samples=list(map(_with_buckets, track.samples, buckets)))
    grown = 460 if from_zero else 60
    assert track.grown(tracks.FIRST_TOKENS, NOW - 600, NOW) == grown
    assert track.grown(tracks.WAITING, NOW - 600, NOW) == grown
    of_hundred = percentile_of([track], FIRST_TOKEN, 99, (600.0,), NOW)
    assert (of_hundred is not None) is from_zero, "a p99 needs 300 values"


def _with_buckets(sample: EngineSample, buckets: Buckets) -> EngineSample:
    return replace(sample, first_token_buckets=buckets)


def test_a_counter_that_fell_began_again_and_a_gauge_did_not() -> None:
    track = counting(9, 2)
    assert track.grown(tracks.WAITING, NOW - 600, NOW) == -7
    assert track.grown(tracks.FIRST_TOKENS, NOW - 600, NOW) == 2


def test_the_newest_sample_is_the_last_one() -> None:
    track = counting(1, 2)
    assert track.newest == replace(track.samples[0], at=NOW, waiting=2, first_tokens_total=2)


def plainly_grown(track: Track, field: str, start: float, end: float) -> float | None:
    """How much a counter grew, by looking through all samples anew for each question."""
    points = [(each.at, getattr(each, field)) for each in track.samples if getattr(each, field) is not None]
    if not points:
        return None
    if track.is_new and track.begins_at < points[0][0]:
        points = [(track.begins_at, 0.0), *points]
    falls = any(later < earlier for (_, earlier), (_, later) in pairwise(points))
    total, line = (0.0 if falls else points[0][1]), list[tuple[float, float]]()
    for index, (at, value) in enumerate(points):
        before = points[index - 1][1]
        if index:
            total = (total + (value - before if value >= before else value)) if falls else value
        line.append((at, total))

    def value_at(moment: float) -> float:
        earlier = [each for each in line if each[0] <= moment]
        later = [each for each in line if each[0] > moment]
        if not earlier or not later:
            return (earlier or later)[-1 if earlier else 0][1]
        (begin, low), (finish, high) = earlier[-1], later[0]
        return low + (high - low) * (moment - begin) / (finish - begin)

    return value_at(end) - value_at(start)


COUNTS = st.one_of(st.none(), st.integers(0, 50).map(float), st.floats(0, 2**53))
MOMENTS = st.floats(NOW - 700, NOW + 20)
COURSES = st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=12)
READY = st.one_of(st.none(), st.floats(NOW - 700, NOW))


def course(values: list[tuple[float | None, float | None]], ready_since: float | None) -> Track:
    first = NOW - 15.0 * (len(values) - 1)
    samples = [
        EngineSample(
            first + 15.0 * index,
            0.3,
            waiting=begun,
            running=ended,
            first_tokens_total=begun,
            finished_total=ended,
            prompt_tokens_total=ended,
            finished_output_tokens_total=begun,
        )
        for index, (begun, ended) in enumerate(values)
    ]
    return Track("a", samples, ready_since)


@given(COURSES, READY, st.lists(st.tuples(MOMENTS, MOMENTS), min_size=1, max_size=6))
def test_what_is_remembered_of_a_track_is_what_its_samples_say(
    values: list[tuple[float | None, float | None]],
    ready_since: float | None,
    moments: list[tuple[float, float]],
) -> None:
    track = course(values, ready_since)
    for start, end in moments:
        for read, field in ((tracks.FIRST_TOKENS, "first_tokens_total"), (tracks.FINISHED, "finished_total")):
            expected = plainly_grown(track, field, start, end)
            assert track.grown(read, start, end) == expected


@given(
    st.lists(st.tuples(COURSES, READY), min_size=1, max_size=3),
    st.lists(
        st.tuples(st.sampled_from([30.0, 60.0, 200.0]), st.one_of(st.just(math.inf), MOMENTS)), min_size=2, max_size=4
    ),
)
def test_a_turn_finds_the_same_in_tracks_that_earlier_turns_have_asked(
    pods: list[tuple[list[tuple[float | None, float | None]], float | None]], turns: list[tuple[float, float]]
) -> None:
    kept = [course(*each) for each in pods]
    for recent, until in turns:
        found, anew = (
            traffic_of(
                some,
                window_seconds=max(120.0, recent),
                recent_seconds=recent,
                since=0.0,
                capacity_tokens=1000,
                departed=some[1:],
                until=until,
            )
            for some in (kept, [course(*each) for each in pods])
        )
        assert found == anew


PLAIN = EngineSample(NOW - 30, 0.3, waiting=4.0, running=2.0, first_tokens_total=10.0, finished_total=9.0)
BREAKS = [
    ({}, True), ({"waiting": 0.0}, True), ({"kv_usage": 0.1, "running": 0.0}, True),
    ({"first_tokens_total": 10.0}, True),
    ({"first_tokens_total": 9.0}, False), ({"finished_total": None}, False), ({"prompt_tokens_total": 5.0}, False),
    ({"waiting": None}, False), ({"kv_usage": 1.5}, False), ({"at": NOW - 30}, False), ({"at": NOW - 31}, False),
]  # fmt: skip
"""Other figures of the second of three samples, and whether all three are steady."""


@every_case(("changed", "steady"), BREAKS)
def test_samples_are_steady_while_nothing_is_missing_and_no_counter_falls(
    changed: dict[str, float | None], *, steady: bool
) -> None:
    samples = (PLAIN, replace(PLAIN, **{"at": NOW - 15, **changed}), replace(PLAIN, at=NOW))  # type: ignore[arg-type]
    assert (tracks.steady_of(samples) == 3) is steady
    known = PodSignals("a", samples[:2], tracks.steady_of(samples[:2]))
    assert tracks.steady_of(samples, known) == tracks.steady_of(samples)


STEPS = st.lists(st.tuples(st.floats(0.1, 90), st.floats(0, 1e6), st.floats(0, 50)), min_size=1, max_size=12)


@given(STEPS, READY, st.booleans(), st.lists(MOMENTS, min_size=1, max_size=40))
def test_steady_samples_give_the_figures_that_lines_through_all_of_them_give(
    steps: list[tuple[float, float, float]],
    ready_since: float | None,
    reports_ends: bool,  # noqa: FBT001 - drawn
    moments: list[float],
) -> None:
    at, total, samples = NOW - 650.0, 0.0, list[EngineSample]()
    for seconds, growth, waiting in steps:
        at, total = at + seconds, total + growth
        ended = total / 3 if reports_ends else None
        samples.append(EngineSample(at, 0.3, waiting=waiting, first_tokens_total=total, finished_total=ended))
    assert tracks.steady_of(samples) == len(samples)
    steady, plain = Track("a", samples, ready_since, is_steady=True), Track("a", samples, ready_since)
    moments = [*moments, *(each.at for each in samples), steady.begins_at, NOW - 2000]
    for moment in (*moments, *moments):
        assert steady.at(moment) == plain.at(moment)
