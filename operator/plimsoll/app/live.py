"""Live signals: read from Prometheus in the background, kept with the moment they were read."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from plimsoll.adapters.prometheus import PrometheusSignals, Reading
from plimsoll.domain.keys import ObjectKey
from plimsoll.rebalance.signals import SignalState

READING_DEADLINE_SECONDS = 10.0
"""Bound on one reading whatever the server does; twice the adapter's own timeout."""

READERS = 4
"""Objects read at the same time: a server that hangs holds up a quarter as long, and one that works is not besieged."""

CAPACITY_WINDOW_SECONDS = 60
"""Window for objects whose live loop is off: enough to learn what the engine reports."""

STALE_MEMORY_SECONDS = 60
"""How far beyond its window a pod's last sample is still found, to tell one that fell silent from one that never spoke.
Two scrapes of 30 s; more would make every answer longer for the sake of a word."""

logger = logging.getLogger("plimsoll.live")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read for one object."""

    pods: tuple[str, ...]
    window_seconds: int = CAPACITY_WINDOW_SECONDS


@dataclass(slots=True)
class LiveSignals:
    """The latest reading of every object. ``reader`` is None where no Prometheus is configured."""

    reader: PrometheusSignals | None
    on_change: Callable[[], None]
    wanted: Mapping[ObjectKey, Wanted] = field(default_factory=dict)
    readings: dict[ObjectKey, Reading] = field(default_factory=dict)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(READERS, "signals"))

    def reading(self, key: ObjectKey) -> Reading | None:
        """The latest reading; UNAVAILABLE where no Prometheus is configured. None: nothing has been read yet."""
        if self.reader is None:
            return Reading(state=SignalState.UNAVAILABLE, error="No Prometheus is configured")
        return self.readings.get(key)

    async def run(self, pause_seconds: float) -> None:
        """Read again and again until cancelled."""
        if self.reader is None:
            return
        while True:  # in threads of its own: a server that hangs takes nobody else's
            started = time.monotonic()
            await self._read_all(self.reader)
            await asyncio.sleep(max(0.1, pause_seconds - (time.monotonic() - started)))

    async def _read_all(self, reader: PrometheusSignals) -> None:
        wanted = dict(self.wanted)
        for key in [key for key in self.readings if key not in wanted]:
            del self.readings[key]
        turn = asyncio.Semaphore(READERS)

        async def update(key: ObjectKey, what: Wanted) -> None:
            async with turn:
                self.readings[key] = await self._read(reader, key, what)

        await asyncio.gather(*(update(key, what) for key, what in wanted.items()))
        if wanted:
            self.on_change()

    async def _read(self, reader: PrometheusSignals, key: ObjectKey, what: Wanted) -> Reading:
        ask = partial(reader.read, key.namespace, what.pods, window_seconds=what.window_seconds, now=time.time())
        work = asyncio.get_running_loop().run_in_executor(self.threads, ask)
        try:
            return await asyncio.wait_for(work, READING_DEADLINE_SECONDS)
        except TimeoutError:
            return Reading(state=SignalState.UNAVAILABLE, error="Prometheus did not answer in time")
        except Exception as error:  # a reading must never end the loop: unknown answers are no answers
            logger.exception("reading signals of %s failed", key)
            return Reading(state=SignalState.UNAVAILABLE, error=f"{type(error).__name__}: {error}")
