"""Live signals: read in the background from Prometheus or from the pods themselves, and kept for some minutes."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import NamedTuple, TypeVar

from plimsoll.adapters.garbage import collecting_later
from plimsoll.adapters.prometheus.pod_scrape import PodScrape
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.adapters.prometheus.readings import Asked, PastReader, QueueReader, SignalReader
from plimsoll.adapters.prometheus.router_scrape import RouterScrape
from plimsoll.app.live.gpu_watch import GpuWatch
from plimsoll.app.live.quiet_watch import QuietWatch
from plimsoll.app.live.sample_memory import (
    LATE_SECONDS,
    Memory,
    SampleQuery,
    next_due,
    questions,
    remembered,
    signals_of,
)
from plimsoll.app.live.season_watch import SeasonWatch
from plimsoll.app.live.wanted import WantedSamples
from plimsoll.app.settings import Settings
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.metrics import PodSignals, SignalState
from plimsoll.rebalance.signals.reading import Reading

READING_DEADLINE_SECONDS = 10.0
"""The time limit of one reading, whatever the server does; twice the adapter's own timeout."""

READERS = 4
"""Readings at the same time: a hanging server delays a quarter as long, and a working one is not overloaded."""

FAILING = 2
"""Of them those of objects that failed alone. An answer of the largest size takes some 70 MiB while it is read."""

MOST_PODS = 64
"""Pods of one reading: as many as one query asks about."""

MOST_SERIES = 4096
"""Series of one reading: 64 pods have some 1,000. What an object had last time counts."""

REST = 2.0
"""How many times the CPU time of its last readings a namespace is not read again: it takes a third of a core at most. A
thousand pods of one engine each take 0.3 s, which is less than the usual pause allows."""

LONG_REST = 10.0
"""How many times as long as it took an object is not read again that fails alone: one that hangs for 5 s, 50 s."""

LOOKS = 5
"""How often new samples are looked for in one pause: each second of five. They come at any time."""

DAYS_PAUSE_SECONDS = 0.25
"""The least time between two questions about the days before. Nothing waits for them."""

T = TypeVar("T")

logger = logging.getLogger("plimsoll.live")


def reader_of(settings: Settings) -> PrometheusSignals | PodScrape | None:
    """Return where live signals come from: Prometheus, else the pods themselves; None if neither is wanted."""
    url, access = settings.prometheus_url, settings.prometheus_access
    if url:
        return PrometheusSignals(
            url, access=access, label_pairs=settings.prometheus_labels, gateway=settings.gateway_metrics
        )
    return PodScrape() if settings.direct_scrape else None


@dataclass(slots=True)
class _Pace:
    """When an object is read again (monotonic clock), and the series that it had.

    It ``is_apart`` if it is read alone, because it failed among others, and ``is_failing`` if it failed alone, too.
    """

    due: float = -math.inf
    series: int = 0
    is_apart: bool = False
    is_failing: bool = False


class _Question(NamedTuple):
    """One object that is read now."""

    key: ObjectKey
    what: WantedSamples
    asked: list[SampleQuery]
    pace: _Pace

    @property
    def kind(self) -> tuple[object, ...]:
        """The part that is the same for all read together: the engines' names, and about how far back is read."""
        alone = self.key if self.pace.is_apart else None
        is_long = max((each.window_seconds for each in self.asked), default=0) > LATE_SECONDS
        return frozenset(map(id, self.what.every_metrics)), is_long, self.what.buckets, alone

    @property
    def pods(self) -> int:
        """The pods that are asked about; one for an object without pods, whose gateway may have a queue."""
        return max(1, sum(len(each.pods) for each in self.asked))


@dataclass(slots=True)
class _Turns:
    """Who may read now. One object of a namespace is read alone at a time, and few of those that failed alone."""

    all: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READERS))
    failing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(FAILING))
    alone: defaultdict[str, asyncio.Semaphore] = field(
        default_factory=lambda: defaultdict(lambda: asyncio.Semaphore(1))
    )

    def of(self, question: _Question) -> AbstractAsyncContextManager[object]:
        """Return what a reading waits for before it waits for a reader."""
        if question.pace.is_failing:
            return self.failing
        return self.alone[question.key.namespace] if question.pace.is_apart else nullcontext()


Answers = Mapping[ObjectKey, tuple[Reading | None, Memory]]
"""The reading of each object, and its new memory."""


