from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from plimsoll.adapters.prometheus.pod_scrape import PodScrape
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.adapters.prometheus.readings import Asked
from plimsoll.app.live import sample_memory
from plimsoll.app.live import signal_watch as live
from plimsoll.app.live.season_watch import DaysWanted
from plimsoll.app.live.signal_watch import LiveSignals, reader_of
from plimsoll.app.live.wanted import CAPACITY_WINDOW_SECONDS, WantedSamples
from plimsoll.app.settings import Settings
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.engines.registry import ENGINES
from plimsoll.rebalance.signals.forecast import Point
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.metrics import EngineSample, GpuActivity, PodSignals, SignalState
from plimsoll.rebalance.signals.reading import PastReading, Reading
from plimsoll.rebalance.signals.tracks import TimeSeries
from tests.adapters.fake_engine import engine, page
from tests.support.eventually import HANG_SECONDS, eventually

A, B, C = ObjectKey("x", "a"), ObjectKey("x", "b"), ObjectKey("x", "c")
NOW = 1_700_000_000.0


MANY = tuple(f"p{number}" for number in range(live.MOST_PODS))
"""Pods of an object that is read in a group of its own."""


class FakeReader:
    """Answers with whatever ``answer`` does, and keeps what it was asked."""

    def __init__(self, answer: Callable[[], Reading | None] = Reading, *, has_past: bool = True) -> None:
        self.answer = answer
        self.has_past = has_past
        self.asked: list[tuple[str, tuple[str, ...], int]] = []
        self.groups: list[int] = []

    def read_all(
        self,
        asked: Sequence[Asked],
        metrics: EngineMetrics,  # noqa: ARG002 - the interface of every reader
        *,
        now: float,  # noqa: ARG002 - the same
    ) -> list[Reading | None]:
        self.groups.append(len(asked))
        self.asked += [(each.namespace, tuple(each.pods), each.window_seconds) for each in asked]
        return [self.answer() for _ in asked]


