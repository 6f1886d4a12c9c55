"""How many event streams may be open?

Each stream holds a connection and a task for as long as a tab is open. Beyond the bounds the answer is 503 with
``Retry-After``, and the page polls instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from plimsoll.console.guards.refusals import Refusal

MOST = 64
MOST_OF_ONE = 4
"""Over HTTP/1.1 a browser opens six connections to a host. Two stay free for pages, however many tabs are visible."""

RETRY_SECONDS = 30


class Budget:
    """The places for event streams of one process.

    Args:
        most: open streams in total.
        most_of_one: open streams of one person.
    """

    def __init__(self, most: int = MOST, most_of_one: int = MOST_OF_ONE) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._open: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """The number of streams that are open now."""
        return self._open.total()

    @contextmanager
    def place(self, person: str) -> Iterator[None]:
        """Hold one place as long as the stream is open. It does not wait for a place.

        Args:
            person: any key that differs between people. It is forgotten with the person's last stream.

        Raises:
            Refusal: 503, all places are taken.
        """
        if self.open >= self._most or self._open[person] >= self._most_of_one:
            raise _full()
        self._open[person] += 1
        try:
            yield
        finally:
            self._open[person] -= 1
            if not self._open[person]:
                del self._open[person]


def _full() -> Refusal:
    return Refusal(
        503,
        "TooManyStreams",
        "Too many pages receive live figures at the same time.",
        "The page asks again by itself. Close tabs that nobody reads.",
        {"Retry-After": str(RETRY_SECONDS)},
    )
