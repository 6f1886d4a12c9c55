"""The agenda: actions in the order of their times."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

Action = Callable[[], None]


@dataclass(slots=True)
class Agenda:
    """Actions that wait for their time.

    ``now`` is the time of the last one, in seconds since the start of the run, and ``done`` is how many were done.
    """

    now: float = 0.0
    done: int = 0
    _next: list[tuple[float, int, Action]] = field(default_factory=list)
    _count: int = 0

    def at(self, time: float, action: Action) -> None:
        """Do ``action`` at ``time``. Actions of the same time happen in the order in which they were asked for.

        Raises:
            ValueError: the time is over.
        """
        if time < self.now:
            raise ValueError(f"time: {time} s is over; it is {self.now} s")
        self._count += 1
        heappush(self._next, (time, self._count, action))

    def every(self, first: float, seconds: float, before: float, action: Action) -> None:
        """Do ``action`` at ``first`` and then every ``seconds``, always before the time ``before``."""
        if first >= before:
            return

        def again() -> None:
            action()
            self.every(self.now + seconds, seconds, before, action)

        self.at(first, again)

    def run(self, until: float = math.inf) -> None:
        """Do everything that comes before ``until``, and what it asks for in turn."""
        while self._next and self._next[0][0] < until:
            self.now, _, action = heappop(self._next)
            self.done += 1
            action()