@dataclass(slots=True)
class LiveSignals:
    """The latest reading of every object. ``reader`` is None if nothing can be read.

    Objects whose pods have new samples are read together, whatever their namespaces are. One that fails among others is
    read alone until it answers, so that it costs the others nothing.
    """

    reader: SignalReader | None
    on_change: Callable[[], None]
    wanted: Mapping[ObjectKey, WantedSamples] = field(default_factory=dict)
    readings: dict[ObjectKey, Reading] = field(default_factory=dict)
    memories: dict[ObjectKey, Memory] = field(default_factory=dict)
    gpus: GpuWatch = field(default_factory=GpuWatch)
    seasons: SeasonWatch = field(default_factory=SeasonWatch)
    quiets: QuietWatch = field(default_factory=QuietWatch)
    routers: RouterScrape = field(default_factory=RouterScrape)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(READERS, "signals"))
    days_thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "days-before"))
    _paces: dict[ObjectKey, _Pace] = field(default_factory=dict)
    _rests: dict[str, float] = field(default_factory=dict)

    def reading(self, key: ObjectKey) -> Reading | None:
        """The latest reading; UNAVAILABLE if no Prometheus is configured. None: nothing has been read yet."""
        if self.reader is None:
            return Reading(state=SignalState.UNAVAILABLE, error="No Prometheus is configured")
        known, what = self.readings.get(key), self.wanted.get(key)
        if known is None or what is None or what.router is None:
            return known
        return replace(known, gateway=self.routers.queue(key, time.time()))

    def late_seconds(self) -> float:
        """Return how long the load of some object has been due to be read: the longest of those that answer.

        Any thread may ask.
        """
        clock, paces = time.monotonic(), list(self._paces.values())
        return max((clock - pace.due for pace in paces if pace.due > 0 and not pace.is_apart), default=0.0)

    async def run(self, pause_seconds: float) -> None:
        """Read again and again until cancelled. The days before are asked for apart: no reading waits for them."""
        if self.reader is None:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read_on(self.reader, pause_seconds))
            if isinstance(self.reader, PastReader):
                tasks.create_task(self._look_back_on(self.reader, pause_seconds))

    async def _read_on(self, reader: SignalReader, pause_seconds: float) -> None:
        """Read what is due, in groups. Those whose answers are slow or large delay no other.

        New samples are looked for several times in a pause, and a pass is asked for once in it.
        """
        turns, look, reported, is_new = _Turns(), pause_seconds / LOOKS, -math.inf, False
        rounds = dict[asyncio.Task[None], list[ObjectKey]]()
        async with asyncio.TaskGroup() as tasks:
            while True:  # in separate threads: a hanging server blocks no other work
                started = time.monotonic()
                self._forget()
                routers = {key: what.router for key, what in self.wanted.items() if what.router is not None}
                if self.routers.begin(routers):
                    self.on_change()
                busy = {key for keys in rounds.values() for key in keys}
                for group in self._groups(reader, busy, started):
                    task = tasks.create_task(self._read(reader, group, turns))
                    rounds[task] = [each.key for each in group]
                if rounds:
                    await asyncio.wait(rounds, timeout=look)
                ended = [task for task in rounds if task.done()]
                for task in ended:
                    del rounds[task]
                is_new = is_new or bool(ended)
                if is_new and started >= reported + pause_seconds:
                    reported, is_new = started, False
                    self.on_change()
                await asyncio.sleep(max(0.1, look - (time.monotonic() - started)))

    def _groups(self, reader: SignalReader, busy: Collection[ObjectKey], clock: float) -> Iterator[list[_Question]]:
        """Yield the objects that are due, in groups that are read together."""
        due = (self._question(reader, key, what) for key, what in self.wanted.items() if self._is_due(key, what, clock))
        kinds = dict[tuple[object, ...], list[_Question]]()
        for each in sorted((each for each in due if each.key not in busy), key=lambda each: each.key):
            kinds.setdefault(each.kind, []).append(each)
        for some in kinds.values():
            group, pods, series = list[_Question](), 0, 0
            for each in some:
                if group and (pods + each.pods > MOST_PODS or series + each.pace.series > MOST_SERIES):
                    yield group
                    group, pods, series = [], 0, 0
                group.append(each)
                pods, series = pods + each.pods, series + each.pace.series
            yield group

    def _is_due(self, key: ObjectKey, what: WantedSamples, clock: float) -> bool:
        """Whether an object has something new to read: a sample, or a pod. A namespace that rests has nothing."""
        pace = self._paces.get(key)
        if clock < self._rests.get(key.namespace, -math.inf):
            return False
        if pace is None or clock >= pace.due:
            return True
        return not (pace.is_apart or all(map(self.memories.get(key, {}).__contains__, what.pods)))

    def _question(self, reader: SignalReader, key: ObjectKey, what: WantedSamples) -> _Question:
        pace = self._paces.get(key, _Pace())
        asked = [SampleQuery(what.pods, what.window_seconds)]
        if reader.has_past:
            asked = questions(self.memories.get(key, {}), what.pods, what.window_seconds, time.time())
        return _Question(key, what, asked, pace)

    async def _look_back_on(self, reader: PastReader, pause_seconds: float) -> None:
        while True:
            for key, what in list(self.wanted.items()):
                await self._look_back(reader, key, what)
            await asyncio.sleep(max(0.1, pause_seconds))

    async def _look_back(self, reader: PastReader, key: ObjectKey, what: WantedSamples) -> None:
        """Ask one question about the days before of an object, if it is due and the source answers other ones."""
        reading, now = self.readings.get(key), time.time()
        if what.days is None or reading is None or reading.state is not SignalState.FRESH:
            return
        if not self.seasons.is_due(key, what.days, now):
            return
        skew = reading.clock_skew_seconds
        ask = partial(self.seasons.asked, reader, key, what.days, what.every_metrics, now, skew)
        work = partial(_tried, ask, f"the days before of {key}")
        known = await asyncio.get_running_loop().run_in_executor(self.days_thread, work)
        if key in self.wanted:
            self.seasons.keep(key, known, now)
        await asyncio.sleep(DAYS_PAUSE_SECONDS)

    def _forget(self) -> None:
        kept = (self.readings, self.memories, self.gpus.answers, self.seasons.known, self.quiets.known, self._paces)
        for known in kept:
            for key in [key for key in known if key not in self.wanted]:
                del known[key]
        self._rests = {namespace: at for namespace, at in self._rests.items() if at > time.monotonic()}

    async def _read(self, reader: SignalReader, group: Sequence[_Question], turns: _Turns) -> None:
        """Read a group, and keep what was found and when to read again."""
        async with turns.of(group[0]), turns.all:
            began, spent, now = time.monotonic(), list[float](), time.time()
            find = partial(_timed, partial(self._found, reader, group, now), spent)
            try:
                work = asyncio.get_running_loop().run_in_executor(self.threads, find)
                answers: Answers = await asyncio.wait_for(work, READING_DEADLINE_SECONDS)
            except TimeoutError:
                answers = self._failed(group, "Prometheus did not answer in time")
            except Exception as error:  # a reading must never end the loop: an unknown answer counts as none
                logger.exception("reading signals of %s failed", ", ".join(str(each.key) for each in group))
                answers = self._failed(group, f"{type(error).__name__}: {error}")
        self._keep(reader, {key: found for key, found in answers.items() if key in self.wanted}, began, now)
        self._let_rest(answers, sum(spent))

    def _failed(self, group: Sequence[_Question], error: str) -> Answers:
        failure = Reading(state=SignalState.UNAVAILABLE, error=error, is_shared=len(group) > 1)
        return {each.key: (failure, self.memories.get(each.key, {})) for each in group}

    def _keep(self, reader: SignalReader, answers: Answers, began: float, now: float) -> None:
        """Keep readings. A failure that may be another's counts once the object was read alone."""
        clock = time.monotonic()
        for key, (reading, memory) in answers.items():
            pace = self._paces.setdefault(key, _Pace())
            is_good = reading is None or reading.state is SignalState.FRESH
            if reading is not None and not (reading.is_shared and key in self.readings):
                self.readings[key] = reading
            self.memories[key] = memory
            pace.due = clock
            if is_good and reader.has_past:
                pace.due += next_due(memory, self.wanted[key].pods, now) - time.time()
            elif not is_good and pace.is_apart:
                pace.due += LONG_REST * (clock - began)
            pace.series = reading.series if reading is not None and is_good else pace.series
            others = (each for other, (each, _) in answers.items() if other != key)
            pace.is_failing = not is_good and pace.is_apart
            pace.is_apart = not is_good and (pace.is_apart or _is_cause(reading, others))

    def _let_rest(self, answers: Answers, spent: float) -> None:
        """Let each namespace rest for its part of the CPU seconds, which is that of its series."""
        series = Counter[str]()
        for key, (reading, _) in answers.items():
            series[key.namespace] += 1 + (0 if reading is None else reading.series)
        for namespace, own in series.items():
            rest = REST * spent * own / series.total()
            self._rests[namespace] = max(time.monotonic(), self._rests.get(namespace, -math.inf)) + rest

    def _found(self, reader: SignalReader, group: Sequence[_Question], now: float) -> Answers:
        """Read a group. Called in a thread."""
        read = _continued(reader, group, self.memories, now)
        good = {key: what for key, what, *_ in group if _is_fresh(read[key][0])}
        pools = {
            key: ObjectKey(key.namespace, what.inference_pool) for key, what in good.items() if what.inference_pool
        }
        queues = _queues(reader, set(pools.values()), now) if pools else {}
        ask = partial(self.gpus.activities, reader, {key: what.pods for key, what in good.items()}, now)
        gpus = _tried(ask, "the activity of GPUs") or {}
        found = dict[ObjectKey, tuple[Reading | None, Memory]]()
        for key, (reading, memory) in read.items():
            found[key] = reading, memory
            if reading is None or key not in good:
                continue
            outlook = self.seasons.outlook(key, good[key].days)
            before = partial(self.quiets.before, reader, key, good[key], now, reading.clock_skew_seconds)
            whole = replace(
                reading,
                gpus=gpus.get(key),
                gateway=queues.get(pools[key]) if key in pools else None,
                season=outlook.season,
                season_error=outlook.error,
                quiet_before=_tried(before, f"the time before of {key}"),
            )
            found[key] = whole, memory
        return found