@pytest.fixture(autouse=True)
def _always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pod without samples, or without a pod, be due at once."""
    monkeypatch.setattr(sample_memory, "USUAL_PERIOD_SECONDS", 0.0)


async def rounds(signals: LiveSignals, done: Callable[[], bool]) -> None:
    """Let it read until the condition holds."""
    task = asyncio.create_task(signals.run(0.01))
    await eventually(done)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_nothing_read_yet_is_no_answer_and_no_prometheus_is_one() -> None:
    assert LiveSignals(FakeReader(), lambda: None).reading(A) is None
    nobody = LiveSignals(None, lambda: None).reading(A)
    assert nobody is not None
    assert (nobody.state, nobody.error) == (SignalState.UNAVAILABLE, "No Prometheus is configured")


async def test_every_wanted_object_is_read_and_what_is_not_wanted_any_more_forgotten() -> None:
    changed: list[None] = []
    reader = FakeReader()
    signals = LiveSignals(
        reader, lambda: changed.append(None), {A: WantedSamples(("p", "q"), 90), B: WantedSamples(("r",))}
    )
    await rounds(signals, lambda: len(changed) > 0)
    assert {("x", ("p", "q"), 90), ("x", ("r",), CAPACITY_WINDOW_SECONDS)} == set(reader.asked[:2])
    signals.wanted = {B: WantedSamples(("r",))}
    await rounds(signals, lambda: signals.reading(A) is None)
    assert signals.reading(B) == Reading()


async def test_those_who_promise_a_percentile_are_read_apart_so_that_the_others_cost_what_they_did() -> None:
    class Asking(FakeReader):
        buckets: ClassVar[list[dict[str, bool]]] = []

        def read_all(self, asked: Sequence[Asked], metrics: EngineMetrics, *, now: float) -> list[Reading | None]:
            self.buckets.append({pod: each.buckets for each in asked for pod in each.pods})
            return super().read_all(asked, metrics, now=now)

    reader = Asking()
    wanted = {A: WantedSamples(("p",), buckets=True), B: WantedSamples(("r",)), C: WantedSamples(("s",))}
    await rounds(LiveSignals(reader, lambda: None, wanted), lambda: len(reader.buckets) > 1)
    assert sorted(map(sorted, (each.items() for each in reader.buckets[:2]))) == [
        [("p", True)],
        [("r", False), ("s", False)],
    ]


class OfTwoEngines(FakeReader):
    """Keeps in the words of which engine each pod was asked about, and may have nothing of one engine."""

    def __init__(self, *, has_past: bool, lacks: EngineMetrics | None = None) -> None:
        super().__init__(has_past=has_past)
        self.words: set[tuple[str, int]] = set()
        self.lacks = lacks

    def read_all(
        self,
        asked: Sequence[Asked],
        metrics: EngineMetrics,
        *,
        now: float,  # noqa: ARG002 - the interface of every reader
    ) -> list[Reading | None]:
        self.groups.append(len(asked))
        self.words |= {(pod, id(metrics)) for each in asked for pod in each.pods}
        if metrics is self.lacks:
            return [Reading(state=SignalState.UNAVAILABLE, error="no page")] * len(asked)
        sample = (EngineSample(time.time(), kv_usage=0.5, waiting=0.0),)
        return [Reading({pod: PodSignals(pod, sample) for pod in each.pods}) for each in asked]


OLD, NEW = ENGINES["vllm"].metrics, ENGINES["sglang"].metrics
SWITCHED = WantedSamples(("old", "new"), metrics=NEW, of_pods={"old": OLD})
ONE_OF_EACH = {A: SWITCHED, B: WantedSamples(("q",), metrics=OLD), C: WantedSamples(("r",), metrics=NEW)}


@pytest.mark.parametrize("has_past", [True, False])
async def test_pods_of_two_engines_of_one_object_are_read_in_the_words_of_each(has_past: bool) -> None:  # noqa: FBT001
    reader = OfTwoEngines(has_past=has_past)
    signals = LiveSignals(reader, lambda: None, ONE_OF_EACH)
    await rounds(signals, lambda: all(each in signals.readings for each in ONE_OF_EACH))
    assert reader.words == {("old", id(OLD)), ("new", id(NEW)), ("q", id(OLD)), ("r", id(NEW))}
    found = {key: sorted(signals.readings[key].pods) for key in ONE_OF_EACH}
    assert found == {A: ["new", "old"], B: ["q"], C: ["r"]}


@pytest.mark.parametrize(("has_past", "is_known"), [(True, False), (False, True)], ids=["Prometheus", "pages"])
async def test_pages_that_do_not_answer_hide_none_of_another_engine_and_a_server_that_does_not_hides_all(
    has_past: bool,  # noqa: FBT001
    is_known: bool,  # noqa: FBT001
) -> None:
    reader = OfTwoEngines(has_past=has_past, lacks=NEW)
    signals = LiveSignals(reader, lambda: None, ONE_OF_EACH)
    await rounds(signals, lambda: all(each in signals.readings for each in ONE_OF_EACH))
    assert ("old" in signals.readings[A].pods) is is_known
    assert [*signals.readings[B].pods] == ["q"]
    assert signals.readings[C].error == "no page"


class WithGpus(FakeReader):
    """Knows how busy GPUs are, or fails to find out."""

    def __init__(self, busy: GpuActivity | None, answer: Callable[[], Reading | None] = Reading) -> None:
        super().__init__(answer)
        self.busy, self.questions = busy, 0

    def gpu_activities(
        self, pods: Mapping[ObjectKey, Collection[str]], *, now: float
    ) -> Mapping[ObjectKey, GpuActivity | None]:
        assert (dict(pods), now > NOW) == ({A: ("p",)}, True)
        self.questions += 1
        if self.busy is None:
            raise RuntimeError("no such thing")
        return {A: self.busy}


@pytest.mark.parametrize("busy", [GpuActivity(0.8, 0.1), None], ids=str)
async def test_the_activity_of_gpus_is_asked_once_and_its_failure_costs_nothing(busy: GpuActivity | None) -> None:
    reader = WithGpus(busy)
    signals = LiveSignals(reader, lambda: None, {A: WantedSamples(("p",))})
    await rounds(signals, lambda: len(reader.asked) > 2)
    assert signals.reading(A) == Reading(gpus=busy)
    assert reader.questions == 1 if busy else reader.questions > 0
    signals.wanted = {}
    await rounds(signals, lambda: signals.reading(A) is None)
    assert not signals.gpus.answers


class WithDays(FakeReader):
    """Knows the days before, or fails to find out."""

    def __init__(self, *, fails: bool = False, answer: Callable[[], Reading | None] = Reading) -> None:
        super().__init__(answer)
        self.fails = fails
        self.names: list[str] = []

    def arrivals_before(
        self,
        namespace: str,
        deployment: str,
        metrics: EngineMetrics,  # noqa: ARG002 - the interface of every reader
        *,
        until: float,
        seconds: float,
    ) -> PastReading:
        assert namespace == "x"
        self.names.append(deployment)
        if self.fails:
            raise RuntimeError("no such thing")
        first, last = math.ceil((until - seconds) / 300), int(until / 300)
        return PastReading(tuple(Point(300.0 * number, 2.0) for number in range(first, last + 1)))


DAYS = DaysWanted(600.0, 2400.0)


@pytest.mark.parametrize("fails", [False, True])
async def test_the_days_before_are_asked_for_and_their_failure_costs_nothing(fails: bool) -> None:  # noqa: FBT001
    reader = WithDays(fails=fails)
    signals = LiveSignals(reader, lambda: None, {A: WantedSamples(("p",), days=DAYS), B: WantedSamples(("q",))})
    await rounds(signals, lambda: A in signals.seasons.known)
    done = len(reader.asked)
    await rounds(signals, lambda: len(reader.asked) > done + 4)
    error = "they cannot be read: the question failed" if fails else ""
    assert (signals.reading(A), signals.reading(B)) == (Reading(season_error=error), Reading())
    assert reader.names == ["a"], "one question, and then patience"
    signals.wanted = {}
    await rounds(signals, lambda: signals.reading(A) is None)
    assert not signals.seasons.known


async def test_a_source_that_does_not_answer_is_not_asked_about_days() -> None:
    reader = WithDays(answer=lambda: Reading(state=SignalState.UNAVAILABLE))
    signals = LiveSignals(reader, lambda: None, {A: WantedSamples(("p",), days=DAYS)})
    await rounds(signals, lambda: len(reader.asked) > 3)
    assert reader.names == []


class SlowDays(WithDays):
    """Answers questions about the live load at once, and about the days of one object only when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.release = threading.Event(), threading.Event()

    @override
    def arrivals_before(self, *args: Any, **options: Any) -> PastReading:
        self.begun.set()
        self.release.wait()
        return super().arrivals_before(*args, **options)


