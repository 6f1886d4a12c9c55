"""The gateway's queue: what is known of it, and how its requests count among those of the engines."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from plimsoll.rebalance.diagnosis.diagnose import load_numbers
from plimsoll.rebalance.diagnosis.judging import judged
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.gateway_scrapes import queue_of
from plimsoll.rebalance.signals.load import LoadSummary, summarize
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.tracks import TimeSeries
from tests.support.engine_loads import KV_TOKENS, LONG_AGO, NOW, Serves, moments, pod
from tests.support.live_situations import situation


def scrapes(*values: float, newest: float = NOW - 1, every: float = 15) -> dict[float, float]:
    """One process of the gateway; the last value is of the newest scrape."""
    return {newest - every * index: value for index, value in enumerate(reversed(values))}


def with_gateway(load: Serves, queue: GatewayQueue | None, start_at: float | None = None) -> LoadSummary:
    def came(at: float) -> float:
        return load.rate * (at - LONG_AGO) if start_at is None else max(0.0, load.rate * (at - start_at))

    return summarize(
        (pod("a", load, moments(), came=came),),
        ["a"],
        NOW,
        window_seconds=120,
        capacity_tokens=KV_TOKENS,
        ready_since={"a": LONG_AGO},
        gateway=queue,
    )


def test_the_processes_of_a_gateway_hold_its_queue_together() -> None:
    queue = queue_of([scrapes(1, 2, 3), scrapes(4, 4, newest=NOW - 9)], NOW)
    assert (queue.state, queue.waiting) == (SignalState.FRESH, 7)
    assert queue.risen(NOW - 40, NOW) == 2


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0, 1e300])
def test_one_impossible_number_costs_its_scrape_and_three_cost_the_process(wrong: float) -> None:
    once = queue_of([scrapes(3, 4, wrong)], NOW)
    assert (once.state, once.waiting) == (SignalState.FRESH, 4)
    thrice = queue_of([scrapes(3, wrong, wrong, wrong), scrapes(5, 5)], NOW)
    assert (thrice.state, thrice.waiting) == (SignalState.INVALID, 5), "the honest process still counts"


def test_nothing_is_not_an_empty_queue() -> None:
    assert queue_of([], NOW).state is SignalState.MISSING
    assert queue_of([scrapes(0, 0, newest=NOW - 61)], NOW).state is SignalState.STALE
    assert queue_of([scrapes(0, 0, newest=NOW + 3600)], NOW).state is SignalState.STALE
    assert queue_of([scrapes(0, 0)], NOW).is_known


@pytest.mark.parametrize(("ahead", "waiting"), [(5.0, 3), (5.5, 2)])
def test_a_scrape_counts_that_is_ahead_by_no_more_than_clocks_differ(ahead: float, waiting: int) -> None:
    queue = queue_of([scrapes(1, 2, 3, newest=NOW + ahead)], NOW)
    assert (queue.state, queue.waiting) == (SignalState.FRESH, waiting)


def test_a_process_that_ended_holds_nothing() -> None:
    queue = queue_of([scrapes(9, 9, newest=NOW - 70), scrapes(1)], NOW)
    assert (queue.state, queue.waiting) == (SignalState.FRESH, 1)


def test_requests_at_the_gateway_wait_and_are_in_no_engine() -> None:
    load = with_gateway(Serves(waiting=2), queue_of([scrapes(6, 6, 6)], NOW))
    assert load.traffic is not None
    assert (load.traffic.waiting, load.traffic.at_gateway, load.traffic.in_engines) == (8, 6, 2)
    assert load.traffic.arrivals.per_second == pytest.approx(2.0), "a queue that stays is no arrival"


def test_a_queue_that_grows_is_arrivals_that_no_engine_has_seen() -> None:
    growing = queue_of([scrapes(*(3.0 * 15 * index for index in range(16)))], NOW)
    load = with_gateway(Serves(), growing)
    assert load.traffic is not None
    assert load.traffic.arrivals.per_second == pytest.approx(5.0, rel=0.02)


@pytest.mark.parametrize("late", [1.0, 8.0, 14.0])
def test_a_queue_that_is_handed_over_is_no_arrival(late: float) -> None:
    """The engine begins four requests a second for a minute, all of which waited at the gateway before."""
    drained = {NOW - late - 15 * index: 240 - 4 * max(0.0, 60 - late - 15 * index) for index in range(16)}
    load = with_gateway(Serves(rate=4.0), queue_of([drained], NOW), start_at=NOW - 60)
    assert load.traffic is not None
    assert load.traffic.arrivals.per_second == pytest.approx(0.0, abs=0.05)
    without = with_gateway(Serves(rate=4.0), None, start_at=NOW - 60).traffic
    assert without is not None
    assert without.arrivals.per_second > 1.5


@pytest.mark.parametrize("queue", [None, GatewayQueue(), queue_of([scrapes(0, 0, 0)], NOW)])
def test_an_empty_or_unknown_queue_changes_nothing(queue: GatewayQueue | None) -> None:
    usual = with_gateway(Serves(waiting=1), None)
    assert replace(with_gateway(Serves(waiting=1), queue), gateway=None) == usual


def test_an_empty_queue_is_known_all_the_time() -> None:
    assert queue_of([scrapes(0, 0, newest=NOW - 30)], NOW).known_until == math.inf
    assert queue_of([scrapes(2, 0, newest=NOW - 30), scrapes(1)], NOW).known_until == NOW - 30
    assert GatewayQueue(SignalState.FRESH, (TimeSeries([NOW], [1.0]),)).known_until == NOW


@pytest.mark.parametrize("held", [0, 6])
def test_the_figures_name_the_gateways_queue_if_somebody_waits_there(held: int) -> None:
    where = situation(load=with_gateway(Serves(), queue_of([scrapes(held, held, held)], NOW)))
    wish = judged(where).wish
    assert wish is not None
    assert dict(load_numbers(where, wish)).get("at_gateway") == (held or None)
