"""Live signals: read in the background from Prometheus or from the pods themselves, and kept for some minutes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from plimsoll.adapters.prometheus.pod_scrape import PodScrape
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.adapters.prometheus.readings import PastReader, QueueReader, SignalReader
from plimsoll.app.live.gpu_watch import GpuWatch
from plimsoll.app.live.quiet_watch import QuietWatch
from plimsoll.app.live.sample_memory import Memory, SampleQuery, questions, remembered, signals_of
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
"""Objects read at the same time: a hanging server delays a quarter as long, and a working one is not overloaded."""

PER_NAMESPACE = 2
"""Of them those of one namespace. An answer of the largest size takes some 70 MiB while it is read."""

REST = 2.0
"""How many times the CPU time of its last readings a namespace is not read again: it takes a third of a core at most. A
thousand pods of one engine each take 0.8 s, which is less than the usual pause allows."""

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
class LiveSignals:
    """The latest reading of every object. ``reader`` is None if nothing can be read."""

    reader: SignalReader | None
    on_change: Callable[[], None]
    wanted: Mapping[ObjectKey, WantedSamples] = field(default_factory=dict)
    readings: dict[ObjectKey, Reading] = field(default_factory=dict)
    memories: dict[ObjectKey, Memory] = field(default_factory=dict)
    gpus: GpuWatch = field(default_factory=GpuWatch)
    seasons: SeasonWatch = field(default_factory=SeasonWatch)
    quiets: QuietWatch = field(default_factory=QuietWatch)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(READERS, "signals"))
    days_thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "days-before"))

    def reading(self, key: ObjectKey) -> Reading | None:
        """The latest reading; UNAVAILABLE if no Prometheus is configured. None: nothing has been read yet."""
        if self.reader is None:
            return Reading(state=SignalState.UNAVAILABLE, error="No Prometheus is configured")
        return self.readings.get(key)

    async def run(self, pause_seconds: float) -> None:
        """Read again and again until cancelled. The days before are asked for apart: no reading waits for them."""
        if self.reader is None:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read_on(self.reader, pause_seconds))
            if isinstance(self.reader, PastReader):
                tasks.create_task(self._look_back_on(self.reader, pause_seconds))

    async def _read_on(self, reader: SignalReader, pause_seconds: float) -> None:
        """Read each namespace in rounds of its own, so that one whose answers are slow or large delays no other."""
        turn, due = asyncio.Semaphore(READERS), dict[str, float]()
        rounds = dict[str, asyncio.Task[float]]()
        async with asyncio.TaskGroup() as tasks:
            while True:  # in separate threads: a hanging server blocks no other work
                started = time.monotonic()
                self._forget()
                for namespace, wanted in self._by_namespace().items():
                    if namespace not in rounds and due.get(namespace, 0.0) <= started:
                        rounds[namespace] = tasks.create_task(self._read_all(reader, wanted, turn))
                if rounds:
                    await asyncio.wait(rounds.values(), timeout=pause_seconds)
                ended = {
                    namespace: rounds.pop(namespace).result() for namespace in list(rounds) if rounds[namespace].done()
                }
                if ended:
                    now = time.monotonic()
                    due = {each: at for each, at in due.items() if at > now}
                    due |= {namespace: now + REST * spent for namespace, spent in ended.items()}
                    self.on_change()
                await asyncio.sleep(max(0.1, pause_seconds - (time.monotonic() - started)))

    def _by_namespace(self) -> dict[str, dict[ObjectKey, WantedSamples]]:
        found: dict[str, dict[ObjectKey, WantedSamples]] = {}
        for key, what in self.wanted.items():
            found.setdefault(key.namespace, {})[key] = what
        return found

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
        ask = partial(self.seasons.asked, reader, key, what.days, what.metrics, now, skew)
        work = partial(_tried, ask, f"the days before of {key}")
        known = await asyncio.get_running_loop().run_in_executor(self.days_thread, work)
        if key in self.wanted:
            self.seasons.keep(key, known, now)

    def _forget(self) -> None:
        for known in (self.readings, self.memories, self.gpus.answers, self.seasons.known, self.quiets.known):
            for key in [key for key in known if key not in self.wanted]:
                del known[key]

    async def _read_all(
        self, reader: SignalReader, wanted: Mapping[ObjectKey, WantedSamples], turn: asyncio.Semaphore
    ) -> float:
        """Read the objects of one namespace. Return the CPU time that it took, in seconds."""
        own_turn, spent = asyncio.Semaphore(PER_NAMESPACE), list[float]()

        async def update(key: ObjectKey, what: WantedSamples) -> None:
            async with own_turn, turn:
                reading = await self._read(reader, key, what, spent)
                if reading is not None and key in self.wanted:
                    self.readings[key] = reading

        await asyncio.gather(*(update(key, what) for key, what in wanted.items()))
        return sum(spent)

    async def _read(
        self, reader: SignalReader, key: ObjectKey, what: WantedSamples, spent: list[float]
    ) -> Reading | None:
        before = self.memories.get(key, {})
        find = partial(self._found, reader, key, what, before, time.time())
        work = asyncio.get_running_loop().run_in_executor(self.threads, partial(_timed, find, spent))
        try:
            reading, self.memories[key] = await asyncio.wait_for(work, READING_DEADLINE_SECONDS)
        except TimeoutError:
            return Reading(state=SignalState.UNAVAILABLE, error="Prometheus did not answer in time")
        except Exception as error:  # a reading must never end the loop: an unknown answer counts as none
            logger.exception("reading signals of %s failed", key)
            return Reading(state=SignalState.UNAVAILABLE, error=f"{type(error).__name__}: {error}")
        return reading

    def _found(
        self, reader: SignalReader, key: ObjectKey, what: WantedSamples, before: Memory, now: float
    ) -> tuple[Reading | None, Memory]:
        reading, memory = _continued(reader, key.namespace, what, before, now)
        if reading is None or reading.state is not SignalState.FRESH:
            return reading, memory
        gpus = _tried(partial(self.gpus.activity, reader, key, what.pods, now), f"the activity of GPUs of {key}")
        outlook = self.seasons.outlook(key, what.days)
        ask = partial(self.quiets.before, reader, key, what, now, reading.clock_skew_seconds)
        quiet = _tried(ask, f"the time before of {key}")
        found = replace(reading, gpus=gpus, season=outlook.season, season_error=outlook.error, quiet_before=quiet)
        return found, memory


def _timed(work: Callable[[], T], spent: list[float]) -> T:
    """Do a piece of work, and add its CPU time in seconds to ``spent``, however it ends."""
    began = time.thread_time()
    try:
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
    reader: SignalReader, namespace: str, what: WantedSamples, before: Memory, now: float
) -> tuple[Reading | None, Memory]:
    """Read what is new. Return it with what is remembered, and the new memory; no answer changes no memory."""
    found: dict[str, PodSignals] = {}
    skew = 0.0
    whole = [SampleQuery(what.pods, what.window_seconds)]
    for asked in questions(before, what.pods, what.window_seconds, now) if reader.has_past else whole:
        pods = {pod: what.addresses.get(pod, "") for pod in asked.pods}
        read = reader.read(namespace, pods, window_seconds=asked.window_seconds, now=now, metrics=what.metrics)
        if read is None or read.state is not SignalState.FRESH:
            return read, before
        found.update(read.pods)
        skew = read.clock_skew_seconds
    memory = remembered(before, found, what.pods, what.window_seconds, now)
    queue = _queue(reader, namespace, what.inference_pool, now) if what.inference_pool else None
    return Reading(signals_of(memory), clock_skew_seconds=skew, gateway=queue), memory


def _queue(reader: SignalReader, namespace: str, pool: str, now: float) -> GatewayQueue:
    """Return the queue of the gateway. Its failure is no failure of the engines' signals."""
    if isinstance(reader, QueueReader):
        return reader.read_queue(namespace, pool, now=now)
    error = "the queue is read from a Prometheus, and none is configured."
    return GatewayQueue(SignalState.UNAVAILABLE, error=error)