async def test_no_reading_waits_for_a_slow_answer_about_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings go on for the object itself and for its neighbour, and none fails, however long the answer takes."""
    monkeypatch.setattr(live, "READING_DEADLINE_SECONDS", 600)
    reader, seen = SlowDays(), list[Reading | None]()
    wanted = {A: WantedSamples(("p",), days=DAYS), B: WantedSamples(("q",))}
    signals = LiveSignals(reader, lambda: seen.extend(signals.readings.values()), wanted)
    task = asyncio.create_task(signals.run(0.01))
    try:
        await eventually(lambda: reader.begun.is_set() and len(seen) >= 12)
        assert reader.names == []
        assert A not in signals.seasons.known
        reader.release.set()
        await eventually(lambda: A in signals.seasons.known)
    finally:
        reader.release.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert set(map(repr, seen)) == {repr(Reading())}


async def test_an_answer_about_an_object_that_is_gone_is_forgotten() -> None:
    reader = SlowDays()
    signals = LiveSignals(reader, lambda: None, {A: WantedSamples(("p",), days=DAYS), B: WantedSamples(("q",))})
    task = asyncio.create_task(signals.run(0.01))
    try:
        await eventually(reader.begun.is_set)
        signals.wanted = {B: WantedSamples(("q",), days=DAYS)}
        reader.release.set()
        await eventually(lambda: B in signals.seasons.known)
    finally:
        reader.release.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert signals.seasons.known.keys() == {B}


async def test_without_a_reading_nothing_is_asked_about_gpus() -> None:
    reader = WithGpus(GpuActivity(0.8, 0.1), lambda: Reading(state=SignalState.UNAVAILABLE))
    signals = LiveSignals(reader, lambda: None, {A: WantedSamples(("p",))})
    await rounds(signals, lambda: len(reader.asked) > 2)
    assert reader.questions == 0


async def test_a_reading_that_raises_is_an_unknown_load_and_not_the_end() -> None:
    def fail() -> Reading:
        raise RuntimeError("no such thing")

    reader = FakeReader(fail)
    signals = LiveSignals(reader, lambda: None, {A: WantedSamples(("p",))})
    await rounds(signals, lambda: len(reader.asked) > 1)
    reading = signals.reading(A)
    assert reading is not None
    assert (reading.state, reading.error) == (SignalState.UNAVAILABLE, "RuntimeError: no such thing")


async def test_a_reading_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "READING_DEADLINE_SECONDS", 0.05)
    release = threading.Event()

    def hang() -> Reading:
        release.wait()
        return Reading()

    signals = LiveSignals(FakeReader(hang), lambda: None, {A: WantedSamples(("p",))})
    try:
        await rounds(signals, lambda: signals.reading(A) is not None)
    finally:
        release.set()
    reading = signals.reading(A)
    assert reading is not None
    assert reading.error == "Prometheus did not answer in time"


async def test_a_slow_server_is_asked_several_questions_at_once_and_not_all() -> None:
    lock, several, busy, most = threading.Lock(), threading.Event(), 0, 0

    def slow() -> Reading:
        """Answers once a second question has come, which asking about one at a time would never bring."""
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
            if busy > 1:
                several.set()
        several.wait(HANG_SECONDS)
        with lock:
            busy -= 1
        return Reading()

    changed: list[None] = []
    wanted = {ObjectKey(f"x{index % 3}", str(index)): WantedSamples(MANY) for index in range(12)}
    await rounds(LiveSignals(FakeReader(slow), lambda: changed.append(None), wanted), lambda: len(changed) > 0)
    assert 1 < most <= live.READERS


class CountingThreads(ThreadPoolExecutor):
    """Threads that note the most pieces of work that were under way at once."""

    def __init__(self) -> None:
        super().__init__(16)
        self.under_way: list[Future[Any]] = []
        self.most = 0

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.under_way = [each for each in self.under_way if not each.done()]
        self.under_way.append(super().submit(fn, *args, **kwargs))
        self.most = max(self.most, len(self.under_way))
        return self.under_way[-1]


async def test_a_hanging_server_is_asked_four_questions_at_a_time() -> None:
    release, changed, threads = threading.Event(), list[None](), CountingThreads()

    def hang() -> Reading:
        release.wait()
        return Reading()

    wanted = {ObjectKey(f"x{index % 3}", str(index)): WantedSamples(MANY) for index in range(12)}
    signals = LiveSignals(FakeReader(hang), lambda: changed.append(None), wanted, threads=threads)
    task = asyncio.create_task(signals.run(0.01))
    try:
        await eventually(lambda: threads.under_way)
        assert threads.most == 4
        release.set()
        await eventually(lambda: len(signals.readings) == len(wanted))
    finally:
        release.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        threads.shutdown()
    assert threads.most == 4
    assert all(signals.reading(key) == Reading() for key in wanted)


CROWD = {ObjectKey("crowd", str(index)): WantedSamples(("p",)) for index in range(12)}
HONEST = {A: WantedSamples(("p",))}


class OneNamespace(FakeReader):
    """Does something else before it answers questions about the namespace ``crowd``."""

    def __init__(self, before: Callable[[], object]) -> None:
        super().__init__()
        self.before = before

    @override
    def read_all(self, asked: Sequence[Asked], *args: Any, **options: Any) -> list[Reading | None]:
        super().read_all(asked, *args, **options)
        if any(each.namespace == "crowd" for each in asked):
            self.before()
        return [Reading(series=10_000) if each.namespace == "crowd" else Reading(series=21) for each in asked]

    def times(self, namespace: str) -> int:
        """How often a namespace was asked about."""
        return [asked for asked, _, _ in self.asked].count(namespace)


class TooSlow(OneNamespace):
    """Does not answer in time what is also about the namespace ``crowd``, and what is about it alone not at all."""

    @override
    def read_all(self, asked: Sequence[Asked], *args: Any, **options: Any) -> list[Reading | None]:
        if len(asked) > 1 and any(each.namespace == "crowd" for each in asked):
            self.groups.append(len(asked))
            return [Reading(state=SignalState.UNAVAILABLE, error="too slow", is_shared=True)] * len(asked)
        return super().read_all(asked, *args, **options)


async def test_a_namespace_whose_answers_do_not_come_delays_no_reading_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "READING_DEADLINE_SECONDS", 600)
    release, seen, threads = threading.Event(), list[Reading | None](), CountingThreads()
    reader = TooSlow(release.wait)
    signals = LiveSignals(
        reader, lambda: seen.append(signals.reading(A)), CROWD | HONEST, readings={A: Reading()}, threads=threads
    )
    task = asyncio.create_task(signals.run(0.01))
    try:
        await eventually(lambda: reader.times("x") > 3)
        assert reader.groups[0] == len(CROWD) + 1
        assert reader.times("crowd") == 1, "and it has one of the readers only"
        assert set(map(repr, seen)) == {repr(Reading())}, "what is known of the other decides meanwhile"
        release.set()
        await eventually(lambda: all(signals.reading(key) == Reading() for key in CROWD))
    finally:
        release.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        threads.shutdown()


async def test_objects_of_many_namespaces_are_read_together_and_one_that_fails_alone_until_it_answers() -> None:
    """Only the object that fails is read apart, and it rests for some times as long as its failure takes."""
    broken = Reading(state=SignalState.UNAVAILABLE, error="too large")
    fails = {"crowd"}

    class Reader(FakeReader):
        @override
        def read_all(self, asked: Sequence[Asked], *args: Any, **options: Any) -> list[Reading | None]:
            super().read_all(asked, *args, **options)
            return [broken if each.namespace in fails else Reading(series=21) for each in asked]

    reader, bad = Reader(), ObjectKey("crowd", "bad")
    wanted = {ObjectKey(f"x{index}", "a"): WantedSamples(("p",)) for index in range(5)} | {bad: WantedSamples(("p",))}
    signals = LiveSignals(reader, lambda: None, wanted)
    task = asyncio.create_task(signals.run(0.01))
    try:
        await eventually(lambda: reader.groups.count(5) > 2)
        assert (reader.groups[0], set(reader.groups[1:])) == (6, {1, 5})
        assert signals.reading(bad) == broken
        assert [key.namespace for key in wanted if signals.reading(key) == Reading()] == [
            f"x{each}" for each in range(5)
        ]
        fails.clear()
        await eventually(lambda: reader.groups[-1] == 6)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("pods", "series", "largest"), [(16, 21, 4), (17, 21, 3), (1, 2000, 2), (1, 5000, 1)])
async def test_groups_have_bounds_of_pods_and_of_the_series_that_they_had(pods: int, series: int, largest: int) -> None:
    reader = FakeReader(lambda: Reading(series=series))
    wanted = {ObjectKey("x", str(index)): WantedSamples(MANY[:pods]) for index in range(4)}

    def later() -> list[int]:
        first = next((count for count in range(1, 5) if sum(reader.groups[:count]) == 4), len(reader.groups))
        return reader.groups[first:]

    await rounds(LiveSignals(reader, lambda: None, wanted), lambda: later().count(largest) > 1)
    assert max(later()) == largest


async def test_a_namespace_whose_answers_take_much_work_is_read_less_often_and_no_other_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five minutes of work for a crowd's answers are followed by a pause of ten for it, and a moment's for others."""
    worked = threading.local()

    def work() -> None:
        worked.seconds = getattr(worked, "seconds", 0.0) + 3600 / len(CROWD)

    clock = SimpleNamespace(
        time=time.time, monotonic=time.monotonic, thread_time=lambda: getattr(worked, "seconds", 0.0)
    )
    monkeypatch.setattr(live, "time", clock)
    reader = OneNamespace(work)
    await rounds(LiveSignals(reader, lambda: None, CROWD | HONEST), lambda: reader.times("x") > 3)
    assert reader.times("crowd") == len(CROWD)


