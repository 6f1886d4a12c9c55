"""The memory of live use: one question for all tabs, pages that never wait, and figures that grow old without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import cast

import pytest

from plimsoll.adapters.prometheus.bounded_session import QueryRefused
from plimsoll.console.sources.live import KEPT_SECONDS, MOST_PAST_READINGS, YOUNG_SECONDS, LiveSource, live_source
from plimsoll.console.sources.prometheus_live import PrometheusLive
from plimsoll.console.views.fleet import FleetTotals, GpuTotal
from plimsoll.console.views.load.live_use import (
    STALE_SECONDS,
    EnginePod,
    LiveReading,
    LiveState,
    MapSpan,
    PastUse,
    use_of,
)
from plimsoll.domain.errors import InvalidInput, PlimsollError, SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals

A, B = ObjectKey("chat", "a-0"), ObjectKey("team", "b-0")
SPAN = MapSpan(3600, 60)


@dataclass
class Played:
    """A reader whose pods report KV use 0.5 now, until it fails or hangs."""

    asked: list[frozenset[ObjectKey]] = field(default_factory=list)
    missing: set[ObjectKey] = field(default_factory=set)
    error: PlimsollError | None = None
    go_on: threading.Event = field(default_factory=threading.Event)
    past_goes_on: threading.Event = field(default_factory=threading.Event)

    def last(self, pods: Collection[ObjectKey], *, now: float, window_seconds: int) -> dict[ObjectKey, PodSignals]:
        assert window_seconds > STALE_SECONDS
        self.asked.append(frozenset(pods))
        self.wait()
        sample = EngineSample(now, kv_usage=0.5, running=1, waiting=0)
        return {pod: PodSignals(pod.name, (sample,)) for pod in pods if pod not in self.missing}

    def over_time(self, pods: Collection[ObjectKey], *, now: float, span: MapSpan) -> PastUse:
        self.asked.append(frozenset(pods))
        self.past_goes_on.wait()
        self.wait()
        return PastUse(now, span)

    def totals(self, *, now: float) -> FleetTotals | None:
        self.asked.append(frozenset())
        self.wait()
        return FleetTotals(now, (GpuTotal("l4-24gb", 3, 1),))

    def wait(self) -> None:
        self.go_on.wait()
        if self.error is not None:
            raise self.error


@dataclass
class Bench:
    reader: Played
    source: LiveSource
    now: float = 1_700_000_000.0


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(Played(), LiveSource(None))
    made.reader.go_on.set()
    made.reader.past_goes_on.set()
    made.source = LiveSource(cast("PrometheusLive", made.reader), wall=lambda: made.now, patience_seconds=10)
    yield made
    made.reader.go_on.set()
    made.reader.past_goes_on.set()
    made.source.close()


def kv(reading: LiveReading, now: float) -> tuple[float, float] | None:
    """Return the KV use of pod A and its age."""
    found = use_of([EnginePod(A)], reading.pods, now).kv
    return None if found is None else (found.value, found.age(now))


async def test_without_an_url_there_are_no_live_figures() -> None:
    source = live_source("")
    assert await source.last([A]) == LiveReading(LiveState.ABSENT)
    assert await source.over_time([A], SPAN) is None
    source.close()


async def test_all_tabs_share_one_question_for_some_seconds(bench: Bench) -> None:
    readings = await asyncio.gather(*(bench.source.last([A]) for _ in range(20)))
    assert {reading.state for reading in readings} == {LiveState.ANSWERS}
    assert len(bench.reader.asked) == 1
    bench.now += YOUNG_SECONDS + 0.1
    await bench.source.last([A])
    assert len(bench.reader.asked) == 2


async def test_a_person_gets_only_the_pods_that_were_asked_for(bench: Bench) -> None:
    await bench.source.last([A, B])
    assert set((await bench.source.last([B])).pods) == {B}
    assert set((await bench.source.last([A, B])).pods) == {A, B}
    assert len(bench.reader.asked) == 1


async def test_two_persons_at_once_both_get_their_own_pods(bench: Bench) -> None:
    first, second = await asyncio.gather(bench.source.last([A]), bench.source.last([B]))
    assert (set(first.pods), set(second.pods)) == ({A}, {B})
    assert bench.reader.asked == [{A}, {B}]


async def test_a_dead_prometheus_leaves_the_last_figures_with_their_age(bench: Bench) -> None:
    assert kv(await bench.source.last([A]), bench.now) == (0.5, 0)
    bench.reader.error = SourceUnavailable("Prometheus cannot be reached (ConnectionError)")
    bench.now += 10
    await bench.source.last([A])
    bench.now += 60
    reading = await bench.source.last([A])
    assert (reading.state, reading.since) == (LiveState.SILENT, bench.now - 60)
    assert "cannot be reached" in reading.error
    assert kv(reading, bench.now) == (0.5, 70)
    assert use_of([EnginePod(A)], reading.pods, bench.now).is_stale(bench.now)


async def test_figures_come_back_by_themselves(bench: Bench) -> None:
    bench.reader.error = InvalidInput("PLIMSOLL_PROMETHEUS_TOKEN_FILE", "t", "Write a token into it.")
    assert (await bench.source.last([A])).state is LiveState.SILENT
    bench.reader.error = None
    bench.now += 6
    await bench.source.last([A])
    await bench.source.settled()
    reading = await bench.source.last([A])
    assert (reading.state, reading.since, reading.error) == (LiveState.ANSWERS, None, "")
    assert kv(reading, bench.now) == (0.5, 0)


async def test_a_slow_prometheus_holds_no_page(bench: Bench) -> None:
    bench.source.patience_seconds = 0.01
    bench.reader.go_on.clear()
    reading = await bench.source.last([A])
    assert (reading.state, reading.pods) == (LiveState.READING, {})
    assert await bench.source.over_time([A], SPAN) is None
    bench.reader.go_on.set()
    await bench.source.settled()
    assert (await bench.source.last([A])).state is LiveState.ANSWERS


async def test_a_server_that_never_answers_is_asked_no_more_after_some_attempts(bench: Bench) -> None:
    bench.reader.error = SourceUnavailable("Prometheus did not answer within 5 s")
    for _ in range(12):
        bench.now += 6
        await bench.source.last([A])
        await bench.source.settled()
    assert len(bench.reader.asked) == 5
    assert "has not answered since" in (await bench.source.last([A])).error


async def test_a_pod_that_stopped_reporting_grows_old_and_then_unknown(bench: Bench) -> None:
    await bench.source.last([A, B])
    bench.reader.missing = {A}
    bench.now += 100
    reading = await bench.source.last([A, B])
    assert kv(reading, bench.now) == (0.5, 100)
    assert reading.state is LiveState.ANSWERS
    bench.now += KEPT_SECONDS
    assert kv(await bench.source.last([A, B]), bench.now) is None


async def test_the_past_is_asked_for_once_for_all_tabs(bench: Bench) -> None:
    found = await asyncio.gather(*(bench.source.over_time([A], SPAN) for _ in range(5)))
    assert {past.until for past in found if past} == {bench.now}
    assert len(bench.reader.asked) == 1
    bench.reader.error = SourceUnavailable("gone")
    bench.now += 60
    kept = await bench.source.over_time([A], SPAN)
    assert kept is not None
    assert kept.until == bench.now - 60


async def test_a_refused_question_about_the_past_leaves_the_last_figures_live(bench: Bench) -> None:
    bench.reader.error = QueryRefused("Prometheus answered HTTP 422")
    assert await bench.source.over_time([A], SPAN) is None
    bench.reader.error = None
    assert (await bench.source.last([A])).state is LiveState.ANSWERS
    bench.reader.error = QueryRefused("Prometheus answered HTTP 422")
    bench.now += 6
    assert (await bench.source.last([A])).state is LiveState.SILENT


async def test_many_questions_about_the_past_do_not_stop_the_last_figures(bench: Bench) -> None:
    bench.source.patience_seconds = 0.01
    bench.reader.past_goes_on.clear()
    for number in range(10):
        assert await bench.source.over_time([ObjectKey("chat", f"a-{number}")], SPAN) is None
    bench.source.patience_seconds = 10
    reading = await bench.source.last([B])
    assert (reading.state, set(reading.pods)) == (LiveState.ANSWERS, {B})
    assert len(bench.reader.asked) <= MOST_PAST_READINGS + 1


def test_the_source_has_the_settings_of_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    assert live_source("http://prometheus.invalid").reader is not None
    monkeypatch.setenv("PLIMSOLL_PROMETHEUS_LABELS", "namespace")
    with pytest.raises(InvalidInput, match="PLIMSOLL_PROMETHEUS_LABELS"):
        live_source("http://prometheus.invalid")
    assert live_source("").reader is None


async def test_totals_are_asked_for_once_in_some_seconds_and_outlive_a_failure(bench: Bench) -> None:
    first = await bench.source.totals()
    assert first == await bench.source.totals() == FleetTotals(bench.now, (GpuTotal("l4-24gb", 3, 1),))
    assert len(bench.reader.asked) == 1
    bench.now += YOUNG_SECONDS
    bench.reader.error = SourceUnavailable("down")
    assert await bench.source.totals() == first  # with its own, older time
    assert len(bench.reader.asked) == 2
    bench.now += YOUNG_SECONDS
    bench.reader.error = None
    await bench.source.totals()
    await bench.source.settled()
    assert await bench.source.totals() == FleetTotals(bench.now, (GpuTotal("l4-24gb", 3, 1),))


async def test_a_refused_question_about_totals_costs_no_live_figure(bench: Bench) -> None:
    assert kv(await bench.source.last([A]), bench.now) == (0.5, 0.0)
    bench.reader.error = QueryRefused("403")
    assert await bench.source.totals() is None
    reading = await bench.source.last([A])  # young enough to be given again without a question
    assert (reading.state, kv(reading, bench.now)) == (LiveState.ANSWERS, (0.5, 0.0))


async def test_a_page_does_not_wait_for_totals_that_hang(bench: Bench) -> None:
    bench.reader.go_on.clear()
    bench.source.patience_seconds = 0.05
    assert await bench.source.totals() is None
    assert await live_source("").totals() is None
