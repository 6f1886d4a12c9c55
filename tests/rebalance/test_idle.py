"""Since when no request came: only what scrapes show counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from plimsoll.rebalance.signals.idle import Quiet, quiet_of
from plimsoll.rebalance.signals.metrics import EngineSample
from plimsoll.rebalance.signals.tracks import Track
from plimsoll.rebalance.state.memory import LoopMemory
from tests.support.engine_loads import LONG_AGO, NOW, Serves, moments, track

NOBODY = Serves(rate=0.0, running=0, kv_usage=0.0)
TIMES = moments(600)


def changed(at: int, change: Callable[[EngineSample], EngineSample]) -> Track:
    """A pod that serves nobody, with another sample at one place."""
    samples = list(track(NOBODY, TIMES).samples)
    samples[at] = change(samples[at])
    return Track("a", samples, LONG_AGO)


def test_a_pod_that_serves_nobody_is_quiet_since_its_first_sample() -> None:
    assert quiet_of([track(NOBODY, TIMES)]) == Quiet(TIMES[0], TIMES[-1])


@pytest.mark.parametrize("load", [Serves(rate=0.0, running=1), Serves(rate=0.0, running=0, waiting=1)])
def test_a_request_that_runs_or_waits_is_seen(load: Serves) -> None:
    quiet = quiet_of([track(load, TIMES)])
    assert quiet is not None
    assert quiet.last_request == NOW


def test_a_request_between_two_scrapes_is_seen_in_the_counters() -> None:
    served = track(NOBODY, TIMES, came=lambda at: 1.0 if at > NOW - 100 else 0.0)
    quiet = quiet_of([served, track(NOBODY, TIMES)])
    assert quiet is not None
    assert quiet.since(None) == quiet.last_request == TIMES[-7]


def test_an_engine_that_began_again_may_have_served_before() -> None:
    quiet = quiet_of([track(NOBODY, TIMES, came=lambda at: 9.0 if at < NOW - 300 else 0.0)])
    assert quiet is not None
    assert quiet.last_request == TIMES[-21]


def test_without_what_runs_or_what_was_begun_nobody_knows() -> None:
    assert quiet_of([changed(-1, lambda one: replace(one, running=None))]) is None
    silent = changed(-1, lambda one: replace(one, first_tokens_total=None, prompt_tokens_total=None))
    assert quiet_of([silent]) is None
    assert quiet_of([track(NOBODY, TIMES), silent]) is None
    assert quiet_of([]) is None
    assert quiet_of([changed(-1, lambda one: replace(one, first_tokens_total=None))]) is not None


def test_a_number_that_is_missing_in_the_middle_begins_the_time_again() -> None:
    quiet = quiet_of([changed(-5, lambda one: replace(one, running=None))])
    assert quiet is not None
    assert quiet.since(TIMES[0]) == quiet.last_hole == TIMES[-4]


def test_an_outage_is_not_quiet_and_a_lost_scrape_is() -> None:
    outage = track(NOBODY, [at for at in TIMES if not NOW - 300 < at < NOW - 200])
    quiet = quiet_of([outage])
    assert quiet is not None
    assert quiet.since(None) == NOW - 195
    lost = quiet_of([track(NOBODY, [at for at in TIMES if at != TIMES[-5]])])
    assert lost is not None
    assert lost.since(None) == TIMES[0]


def test_the_time_goes_on_from_turn_to_turn_and_begins_again_after_a_gap() -> None:
    slides = Quiet(NOW - 600, NOW)
    memory = LoopMemory(quiet_since=NOW - 5000, quiet_at=NOW - 5)
    assert memory.with_quiet(slides, NOW).quiet_since == NOW - 5000
    assert memory.with_quiet(replace(slides, last_request=NOW - 40), NOW).quiet_since == NOW - 40
    assert replace(memory, quiet_at=NOW - 90).with_quiet(slides, NOW).quiet_since == NOW - 5000
    assert replace(memory, quiet_at=NOW - 91).with_quiet(slides, NOW).quiet_since == NOW - 600
    assert LoopMemory().with_quiet(slides, NOW).quiet_since == NOW - 600
    assert not math.isnan(memory.with_quiet(slides, NOW).quiet_at)
