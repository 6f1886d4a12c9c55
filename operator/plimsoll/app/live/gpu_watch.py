"""The activity of each object's GPUs, if Prometheus has it. It is evidence for people, and decides nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.metrics import GpuActivity

YOUNG_SECONDS = 60.0
"""An answer is used for so long: it is read for people, and no decision waits for it."""

PATIENCE_SECONDS = 600.0
"""So long nothing is asked after no answer. Most clusters have no such series, and those that have them keep them."""


@runtime_checkable
class GpuReader(Protocol):
    """A source of the activity of GPUs. A failure is no answer."""

    def gpu_activity(self, namespace: str, pods: Collection[str]) -> GpuActivity | None:
        """Return the activity of the pods' GPUs now; None if it is not known."""
        ...


@dataclass(frozen=True, slots=True)
class _Answer:
    activity: GpuActivity | None
    at: float

    def holds(self, now: float) -> bool:
        """Whether it need not be asked again."""
        return 0 <= now - self.at < (PATIENCE_SECONDS if self.activity is None else YOUNG_SECONDS)


@dataclass(slots=True)
class GpuWatch:
    """The last answers by object. Each object is asked about by one thread at a time."""

    answers: dict[ObjectKey, _Answer] = field(default_factory=dict)

    def activity(self, reader: object, key: ObjectKey, pods: Collection[str], now: float) -> GpuActivity | None:
        """Return the activity of an object's GPUs; None if the source has none."""
        if not isinstance(reader, GpuReader) or not pods:
            return None
        known = self.answers.get(key)
        if known is None or not known.holds(now):
            known = self.answers[key] = _Answer(reader.gpu_activity(key.namespace, pods), now)
        return known.activity