async def test_where_nothing_is_wanted_nothing_is_read_and_no_pass_is_made() -> None:
    changed: list[None] = []
    reader = FakeReader()
    signals = LiveSignals(reader, lambda: changed.append(None), readings={A: Reading()})
    await rounds(signals, lambda: signals.reading(A) is None)
    assert (changed, reader.asked) == ([], [])


async def test_how_late_the_load_is_read_is_known_and_nothing_that_fails_alone_counts() -> None:
    async def read(due: float, *, is_apart: bool = False) -> float:
        signals = LiveSignals(FakeReader(), lambda: None, {A: WantedSamples(("p",))})
        await rounds(signals, lambda: A in signals.readings)
        [pace] = signals._paces.values()  # noqa: SLF001 - when it is due, without waiting for it
        pace.due, pace.is_apart = due, is_apart
        return signals.late_seconds()

    clock = time.monotonic()
    assert LiveSignals(FakeReader(), lambda: None).late_seconds() == 0.0
    assert await read(clock - 90) == pytest.approx(90, abs=5)
    assert await read(clock + 90) < 0
    assert await read(clock - 90, is_apart=True) == 0.0


@pytest.mark.parametrize("is_apart", [True, False])
async def test_a_new_pod_is_read_at_once_and_that_of_an_object_which_failed_alone_after_its_rest(
    is_apart: bool,  # noqa: FBT001 - a column
) -> None:
    signals = LiveSignals(FakeReader(), lambda: None, {A: WantedSamples(("p",))})
    await rounds(signals, lambda: A in signals.readings)
    [pace] = signals._paces.values()  # noqa: SLF001 - when it is due, without waiting for it
    clock, more = time.monotonic(), WantedSamples(("p", "new"))
    pace.due, pace.is_apart = clock + 600, is_apart
    assert signals._is_due(A, more, clock) is not is_apart  # noqa: SLF001
    assert signals._is_due(A, more, clock + 600)  # noqa: SLF001


