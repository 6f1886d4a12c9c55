"""A fair queue: the namespaces share a few places, so that none waits for all work of another."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Lane(Generic[T]):
    """A queue for each namespace, and limits on what runs at once, in total and for one namespace.

    The next item is from the namespace that started an item the longest ago.

    Args:
        at_once: the most items that run at once.
        per_namespace: the most of them from one namespace.
    """

    at_once: int
    per_namespace: int
    _ready: dict[str, deque[T]] = field(default_factory=dict)
    _running: Counter[str] = field(default_factory=Counter)
    _last: dict[str, int] = field(default_factory=dict)
    _begun: int = 0

    def offer(self, ready: Mapping[str, deque[T]]) -> None:
        """Replace the waiting items. A namespace with nothing to do loses its place in the order."""
        self._ready = {namespace: queue for namespace, queue in ready.items() if queue}
        kept = self._ready.keys() | self._running.keys()
        self._last = {namespace: number for namespace, number in self._last.items() if namespace in kept}

    def begin(self) -> T | None:
        """Take the next item; None if none may start."""
        if self._running.total() >= self.at_once:
            return None
        able = [namespace for namespace in self._ready if self._running[namespace] < self.per_namespace]
        if not able:
            return None
        namespace = min(able, key=lambda each: self._last.get(each, 0))
        queue = self._ready[namespace]
        taken = queue.popleft()
        if not queue:
            del self._ready[namespace]
        self._begun += 1
        self._last[namespace] = self._begun
        self._running[namespace] += 1
        return taken

    def end(self, namespace: str) -> None:
        """Note that an item of this namespace has ended."""
        self._running[namespace] -= 1
        if not self._running[namespace]:
            del self._running[namespace]