def _is_fresh(reading: Reading | None) -> bool:
    return reading is not None and reading.state is SignalState.FRESH


def _is_cause(reading: Reading | None, others: Iterable[Reading | None]) -> bool:
    """Whether an object that failed may be the cause: nobody knows who was, or others of its group did not fail."""
    return reading is not None and (reading.is_shared or any(_is_fresh(other) for other in others))


def _timed(work: Callable[[], T], spent: list[float]) -> T:
    """Do a piece of work, and add its CPU time in seconds to ``spent``, however it ends."""
    began = time.thread_time()
    try:
        with collecting_later():
            return work()
    finally:
        spent.append(time.thread_time() - began)


def _tried(read: Callable[[], T], what: str) -> T | None:
    """Return what is good to know and not needed: its failure must not cost the reading."""
    try:
        return read()
    except Exception:
        logger.exception("reading %s failed", what)
        return None


def _continued(
    reader: SignalReader, group: Sequence[_Question], memories: Mapping[ObjectKey, Memory], now: float
) -> dict[ObjectKey, tuple[Reading | None, Memory]]:
    """Read what is new. Return it with what is remembered, and the new memories; no answer changes no memory."""
    read = dict[ObjectKey, list[Reading | None]]()
    for is_long, metrics in product((True, False), group[0].what.every_metrics):
        some = [
            (each, SampleQuery(pods, query.window_seconds))
            for each in group
            for query in each.asked
            if (query.window_seconds > LATE_SECONDS) is is_long
            for names, pods in each.what.by_engine(query.pods)
            if names is metrics
        ]
        asked = [
            Asked(each.key.namespace, each.what.addresses_of(query.pods), query.window_seconds, each.what.buckets)
            for each, query in some
        ]
        for (each, _), reading in zip(some, reader.read_all(asked, metrics, now=now) if asked else (), strict=True):
            read.setdefault(each.key, []).append(reading)
    return {
        each.key: _together(each, _of_pages(reader, read.get(each.key, [Reading()])), memories.get(each.key, {}), now)
        for each in group
    }


