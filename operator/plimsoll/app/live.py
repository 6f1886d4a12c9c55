"""Live signals: read from Prometheus in the background and kept with their time of reading."""

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
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.signals import SignalState

READING_DEADLINE_SECONDS = 10.0
"""The time limit of one reading, whatever the server does; twice the adapter's own timeout."""

READERS = 4
"""Objects read at the same time: a hanging server delays a quarter as long, and a working one is not overloaded."""

CAPACITY_WINDOW_SECONDS = 60
"""The window for objects whose live loop is off: enough to learn what the engine reports."""

STALE_MEMORY_SECONDS = 60
"""How far before its window a pod's last sample is still read. It tells a pod that stopped reporting from one that
never did. Two scrapes of 30 s; more would make every answer longer only for that message."""

logger = logging.getLogger("plimsoll.live")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The pods and the window to read for one object, and the names of its engine's metrics."""

    pods: tuple[str, ...]
    window_seconds: int = CAPACITY_WINDOW_SECONDS
    metrics: EngineMetrics = engine_of().metrics


@dataclass(slots=True)
class LiveSignals:
    """The latest reading of every object. ``reader`` is None where no Prometheus is configured."""

    reader: PrometheusSignals | None
    on_change: Callable[[], None]
    wanted: Mapping[ObjectKey, Wanted] = field(default_factory=dict)
    readings: dict[ObjectKey, Reading] = field(default_factory=dict)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(READERS, "signals"))

    def reading(self, key: ObjectKey) -> Reading | None:
        """The latest reading; UNAVAILABLE if no Prometheus is configured. None: nothing has been read yet."""
        if self.reader is None:
            return Reading(state=SignalState.UNAVAILABLE, error="No Prometheus is configured")
        return self.readings.get(key)

    async def run(self, pause_seconds: float) -> None:
        """Read again and again until cancelled."""
        if self.reader is None:
            return
        while True:  # in separate threads: a hanging server blocks no other work
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
        now, window, metrics = time.time(), what.window_seconds, what.metrics
        ask = partial(reader.read, key.namespace, what.pods, window_seconds=window, now=now, metrics=metrics)
        work = asyncio.get_running_loop().run_in_executor(self.threads, ask)
        try:
            return await asyncio.wait_for(work, READING_DEADLINE_SECONDS)
        except TimeoutError:
            return Reading(state=SignalState.UNAVAILABLE, error="Prometheus did not answer in time")
        except Exception as error:  # a reading must never end the loop: an unknown answer counts as none
            logger.exception("reading signals of %s failed", key)
            return Reading(state=SignalState.UNAVAILABLE, error=f"{type(error).__name__}: {error}")
