"""Counts the outcomes of all requests."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from testbed.traffic.completion import Answered


class Tally:
    """Requests that have ended; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Answered] = []

    def add(self, answered: Answered) -> None:
        """Count one."""
        with self._lock:
            self._all.append(answered)

    def all(self, since: float = 0.0) -> list[Answered]:
        """Requests that began at this time (POSIX seconds) or later, in the order of their ends."""
        with self._lock:
            return [each for each in self._all if each.began >= since]

    def served(self, since: float = 0.0) -> int:
        """How many were answered in full."""
        return sum(1 for each in self.all(since) if not each.error)

    def lost(self, since: float = 0.0) -> list[Answered]:
        """Those that were not."""
        return [each for each in self.all(since) if each.error]

    def by_pod(self, since: float = 0.0) -> Counter[str]:
        """How many each pod answered in full."""
        return Counter(each.pod for each in self.all(since) if not each.error)

    def seconds(self, since: float = 0.0) -> list[float]:
        """How long the answers took, the quickest first."""
        return sorted(each.seconds for each in self.all(since) if not each.error)

    def first_token_seconds(self, since: float = 0.0) -> list[float]:
        """How long the first tokens took, the quickest first."""
        return sorted(each.first_token_seconds or 0.0 for each in self.all(since) if not each.error)

    def line(self, since: float = 0.0) -> str:
        """One line for a person."""
        times, firsts = self.seconds(since), self.first_token_seconds(since)
        return (
            f"{len(times)} served, {len(self.lost(since))} lost; seconds p50 {percentile(times, 50):.1f} "
            f"p99 {percentile(times, 99):.1f}, to the first token p50 {percentile(firsts, 50):.1f} "
            f"p99 {percentile(firsts, 99):.1f}; by pod {dict(self.by_pod(since))}"
        )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the smallest value that so many percent do not exceed; 0 for no values."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0.0
