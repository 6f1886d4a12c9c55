"""One pod's figures over time: between scrapes, across restarts of the engine, and before the first scrape."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from plimsoll.rebalance.signals import tracks
from plimsoll.rebalance.signals.metrics import Buckets, EngineSample
from plimsoll.rebalance.signals.percentiles import FIRST_TOKEN, percentile_of
from plimsoll.rebalance.signals.tracks import TimeSeries, Track
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
    assert counting(9, 30, 4).risen(tracks.WAITING, NOW - 600, NOW) == -5


def test_a_figure_that_no_scrape_has_is_unknown_and_not_zero() -> None:
    track = counting(None, None)
    assert track.grown(tracks.FIRST_TOKENS, NOW - 600, NOW) is None
    assert track.risen(tracks.WAITING, NOW - 600, NOW) is None
    assert counting(0, 0).grown(tracks.FIRST_TOKENS, NOW - 600, NOW) == 0


def test_a_pod_that_has_just_begun_to_serve_is_counted_from_zero() -> None:
    track = counting(40, 60, ready_since=NOW - 20)
    assert (track.is_new, track.begins_at) == (True, NOW - 20)
    assert track.grown(tracks.FIRST_TOKENS, NOW - 600, NOW) == 60
    assert track.risen(tracks.WAITING, NOW - 600, NOW) == 60


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
    assert track.risen(tracks.WAITING, NOW - 600, NOW) == grown
    of_hundred = percentile_of([track], FIRST_TOKEN, 99, (600.0,), NOW)
    assert (of_hundred is not None) is from_zero, "a p99 needs 300 values"


def _with_buckets(sample: EngineSample, buckets: Buckets) -> EngineSample:
    return replace(sample, first_token_buckets=buckets)


def test_a_counter_and_a_gauge_of_the_same_figure_are_kept_apart() -> None:
    track = counting(9, 2)
    assert track.risen(tracks.FIRST_TOKENS, NOW - 600, NOW) == -7
    assert track.grown(tracks.FIRST_TOKENS, NOW - 600, NOW) == 2


def test_the_newest_sample_is_the_last_one() -> None:
    track = counting(1, 2)
    assert track.newest == replace(track.samples[0], at=NOW, waiting=2, first_tokens_total=2)
