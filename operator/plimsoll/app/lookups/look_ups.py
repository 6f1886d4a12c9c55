"""Look-ups in the background: answers are kept in memory, and a pass never waits for one.

What is asked for has an entry on the page of its namespace. Entries that are due are read in fair order, a few at a
time, and again when they are due again. Entries that nobody asks for are dropped.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from plimsoll.app.lookups.lanes import Lane


@dataclass(slots=True, kw_only=True)
class LookUp:
    """One look-up for one namespace: idle until ``due_at``, or running. ``lane`` is the queue in which it waits."""

    namespace: str
    lane: int = 0
    asked_at: float = 0.0
    due_at: float = 0.0
    is_running: bool = False


E = TypeVar("E", bound=LookUp)


class LookUps(Generic[E]):
    """The entries of a cache of look-ups, and the tasks that read them.

    Entries may be found and added from any thread that holds ``lock``; everything else belongs to the event loop.

    Args:
        read: reads one entry. It raises nothing, and says in ``due_at`` when the entry is to be read again.
        lanes: the queues. Entries of one never wait for those of another.
        forgotten_seconds: an entry that nobody asked for in this time is dropped.
        is_wanted: whether an idle entry is to be read when it is due.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        read: Callable[[E], Awaitable[None]],
        lanes: Sequence[Lane[E]],
        *,
        forgotten_seconds: float,
        is_wanted: Callable[[E], bool] = lambda _: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lock = threading.Lock()
        self.pages: dict[str, OrderedDict[Hashable, E]] = {}
        """Entries by namespace and question, the least recently asked first."""
        self._read = read
        self._lanes = lanes
        self._forgotten_seconds = forgotten_seconds
        self._is_wanted = is_wanted
        self._clock = clock
        self._tasks: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def found(self, namespace: str, question: Hashable) -> E | None:
        """Return the entry of a question, and note that it was asked for now; None if there is none."""
        page = self.pages.get(namespace, OrderedDict())
        entry = page.get(question)
        if entry is not None:
            entry.asked_at = self._clock()
            page.move_to_end(question)
        return entry

    def add(self, question: Hashable, entry: E) -> E:
        """Add an entry that is asked for now."""
        entry.asked_at = self._clock()
        self.pages.setdefault(entry.namespace, OrderedDict())[question] = entry
        return entry

    def of_namespace(self, namespace: str) -> int:
        """Return the number of entries of a namespace."""
        return len(self.pages.get(namespace, ()))

    def drop(self, namespace: str, question: Hashable) -> None:
        """Drop an entry."""
        del self.pages[namespace][question]
        if not self.pages[namespace]:
            del self.pages[namespace]

    def start(self) -> None:
        """Start to read what is due. A timer starts what is due later."""
        if self._is_closed:
            return
        now = self._clock()
        with self.lock:
            self._forget(now)
            idle = [each for each in self._all() if not each.is_running and self._is_wanted(each)]
        for number, lane in enumerate(self._lanes):
            lane.offer(_by_namespace(each for each in idle if each.lane == number and each.due_at <= now))
        self._fill()
        self._come_back(min((each.due_at - now for each in idle if each.due_at > now), default=None))

    async def close(self) -> None:
        """Stop what still runs."""
        self._is_closed = True
        self._come_back(None)
        running = list(self._tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _all(self) -> Iterator[E]:
        return (entry for page in self.pages.values() for entry in page.values())

    def _forget(self, now: float) -> None:
        old = now - self._forgotten_seconds
        for namespace, page in list(self.pages.items()):
            while page and next(iter(page.values())).asked_at < old:
                page.popitem(last=False)
            if not page:
                del self.pages[namespace]

    def _come_back(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self.start)

    def _fill(self) -> None:
        for lane in self._lanes:
            while (entry := lane.begin()) is not None:
                entry.is_running = True
                task = asyncio.ensure_future(self._read(entry))
                self._tasks.add(task)
                task.add_done_callback(partial(self._ended, entry))

    def _ended(self, entry: E, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        entry.is_running = False
        self._lanes[entry.lane].end(entry.namespace)
        if not self._is_closed:
            self._fill()


def _by_namespace(entries: Iterator[E]) -> dict[str, deque[E]]:
    """Return the entries by namespace, those due the longest first."""
    queues: dict[str, deque[E]] = {}
    for entry in sorted(entries, key=lambda each: each.due_at):
        queues.setdefault(entry.namespace, deque()).append(entry)
    return queues
