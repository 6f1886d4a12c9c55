"""Live use for all pages: read in the background, kept for some seconds, never waited for longer than a moment.

One memory holds the last samples of every pod. A page asks for the pods that its person may list and gets no others.
Pods that were read within the last seconds are not asked for again, whoever asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from plimsoll.adapters.hub.circuit_breaker import CircuitBreaker, Unreached
from plimsoll.adapters.prometheus.bounded_session import QueryRefused
from plimsoll.app.settings import Settings
from plimsoll.console.sources.prometheus_live import PrometheusLive
from plimsoll.console.views.fleet import FleetTotals
from plimsoll.console.views.load.live_use import LiveReading, LiveState, MapSpan, PastUse, PodLast
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey

YOUNG_SECONDS = 5.0
"""Age up to which a reading is given again without a new question."""

PATIENCE_SECONDS = 1.0
"""The longest that a page waits. A reading that lasts longer goes on, and the next page gets it."""

WINDOW_SECONDS = 120
"""The span of samples that is read. It shows a pod that stopped reporting as stale before it shows it as unknown."""

MOST_PAST_READINGS = 4
"""Questions about the past at the same time. The last samples have a thread of their own beyond these."""

KEPT_SECONDS = 900.0
"""Time for which the last samples of a pod are kept while nothing new comes."""


T = TypeVar("T")


@dataclass(slots=True)
class _Kept:
    """One pod: when it was last asked about, and its last figures."""

    read_at: float
    last: PodLast | None = None


_PastKey = tuple[MapSpan, frozenset[ObjectKey]]


@dataclass(slots=True)
class LiveSource:
    """The live use of pods. ``reader`` is None if no Prometheus is configured. Use it in one event loop.

    Attributes:
        reader: reads in a thread.
        wall: the time of day in POSIX seconds.
        patience_seconds: the longest that a page waits.
        breaker: ends questions to a server that does not answer.
    """

    reader: PrometheusLive | None
    wall: Callable[[], float] = time.time
    patience_seconds: float = PATIENCE_SECONDS
    breaker: CircuitBreaker = field(default_factory=lambda: CircuitBreaker("Prometheus"))
    _kept: dict[ObjectKey, _Kept] = field(default_factory=dict)
    _pasts: dict[_PastKey, PastUse] = field(default_factory=dict)
    _reading: asyncio.Task[None] | None = None
    _totals: FleetTotals | None = None
    _totals_reading: asyncio.Task[None] | None = None
    _totals_read_at: float = float("-inf")
    _past_readings: dict[_PastKey, asyncio.Task[None]] = field(default_factory=dict)
    _silent_since: float | None = None
    _error: str = ""
    _has_answered: bool = False
    _lasted: float = 0.0
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(MOST_PAST_READINGS + 1, "live-use"))

    async def last(self, pods: Collection[ObjectKey]) -> LiveReading:
        """Return the last samples of pods that the person may list. Never raises, and waits for a moment at most."""
        if self.reader is None:
            return LiveReading()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.patience_seconds
        while self._is_due(pods):
            reading = self._begun(self.reader, pods)
            left = deadline - loop.time()
            if self._silent_since is not None or left <= 0:
                break
            await asyncio.wait({reading}, timeout=left)
        return self._answer(pods)

    def known(self, pods: Collection[ObjectKey]) -> LiveReading:
        """Return the last samples of pods that were read already. It reads nothing and waits for nothing."""
        return LiveReading() if self.reader is None else self._answer(pods)

    async def over_time(self, pods: Collection[ObjectKey], span: MapSpan) -> PastUse | None:
        """Return what pods did over a time. Never raises.

        While Prometheus does not answer, this is the last answer to the same question, with its time; None without one.
        """
        if self.reader is None or not pods:
            return None
        key = (span, frozenset(pods))
        kept = self._pasts.get(key)
        if kept is None or self.wall() - kept.until >= max(YOUNG_SECONDS, span.step / 4):
            tasks = self._begun_past(self.reader, key)
            if tasks:
                await self._wait(tasks)
        return self._pasts.get(key)

    async def totals(self) -> FleetTotals | None:
        """Return the GPUs of the fleet by type, as the operator's metrics had them last. Never raises.

        They are about all namespaces: whoever shows them makes sure that the person may see so much.
        """
        if self.reader is None:
            return None
        if self.wall() - self._totals_read_at >= YOUNG_SECONDS:
            if self._totals_reading is None or self._totals_reading.done():
                self._totals_reading = asyncio.create_task(self._read_totals(self.reader))
            await self._wait({self._totals_reading})
        return self._totals

    async def settled(self) -> None:
        """Wait until the readings that are under way are over."""
        if readings := {each for each in (self._reading, self._totals_reading) if each is not None}:
            await asyncio.wait(readings)

    async def _wait(self, readings: set[asyncio.Task[None]]) -> None:
        await asyncio.wait(readings, timeout=0 if self._silent_since is not None else self.patience_seconds)

    def close(self) -> None:
        """Stop reading. A question that is under way ends by its own time limit."""
        for reading in (self._reading, self._totals_reading):
            if reading is not None:
                reading.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begun(self, reader: PrometheusLive, pods: Collection[ObjectKey]) -> asyncio.Task[None]:
        """Return the reading that is under way, also one for others; a new one if there is none."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(reader, frozenset(pods)))
        return self._reading

    def _is_due(self, pods: Collection[ObjectKey]) -> bool:
        """Whether a pod was not asked about lately. A reading that lasted long is kept for longer."""
        young, now = max(YOUNG_SECONDS, 4 * self._lasted), self.wall()
        return any(pod not in self._kept or now - self._kept[pod].read_at >= young for pod in pods)

    def _answer(self, pods: Collection[ObjectKey]) -> LiveReading:
        known = {pod: kept.last for pod in pods if (kept := self._kept.get(pod)) and kept.last is not None}
        return LiveReading(self._state(), known, self._silent_since, self._error, WINDOW_SECONDS)

    def _state(self) -> LiveState:
        if self._silent_since is not None:
            return LiveState.SILENT
        return LiveState.ANSWERS if self._has_answered else LiveState.READING

    async def _read(self, reader: PrometheusLive, pods: frozenset[ObjectKey]) -> None:
        started, began = self.wall(), time.monotonic()

        def work() -> dict[ObjectKey, PodLast]:
            with self._asking():
                found = reader.last(pods, now=started, window_seconds=WINDOW_SECONDS)
            return {pod: PodLast.of(signals.samples, started) for pod, signals in found.items()}

        found = await self._tried(work)
        self._lasted = time.monotonic() - began
        if found is not None:
            self._keep(pods, found, started)

    async def _read_totals(self, reader: PrometheusLive) -> None:
        now = self.wall()

        def work() -> FleetTotals | None:
            with self._asking(), contextlib.suppress(QueryRefused):  # the samples of pods may be had nevertheless
                return reader.totals(now=now)
            return None

        self._totals = await self._tried(work) or self._totals  # the last ones stay, and grow old
        self._totals_read_at = now

    def _begun_past(self, reader: PrometheusLive, key: _PastKey) -> set[asyncio.Task[None]]:
        """Return the reading of the same question that is under way, or a new one; none while too many are."""
        self._past_readings = {old: one for old, one in self._past_readings.items() if not one.done()}
        if key not in self._past_readings and len(self._past_readings) < MOST_PAST_READINGS:
            self._past_readings[key] = asyncio.create_task(self._read_past(reader, key))
        return {self._past_readings[key]} if key in self._past_readings else set()

    async def _read_past(self, reader: PrometheusLive, key: _PastKey) -> None:
        (span, pods), now = key, self.wall()

        def work() -> PastUse | None:
            with self._asking(), contextlib.suppress(QueryRefused):  # the last samples may be had nevertheless
                return reader.over_time(pods, now=now, span=span)
            return None

        found = await self._tried(work)
        if found is not None:
            self._pasts = {old: past for old, past in self._pasts.items() if now - past.until < KEPT_SECONDS}
            self._pasts[key] = found

    async def _tried(self, work: Callable[[], T]) -> T | None:
        """Do work in a thread, and remember whether Prometheus answered; None if it did not."""
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except PlimsollError as error:
            self._silent_since = self.wall() if self._silent_since is None else self._silent_since
            self._error = str(error)
            return None
        self._silent_since, self._error, self._has_answered = None, "", True
        return found

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Count a server that does not answer. A refused query is an answer."""
        with self.breaker.attempt():
            try:
                yield
            except QueryRefused:
                raise
            except PlimsollError as error:
                raise Unreached(str(error)) from error

    def _keep(self, pods: Collection[ObjectKey], found: Mapping[ObjectKey, PodLast], now: float) -> None:
        """Remember what was found. A pod without new samples keeps its last ones, which grow old."""
        for pod in pods:
            before = self._kept.get(pod)
            self._kept[pod] = _Kept(now, found.get(pod) or _not_too_old(before, now))
        self._kept = {pod: kept for pod, kept in self._kept.items() if now - kept.read_at < KEPT_SECONDS}


def _not_too_old(kept: _Kept | None, now: float) -> PodLast | None:
    last = None if kept is None else kept.last
    return last if last is not None and last.newest is not None and now - last.newest < KEPT_SECONDS else None


def live_source(url: str | None) -> LiveSource:
    """Return the source for a Prometheus at ``url``, asked with the settings that the operator has for it.

    Without a URL it has no live figures. Raises InvalidInput naming a wrong ``PLIMSOLL_*`` variable.
    """
    if not url:
        return LiveSource(None)
    given = Settings.from_environment()
    return LiveSource(PrometheusLive(url, access=given.prometheus_access, label_pairs=given.prometheus_labels))
