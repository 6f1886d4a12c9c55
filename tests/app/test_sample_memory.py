from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from itertools import count, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.adapters.prometheus.readings import without_lone_errors
from plimsoll.app.live.sample_memory import (
    MOST_DEPARTED,
    MOST_SAMPLES,
    WHOLE_SECONDS,
    Memory,
    SampleQuery,
    next_due,
    questions,
    remembered,
    signals_of,
)
from plimsoll.app.live.wanted import HISTORY_SECONDS
from plimsoll.rebalance.signals.load import ERRORS_IN_A_ROW, LoadSummary, summarize
from plimsoll.rebalance.signals.metrics import COUNTS, NUMBERS, EngineSample, PodSignals, SignalState
from plimsoll.rebalance.signals.tracks import steady_of
from tests.support.engine_loads import Serves
from tests.support.tables import examples

NOW = 1_700_000_000.0
WINDOW = HISTORY_SECONDS


def sample(at: float, usage: float = 0.5) -> EngineSample:
    return EngineSample(at, kv_usage=usage, waiting=0.0, kv_capacity_tokens=1000)


def signals(pod: str, samples: Iterable[EngineSample]) -> dict[str, PodSignals]:
    return {pod: PodSignals(pod, tuple(samples))}


def scrapes(begin: float, end: float, step: float = 15.0) -> list[EngineSample]:
    return [sample(begin + step * number) for number in range(int((end - begin) / step) + 1)]


def after(memory: Memory, read: dict[str, PodSignals], now: float, *pods: str) -> Memory:
    return remembered(memory, read, pods or ("p",), WINDOW, now)


def ages(memory: Memory, now: float, pod: str = "p") -> list[float]:
    return [now - each.at for each in memory[pod].samples]


def test_a_new_pod_is_read_whole_and_a_known_one_from_its_last_sample() -> None:
    memory = after({}, signals("p", [sample(NOW - 10)]), NOW)

    assert questions({}, ("p", "q"), WINDOW, NOW) == [SampleQuery(("p", "q"), WINDOW)]
    assert questions(memory, ("p", "q"), WINDOW, NOW + 6) == [SampleQuery(("q",), WINDOW), SampleQuery(("p",), 21)]


@pytest.mark.parametrize(
    ("ages_at_reading", "due"),
    [
        ((20.0, 5.0), 11.0),  # a second after the next scrape
        ((25.0, 10.0, 5.0), 1 / 3),  # a scrape out of turn: the next may come as soon
        ((37.0, 22.0, 7.0), 9.0),
        ((46.0, 31.0, 1.0), 15.0),  # one that was lost makes the period no longer
        ((65.0, 5.0), 59.0),
        ((32.0, 17.0), -1.0),  # late: read in every round
        ((215.0, 200.0), 15.0),  # silent: once a period
        ((605.0, 5.0), 59.0),
    ],
)
def test_a_pod_is_read_again_when_its_next_sample_should_be_there(
    ages_at_reading: tuple[float, ...], due: float
) -> None:
    memory = after({}, signals("p", [sample(NOW - age) for age in ages_at_reading]), NOW)

    assert memory["p"].due_at - NOW == pytest.approx(due)
    assert next_due(memory, ("p",), NOW - 60) == memory["p"].due_at
    assert bool(questions(memory, ("p",), WINDOW, NOW + due - 0.1)) == (due < 0)
    assert questions(memory, ("p",), WINDOW, NOW + due + 0.1)


def test_pods_that_are_scraped_at_different_moments_are_read_together_twice_a_period() -> None:
    both = signals("p", [sample(NOW - 29), sample(NOW - 14)]) | signals("q", [sample(NOW - 25), sample(NOW - 10)])
    memory = after({}, both, NOW, "p", "q")

    assert next_due(memory, ("p", "q"), NOW) == NOW + 7.5, "although a new sample of one is there 2 s from now"
    assert questions(memory, ("p", "q"), WINDOW, NOW + 7.5) == [SampleQuery(("p", "q"), 27)]
    assert next_due(after(memory, {}, NOW, "r"), ("r",), NOW) == NOW, "a pod without samples is awaited"
    assert next_due(memory, (), NOW) == NOW + 15


