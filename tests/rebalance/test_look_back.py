"""Samples from before this process: they are read as strictly as those that a process sees itself."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.idle import Quiet
from plimsoll.rebalance.signals.look_back import quiet_before
from plimsoll.rebalance.signals.metrics import PodSignals, SignalState
from plimsoll.rebalance.signals.tracks import TimeSeries
from plimsoll.rebalance.state.memory import LoopMemory
from tests.support.engine_loads import NOW, Serves, moments, track

NOBODY = Serves(rate=0.0, running=0, kv_usage=0.0)
TIMES = moments(1800)
SCRAPE = TIMES[-1] - TIMES[-2]


def signals(load: Serves = NOBODY, times: list[float] | None = None, served_at: float | None = None) -> PodSignals:
    """A pod that serves nobody, apart from one request that ended at a moment."""
    came = None if served_at is None else (lambda at: 1.0 if at > served_at else 0.0)
    return PodSignals("a", tuple(track(load, times or TIMES, came=came).samples))


def queue(*values: float, times: list[float] | None = None) -> GatewayQueue:
    at = times or TIMES
    return GatewayQueue(SignalState.FRESH, (TimeSeries(at, [0.0] * (len(at) - len(values)) + list(values)),))


def test_half_an_hour_without_a_request_is_known_in_the_first_turn() -> None:
    quiet = quiet_before({"a": signals()}, ["a"], None, NOW)
    assert quiet == Quiet(TIMES[0], TIMES[-1])
    now_seen = Quiet(NOW - 600, NOW)
    assert LoopMemory().with_quiet(now_seen, NOW, quiet).quiet_since == TIMES[0]
    assert LoopMemory().with_quiet(now_seen, NOW).quiet_since == NOW - 600


def test_a_queue_is_known_up_to_its_last_sample() -> None:
    assert quiet_before({"a": signals()}, ["a"], queue(), NOW) == Quiet(TIMES[0], TIMES[-1])
    assert quiet_before({"a": signals()}, ["a"], queue(times=TIMES[:-2]), NOW) == Quiet(TIMES[0], TIMES[-3])


def test_a_request_in_that_time_counts_however_short_it_was() -> None:
    quiet = quiet_before({"a": signals(served_at=NOW - 900)}, ["a"], None, NOW)
    assert quiet is not None
    assert NOW - 900 <= quiet.since(None) <= NOW - 900 + SCRAPE


def test_a_hole_and_an_impossible_number_begin_the_time_again() -> None:
    holed = [at for at in TIMES if not NOW - 700 < at < NOW - 500]
    quiet = quiet_before({"a": signals(times=holed)}, ["a"], None, NOW)
    assert quiet is not None
    assert quiet.since(None) == next(at for at in holed if at >= NOW - 500)
    whole = signals()
    garbled = replace(
        whole, samples=tuple(replace(each, running=math.nan) if each.at < NOW - 300 else each for each in whole.samples)
    )
    quiet = quiet_before({"a": garbled}, ["a"], None, NOW)
    assert quiet is not None
    assert quiet.since(None) >= NOW - 300


def test_the_end_of_a_pod_counts_as_a_request_because_nobody_knows_what_came_after_its_last_sample() -> None:
    gone = signals(times=[at for at in TIMES if at < NOW - 400])
    quiet = quiet_before({"a": signals(), "gone": gone}, ["a"], None, NOW)
    assert quiet is not None
    assert quiet.since(None) == gone.samples[-1].at
    alone = quiet_before({"a": signals(), "b": signals()}, ["a", "b"], None, NOW)
    assert alone is not None
    assert alone.since(None) == TIMES[0]


def test_a_serving_pod_without_samples_and_no_pod_at_all_show_nothing() -> None:
    assert quiet_before({"a": signals()}, ["a", "b"], None, NOW) is None
    assert quiet_before({"a": PodSignals("a", ())}, ["a"], None, NOW) is None
    assert quiet_before({"a": signals()}, [], None, NOW) is None


@pytest.mark.parametrize(
    ("held", "since"),
    [
        (queue(), TIMES[0]),
        (queue(1.0, *[0.0] * 10), TIMES[-11]),
        (queue(times=[at for at in TIMES if at > NOW - 500]), next(at for at in TIMES if at > NOW - 500)),
        (queue(times=[TIMES[0], *TIMES[-5:]]), TIMES[-5]),
    ],
    ids=["empty", "held one", "is young", "has a hole"],
)
def test_the_gateways_queue_must_have_been_empty_as_well(held: GatewayQueue, since: float) -> None:
    quiet = quiet_before({"a": signals()}, ["a"], held, NOW)
    assert quiet is not None
    assert quiet.since(None) == since


@pytest.mark.parametrize("state", [state for state in SignalState if state is not SignalState.FRESH])
def test_a_queue_that_is_not_known_shows_nothing(state: SignalState) -> None:
    assert quiet_before({"a": signals()}, ["a"], GatewayQueue(state), NOW) is None


def test_engines_alone_show_nothing_of_an_earlier_time_where_a_gateway_may_have_held_a_request() -> None:
    seen = Quiet(NOW - 600, NOW)
    assert LoopMemory().with_quiet(seen, NOW, has_gateway=True).quiet_since == NOW
    before = Quiet(NOW - 1800, NOW - 5)
    assert LoopMemory().with_quiet(seen, NOW, before, has_gateway=True).quiet_since == NOW - 1800
    known = LoopMemory(quiet_since=NOW - 700, quiet_at=NOW - 5)
    assert known.with_quiet(seen, NOW, has_gateway=True).quiet_since == NOW - 700


def test_it_counts_in_the_first_turn_only_and_only_without_a_hole_up_to_it() -> None:
    before, seen = Quiet(NOW - 1800, NOW - 5), Quiet(NOW - 600, NOW)
    assert LoopMemory().with_quiet(Quiet(NOW - 1, NOW), NOW, before).quiet_since == NOW - 1
    assert LoopMemory().with_quiet(replace(seen, last_request=NOW - 60), NOW, before).quiet_since == NOW - 60
    later = LoopMemory(quiet_since=NOW - 700, quiet_at=NOW - 400).with_quiet(seen, NOW, before)
    assert later.quiet_since == NOW - 600, "after a hole in the turns, it is no news"
