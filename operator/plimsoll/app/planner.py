"""The loop over all objects: look, read, decide, render, write. Level-triggered: each pass starts from current state.

Steps 1 to 4 run in a separate thread (:mod:`plimsoll.app.plan.passes`), so that the event loop can still answer
watches, renew the lease and write. Step 5 runs here, for several objects at a time (:mod:`plimsoll.app.write.writers`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS
from plimsoll.adapters.metrics import Metrics
from plimsoll.app.health import Beats, PassRecord
from plimsoll.app.plan.passes import Passes
from plimsoll.app.plan.snapshot import Snapshot
from plimsoll.app.watch.store import Store, uid_of
from plimsoll.app.write.writers import Writers

DEBOUNCE_SECONDS = 0.2
"""Events come in bursts; one plan for a burst is enough."""

SHARE_OF_WRITERS = 2.0
LONGEST_BREATH_SECONDS = 10.0
"""After a pass the next one waits this many times the planning time, up to the longest. Planning and writing share one
Python interpreter, and a burst ends sooner if it is written while it is being planned."""

RESTING_SECONDS = 60.0
"""A pass is made at least this often, in case a deadline was missed."""

LOOP = "planning"
"""The name of the loop in beats."""

logger = logging.getLogger("plimsoll.planner")


@dataclass(slots=True)
class Planner:
    """The loop that makes passes and decides when.

    ``latest`` is the snapshot of the last pass; None before the first one. Any thread may read it: a snapshot never
    changes, and the next pass replaces it by another one. ``news`` is set when somebody whose deployments took little
    time lately has written one: the next pass then waits for no writes, and not for its breath.
    """

    store: Store
    passes: Passes
    writers: Writers
    metrics: Metrics
    beats: Beats = field(default_factory=Beats)
    record: PassRecord = field(default_factory=PassRecord)
    latest: Snapshot | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    not_before: float = float("-inf")
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "planning"))

    async def run(self) -> None:
        """Make passes until cancelled. A failed pass is logged and made again; probes read the record."""
        pause = 0.0
        while True:
            self.beats.rest(LOOP)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.wake.wait(), pause)
                await asyncio.sleep(DEBOUNCE_SECONDS)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), max(0.0, self.not_before - time.monotonic()))
            self.wake.clear()
            if not self.store.is_complete():
                pause = 1.0
                continue
            try:
                with self.metrics.pass_timed():
                    pause = await self.one_pass()
            except Exception as error:
                self.metrics.pass_failed()
                self.record.failed(error)
                logger.exception("a planning pass failed; the next one starts over")
                pause = min(RESTING_SECONDS, 5.0 * self.record.failures)
            else:
                self.record.succeeded()

    async def one_pass(self) -> float:
        """Make one pass. Return how many seconds the next one may wait if nothing happens."""
        self.beats.beat(LOOP, "looking")
        # Read both at one moment: a status whose write ends in between would be in neither, and be decided twice.
        self.news.clear()
        picture, intended, begun = self.store.picture(), self.writers.intended(), self.writers.begun()
        uids = [uid_of(body) for body in picture.all(INFERENCE_DEPLOYMENTS)]
        self.writers.forget_all_but(uids)
        now = time.time()
        began, loop = time.monotonic(), asyncio.get_running_loop()
        done = await loop.run_in_executor(self.thread, self.passes.make, picture, intended, now)
        self.latest = done.snapshot
        ended = time.monotonic()
        self.not_before = ended + min(LONGEST_BREATH_SECONDS, SHARE_OF_WRITERS * (ended - began))
        self.passes.reader.start_wanted()
        self.beats.beat(LOOP, "writing")
        self.writers.answer(done.orphans)
        await self.writers.carry_out(done.desired, now, self.news, begun)
        due = [*done.due_in_seconds, *self.writers.due_in_seconds(), RESTING_SECONDS]
        return max(0.5, min(due))

    def close(self) -> None:
        """Let the thread end after its current pass."""
        self.thread.shutdown(wait=False, cancel_futures=True)