def test_pods_that_are_due_within_half_a_period_are_read_together_once_in_it() -> None:
    """Scrapes are at 0, 2, 4 and 6 s of each 15: half a period after the last one, none is awaited."""
    pods = ("p", "q", "r", "s")
    known: dict[str, PodSignals] = {}
    for index, pod in enumerate(pods):
        known |= signals(pod, [sample(NOW + 2 * index - 15), sample(NOW + 2 * index)])
    memory = after({}, known, NOW + 7, *pods)

    assert next_due(memory, pods, NOW + 7) == NOW + 22, "the last of them is scraped at 21 s, and takes up to a second"
    assert next_due(memory, pods[:1], NOW + 7) == NOW + 16


@given(st.lists(st.floats(0, 15), min_size=1, max_size=6))
def test_no_sample_waits_for_others_longer_than_half_a_period(phases: list[float]) -> None:
    pods = tuple(f"p{index}" for index in range(len(phases)))
    memory: Memory = {}
    now, read_at, newest = NOW, list[float](), list[float]()
    while now < NOW + 300:
        read = dict[str, PodSignals]()
        for pod, phase in zip(pods, phases, strict=True):
            last = phase + 15 * ((now - NOW - phase) // 15)
            read |= signals(pod, [sample(NOW + last - 15), sample(NOW + last)])
        asked = {pod for query in questions(memory, pods, WINDOW, now) for pod in query.pods}
        newest = [signals_of(memory)[pod].samples[-1].at for pod in pods] if memory else []
        assert not newest or now - min(newest) <= 15 + 1 + 7.5 + 0.001, "a period, a late scrape, and half a period"
        memory = remembered(memory, read, pods, WINDOW, now, asked)
        read_at.append(now)
        now = max(next_due(memory, pods, now), now + 0.001)

    assert len(read_at) <= 2 * 300 / 15 + 1, "twice a period at most"


def test_a_pod_that_never_reported_is_read_in_every_round_at_first_and_then_once_a_period() -> None:
    memory: Memory = {}
    for second in range(0, 60, 5):
        is_due = bool(questions(memory, ("p",), WINDOW, NOW + second))
        assert is_due == (second <= 40 or second == 55), second
        memory = after(memory, {}, NOW + second) if is_due else memory


def test_only_pods_that_were_asked_about_are_remembered_anew() -> None:
    memory = after({}, signals("p", [sample(NOW)]) | signals("q", [sample(NOW)]), NOW, "p", "q")
    more = remembered(memory, signals("q", [sample(NOW), sample(NOW + 15)]), ("p", "q"), WINDOW, NOW + 16, ("q",))
    same = remembered(more, signals("q", [sample(NOW + 15)]), ("p", "q"), WINDOW, NOW + 17, ("q",))

    assert more["p"] is memory["p"]
    assert [each.at - NOW for each in signals_of(more)["q"].samples] == [0, 15]
    assert same["q"].signals is more["q"].signals, "what was read twice changes nothing"


def test_a_pod_that_fell_silent_does_not_make_every_reading_long() -> None:
    memory = after({}, signals("p", [sample(NOW - 500)]), NOW)

    assert questions(memory, ("p",), WINDOW, NOW + 15) == [SampleQuery(("p",), 110)]


def test_a_pod_without_samples_is_read_a_little_and_not_whole_each_time() -> None:
    memory = after({}, {}, NOW)

    assert questions(memory, ("p",), WINDOW, NOW + 5) == [SampleQuery(("p",), 100)]
    assert signals_of(memory) == {}


def test_after_a_long_pause_no_more_than_the_window_is_read() -> None:
    memory = after({}, signals("p", [sample(NOW - 10)]), NOW)

    assert questions(memory, ("p",), WINDOW, NOW + 86_400) == [SampleQuery(("p",), WINDOW)]


def test_what_is_read_twice_is_kept_once() -> None:
    memory = after({}, signals("p", scrapes(NOW - 60, NOW)), NOW)
    again = [sample(each.at + 0.01) for each in scrapes(NOW - 15, NOW + 15)]

    memory = after(memory, signals("p", again), NOW + 15)

    assert ages(memory, NOW) == pytest.approx([60, 45, 30, 14.99, -0.01, -15.01])


def test_old_samples_are_thinned_to_one_a_minute_and_very_old_ones_dropped() -> None:
    memory = after({}, signals("p", scrapes(NOW - 900, NOW)), NOW)

    found = ages(memory, NOW)
    assert found[0] <= 700
    assert [age for age in found if age <= 150] == [15.0 * number for number in range(10, -1, -1)]
    assert len(found) == 20
    assert max(earlier - later for earlier, later in pairwise(found)) == 60


def test_thinning_again_and_again_makes_no_hole() -> None:
    memory: Memory = {}
    for step in range(200):
        now = NOW + 5 * step
        memory = after(memory, signals("p", scrapes(NOW + 15 * (step // 3) - 15.1, now)), now)
        found = ages(memory, now)
        assert all(earlier - later <= 60.2 for earlier, later in pairwise(found))
        assert len(found) <= 25


def test_a_long_window_is_still_covered() -> None:
    memory = after({}, signals("p", scrapes(NOW - 660, NOW)), NOW)

    load = summarize(list(signals_of(memory).values()), ["p"], NOW, window_seconds=600, capacity_tokens=1000)

    assert load.state is SignalState.FRESH


def test_a_pod_that_is_gone_is_remembered_for_the_window_and_its_neighbour_for_longer() -> None:
    both = signals("p", [sample(NOW)]) | signals("q", [sample(NOW)])
    memory = after({}, both, NOW, "p", "q")

    soon = after(memory, {}, NOW + 5, "q")
    assert (ages(soon, NOW), ages(soon, NOW, "q")) == ([0], [0])
    assert questions(soon, ("q",), WINDOW, NOW + 16) == [SampleQuery(("q",), 21)]

    later = NOW + WINDOW + 60
    assert list(after(soon, signals("q", [sample(later)]), later, "q")) == ["q"]


def test_pods_that_come_and_go_do_not_fill_the_memory() -> None:
    memory: Memory = {}
    for number in range(200):
        memory = after(memory, signals(f"p{number}", [sample(NOW + number)]), NOW + number, f"p{number}")

    assert sorted(memory) == sorted(f"p{number}" for number in range(199 - MOST_DEPARTED, 200))


def test_a_page_with_a_time_for_each_series_fills_no_memory_and_its_neighbour_keeps_its_history() -> None:
    crowded = signals("p", (sample(NOW - number / 100) for number in range(12_000)))
    honest = signals("q", scrapes(NOW - 600, NOW))
    memory = after({}, crowded | honest, NOW, "p", "q")
    assert len(memory["p"].samples) == MOST_SAMPLES
    assert ages(memory, NOW)[-1] == 0, "the newest are kept"
    assert memory["q"] == after({}, honest, NOW, "q")["q"]


def test_samples_of_the_future_are_forgotten_when_the_clock_is_set_back() -> None:
    memory = after({}, signals("p", scrapes(NOW - 60, NOW)), NOW)
    earlier = NOW - 3600

    assert questions(memory, ("p",), WINDOW, earlier) == [SampleQuery(("p",), WINDOW)]
    memory = after(memory, signals("p", [sample(earlier - 5)]), earlier)
    assert ages(memory, earlier) == [5]


def test_an_impossible_number_now_and_then_costs_itself_and_in_a_row_the_pod() -> None:
    memory: Memory = after({}, signals("p", scrapes(NOW - 60, NOW)), NOW)
    states = []
    for step in range(1, ERRORS_IN_A_ROW + 2):
        now = NOW + 15 * step
        usage = 1.5 if step <= ERRORS_IN_A_ROW else 0.5
        memory = after(memory, signals("p", [sample(now, usage)]), now)
        load = summarize(list(signals_of(memory).values()), ["p"], now, window_seconds=120, capacity_tokens=1000)
        states.append(load.state)

    assert SignalState.INVALID not in states[:2]
    assert states[ERRORS_IN_A_ROW - 1] is SignalState.INVALID
    assert states[ERRORS_IN_A_ROW] is not SignalState.INVALID


def test_a_thousand_pods_take_less_than_14_mib() -> None:
    numbers = count(1)

    def full(at: float) -> EngineSample:
        values: dict[str, Any] = {name: next(numbers) + 0.5 for name in NUMBERS}
        return replace(EngineSample(at), **values | {"kv_usage": next(numbers) * 1e-9, "kv_capacity_tokens": 10**6})

    def kept(pod: int) -> tuple[Memory, dict[str, PodSignals]]:
        name = f"p-{pod}"
        memory = after({}, signals(name, [full(NOW - 15 * number) for number in range(46, -1, -1)]), NOW, name)
        return memory, signals_of(memory)

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        pods = [kept(pod) for pod in range(100)]
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(pods) == 100
    assert used * 10 < 14 * 2**20, used * 10 / 2**20


def scraped(dice: Random) -> list[tuple[float, EngineSample]]:
    """Return a pod's samples by the source's clock, in their order, each with the moment at which the source has it.

    Some are late, and some follow a gap. Of every other pod, the engine starts anew now and then, and some samples lack
    a number or have an impossible one.
    """
    found, at, there, served = list[tuple[float, EngineSample]](), NOW - 800 + dice.uniform(0, 15), 0.0, 0.0
    oddness = dice.choice((0.0, 0.1))
    while at < NOW + 900:
        served = 0.0 if dice.random() < oddness / 3 else served + dice.uniform(0, 30)
        load = Serves(waiting=dice.choice((0.0, 0.0, 3.0)), running=dice.uniform(0, 9), kv_usage=dice.random())
        one = load.sample(at, served)
        if dice.random() < oddness:
            wrong: dict[str, Any] = {dice.choice(COUNTS): dice.choice((math.nan, -1.0, math.inf, 2.0**60, None))}
            one = replace(one, **wrong)
        there = max(there, at + dice.choice((0.1, 0.1, 0.1, 25.0, 55.0)))
        found.append((there, one))
        at += 15 if dice.random() < 0.9 else dice.choice((7.0, 30.0, 75.0, 200.0))
    return found


def young(memory: Memory, pod: str, now: float) -> list[EngineSample]:
    """Return the samples that are not thinned, without the figures of which one reading sees more errors in a row."""
    kept = (each for each in memory[pod].signals.samples if each.at >= now - WHOLE_SECONDS)
    return [replace(each, kv_usage=None, waiting=None) for each in kept]


def summed(memory: Memory, expected: list[str], now: float, since: dict[str, float], *, afresh: bool) -> LoadSummary:
    """Return the load at a moment; ``afresh``: from copies of the samples, of which nothing was looked at before."""
    found = signals_of(memory)
    if afresh:
        found = {pod: PodSignals(pod, tuple(map(replace, each.samples))) for pod, each in found.items()}
    return summarize([*found.values()], expected, now, window_seconds=120, capacity_tokens=1000, ready_since=since)


@given(st.integers(0, 2**32))
@settings(max_examples=examples(20))
def test_what_is_kept_from_reading_to_reading_decides_as_one_reading_from_scratch(seed: int) -> None:
    """Whatever comes late, is lost, begins anew or cannot be, and however our own clock is set."""
    dice = Random(seed)  # noqa: S311 - a story that can be told again
    source = {pod: scraped(dice) for pod in ("p", "q", "r")[: dice.randint(1, 3)]}
    true, ahead, memory = NOW, 0.0, dict[str, Any]()

    def read(pods: Iterable[str], seconds: float) -> dict[str, PodSignals]:
        there = {pod: [one for at, one in source[pod] if at <= true and one.at > true - seconds] for pod in pods}
        shifted = {pod: [replace(one, at=one.at + ahead) for one in some] for pod, some in there.items()}
        return {pod: PodSignals(pod, without_lone_errors(some)) for pod, some in shifted.items()}

    while true < NOW + 600:
        now, found = true + ahead, dict[str, PodSignals]()
        for query in questions(memory, tuple(source), WINDOW, now):
            found |= read(query.pods, query.window_seconds)
        memory = remembered(memory, found, tuple(source), WINDOW, now, found.keys())
        whole = remembered({}, read(source, WINDOW), tuple(source), WINDOW, now)
        for pod in found:
            assert young(memory, pod, now) == young(whole, pod, now)
            kept = memory[pod].signals
            assert kept.steady <= steady_of(kept.samples), "thinning may hide why samples were not steady"
        expected = [pod for pod in source if dice.random() < 0.9]
        since = {pod: now - dice.choice((20.0, 100.0, 7200.0)) for pod in expected}
        for later in (0.0, dice.uniform(0, 90), -dice.uniform(0, 20)):
            carried, anew = (summed(memory, expected, now + later, since, afresh=afresh) for afresh in (False, True))
            assert carried == anew
        true += dice.choice((1.0, 5.0, 15.0, 40.0))
        if dice.random() < 0.05:
            ahead += dice.choice((-3000.0, -300.0, 3000.0))