def _of_pages(reader: SignalReader, readings: Sequence[Reading | None]) -> Sequence[Reading | None]:
    """Return those of an object's readings that count. Of pods' own pages it is enough if those of some are known."""
    fresh = [each for each in readings if _is_fresh(each)]
    return readings if reader.has_past or not fresh else fresh


def _together(
    question: _Question, readings: Sequence[Reading | None], memory: Memory, now: float
) -> tuple[Reading | None, Memory]:
    """Return the reading of one object from those of its pods, and its new memory."""
    pods, series, skew = dict[str, PodSignals](), 0, 0.0
    for each in readings:
        if each is None or each.state is not SignalState.FRESH:
            return each, memory
        pods |= each.pods
        series, skew = series + each.series, each.clock_skew_seconds
    asked = {pod for query in question.asked for pod in query.pods}
    memory = remembered(memory, pods, question.what.pods, question.what.window_seconds, now, asked)
    return Reading(signals_of(memory), clock_skew_seconds=skew, series=series), memory


def _queues(reader: SignalReader, pools: Collection[ObjectKey], now: float) -> Mapping[ObjectKey, GatewayQueue]:
    """Return the queues of gateways. Their failure is no failure of the engines' signals."""
    if isinstance(reader, QueueReader):
        return reader.read_queues(pools, now=now)
    error = "the queue is read from a Prometheus, and none is configured."
    return dict.fromkeys(pools, GatewayQueue(SignalState.UNAVAILABLE, error=error))
