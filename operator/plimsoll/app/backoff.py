"""Retry pauses that grow for each object separately, with jitter."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 120.0

MOST_DOUBLINGS = 32
"""The most doublings: far beyond the longest pause and far below the limit of a float. Failures may last for days."""


@dataclass(slots=True)
class Backoff:
    """Failures in a row and the next due time of each object, on the monotonic clock."""

    _failures: dict[str, int] = field(default_factory=dict)
    _due: dict[str, float] = field(default_factory=dict)

    def is_due(self, uid: str) -> bool:
        """Whether this object may be written now."""
        return time.monotonic() >= self._due.get(uid, 0.0)

    def failed(self, uid: str, longest_seconds: float = LONGEST_SECONDS) -> float:
        """Note a failure. Return the pause in seconds: doubled each time up to the longest, half of it random."""
        count = self._failures[uid] = self._failures.get(uid, 0) + 1
        ceiling = min(longest_seconds, FIRST_SECONDS * 2.0 ** min(count - 1, MOST_DOUBLINGS))
        pause = ceiling * (0.5 + random.random() / 2)  # noqa: S311 - spreads retries, guards no secret
        self._due[uid] = time.monotonic() + pause
        return pause

    def succeeded(self, uid: str) -> None:
        """Forget the failures of an object."""
        self._failures.pop(uid, None)
        self._due.pop(uid, None)

    def next_due_in_seconds(self, uids: Iterable[str] | None = None) -> float | None:
        """Seconds until the first of these objects (default: of all) may be tried again; None if none waits."""
        now = time.monotonic()
        asked = list(self._due if uids is None else uids)
        return min((due - now for uid in asked if (due := self._due.get(uid, 0.0)) > now), default=None)

    def forget_all_but(self, uids: Iterable[str]) -> None:
        """Forget the failures of objects that no longer exist."""
        kept = set(uids)
        for uid in [uid for uid in self._due if uid not in kept]:
            self.succeeded(uid)