async def test_samples_are_looked_for_several_times_in_a_pause_and_a_pass_is_asked_for_once() -> None:
    reader, read_at_changes = FakeReader(), list[int]()
    signals = LiveSignals(reader, lambda: read_at_changes.append(len(reader.groups)), {A: WantedSamples(("p",))})
    task = asyncio.create_task(signals.run(0.5))
    await eventually(lambda: len(read_at_changes) == 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert read_at_changes[0] == 1
    assert 2 <= read_at_changes[1] <= 1 + live.LOOKS


async def test_only_what_is_new_is_read_again_and_all_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(time=lambda: NOW, monotonic=time.monotonic, thread_time=time.thread_time)
    monkeypatch.setattr(live, "time", clock)
    times = iter([NOW - 20, NOW - 5])
    latest: list[float] = []

    def answer() -> Reading:
        latest[:] = [next(times, latest[-1] if latest else 0.0)]
        return Reading({"p": PodSignals("p", (EngineSample(latest[0], kv_usage=0.5, waiting=0.0),))})

    reader = FakeReader(answer)
    signals = LiveSignals(reader, lambda: None, {A: WantedSamples(("p",), 660)})
    await rounds(signals, lambda: A in signals.readings and len(signals.readings[A].pods["p"].samples) > 1)
    reading = signals.reading(A)
    assert reading is not None
    assert [NOW - sample.at for sample in reading.pods["p"].samples] == [20, 5]
    assert [window for _, _, window in reader.asked] == [660, 25], "the next sample comes later"


async def test_a_new_pod_is_read_from_the_beginning_and_its_neighbour_is_not() -> None:
    reader = FakeReader()
    signals = LiveSignals(reader, lambda: None, {A: WantedSamples(("p",), 660)})
    await rounds(signals, lambda: len(reader.asked) > 1)
    signals.wanted = {A: WantedSamples(("p", "q"), 660)}
    reader.asked.clear()
    await rounds(signals, lambda: ("x", ("q",), 660) in reader.asked)
    assert all(window < 660 for _, pods, window in reader.asked if pods == ("p",))


async def test_a_source_that_is_away_for_a_while_takes_no_memory_with_it() -> None:
    sample = EngineSample(time.time() - 5, kv_usage=0.5, waiting=0.0)
    good = Reading({"p": PodSignals("p", (sample,))})
    answers = [good, Reading(state=SignalState.UNAVAILABLE, error="away"), Reading()]
    seen: list[Reading | None] = []
    reader = FakeReader(lambda: answers.pop(0) if len(answers) > 1 else answers[0])
    signals = LiveSignals(reader, lambda: seen.append(signals.reading(A)), {A: WantedSamples(("p",), 660)})
    await rounds(signals, lambda: len(seen) > 2)
    assert [None if one is None else (one.error, len(one.pods)) for one in seen[:3]] == [("", 1), ("away", 0), ("", 1)]


def test_prometheus_is_read_where_there_is_one_and_else_the_pods_unless_that_is_switched_off() -> None:
    url = {"PLIMSOLL_PROMETHEUS_URL": "http://prometheus.invalid"}
    assert isinstance(reader_of(Settings.from_environment(url)), PrometheusSignals)
    assert isinstance(reader_of(Settings.from_environment({})), PodScrape)
    assert reader_of(Settings.from_environment({"PLIMSOLL_DIRECT_SCRAPE": "false"})) is None


async def test_scrapes_of_the_pods_themselves_become_a_history() -> None:
    with engine(page()) as running:
        scrape = PodScrape(port=running.port, scrape_seconds=0.7)
        addresses = {"good": running.address, "none": ""}
        signals = LiveSignals(scrape, lambda: None, {A: WantedSamples(("good", "none"), 660, addresses=addresses)})

        def has_a_history() -> bool:
            reading = signals.reading(A)
            good = reading.pods.get("good") if reading is not None else None
            return good is not None and len(good.samples) >= 3

        await rounds(signals, has_a_history)
        scrape.close()
    reading = signals.reading(A)
    assert reading is not None
    assert (reading.state, list(reading.pods)) == (SignalState.FRESH, ["good"])
    assert {sample.kv_usage for sample in reading.pods["good"].samples} == {0.5}


async def test_pods_without_an_address_leave_the_load_unknown_with_a_reason() -> None:
    scrape = PodScrape()
    seen: list[Reading | None] = []
    signals = LiveSignals(scrape, lambda: seen.append(signals.reading(A)), {A: WantedSamples(("p",))})
    await rounds(signals, lambda: bool(seen))
    scrape.close()
    error = "No pod's own metrics can be read; p: it has no IP address"
    assert seen[0] == Reading(state=SignalState.UNAVAILABLE, error=error)


async def test_a_pod_that_joins_and_cannot_be_scraped_takes_nothing_from_the_one_that_can() -> None:
    with engine(page()) as running:
        scrape = PodScrape(port=running.port, scrape_seconds=0.05)
        signals = LiveSignals(scrape, lambda: None, {A: WantedSamples(("good",), addresses={"good": running.address})})
        await rounds(signals, lambda: signals.reading(A) is not None)
        changed: list[Reading | None] = []
        signals.on_change = lambda: changed.append(signals.reading(A))
        signals.wanted = {A: WantedSamples(("good", "new"), addresses={"good": running.address, "new": ""})}
        await rounds(signals, lambda: len(changed) > 3)
        scrape.close()
    assert [None if each is None else (each.state, list(each.pods)) for each in changed[:4]] == [
        (SignalState.FRESH, ["good"])
    ] * 4


async def test_as_long_as_nothing_is_known_the_last_reading_stays() -> None:
    answers: list[Reading | None] = [None, Reading(state=SignalState.UNAVAILABLE, error="away"), None]
    seen: list[Reading | None] = []
    reader = FakeReader(lambda: answers.pop(0) if len(answers) > 1 else answers[0])
    signals = LiveSignals(reader, lambda: seen.append(signals.reading(A)), {A: WantedSamples(("p",))})
    await rounds(signals, lambda: len(seen) > 2)
    assert [None if one is None else one.error for one in seen[:3]] == [None, "away", "away"]


async def test_a_source_without_a_past_is_asked_for_all_pods_together() -> None:
    reader = FakeReader(has_past=False)
    signals = LiveSignals(reader, lambda: None, {A: WantedSamples(("p",))})
    await rounds(signals, lambda: len(reader.asked) > 0)
    signals.wanted = {A: WantedSamples(("p", "q"))}
    await rounds(signals, lambda: ("x", ("p", "q"), CAPACITY_WINDOW_SECONDS) in reader.asked)
    assert ("x", ("q",), CAPACITY_WINDOW_SECONDS) not in reader.asked


class GatewayReader(FakeReader):
    """Knows the queue of every gateway as well."""

    def read_queues(self, pools: Collection[ObjectKey], *, now: float) -> dict[ObjectKey, GatewayQueue]:
        held = {ObjectKey("x", "chat"): 3.0}
        return {pool: GatewayQueue(SignalState.FRESH, (TimeSeries([now], [held.get(pool, 0.0)]),)) for pool in pools}


async def test_a_gateways_queue_is_read_although_no_pod_is_left() -> None:
    signals = LiveSignals(
        GatewayReader(), lambda: None, {A: WantedSamples((), inference_pool="chat"), B: WantedSamples(("r",))}
    )
    await rounds(signals, lambda: signals.reading(B) is not None)
    reading, neighbour = signals.reading(A), signals.reading(B)
    assert reading is not None
    assert reading.gateway is not None
    assert (reading.state, reading.gateway.waiting) == (SignalState.FRESH, 3)
    assert neighbour is not None
    assert neighbour.gateway is None


async def test_without_a_prometheus_the_gateway_is_unknown_and_the_engines_are_read() -> None:
    signals = LiveSignals(FakeReader(has_past=False), lambda: None, {A: WantedSamples(("p",), inference_pool="chat")})
    await rounds(signals, lambda: signals.reading(A) is not None)
    reading = signals.reading(A)
    assert reading is not None
    assert reading.gateway is not None
    assert (reading.state, reading.gateway.state) == (SignalState.FRESH, SignalState.UNAVAILABLE)
    assert reading.gateway.error == "the queue is read from a Prometheus, and none is configured."
