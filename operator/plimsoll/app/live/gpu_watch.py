"""The activity of each object's GPUs, if Prometheus has it. It is evidence for people, and decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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

    def gpu_activities(
        self, pods: Mapping[ObjectKey, Collection[str]], *, now: float
    ) -> Mapping[ObjectKey, GpuActivity | None]:
        """Return the activity of the GPUs of each object's pods now; None if it is not known."""
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

    def activities(
        self, reader: object, pods: Mapping[ObjectKey, Collection[str]], now: float
    ) -> Mapping[ObjectKey, GpuActivity | None]:
        """Return the activity of the GPUs of each object's pods; None if the source has none. One question for all."""
        if not isinstance(reader, GpuReader):
            return {}
        due = {key: some for key, some in pods.items() if some and not self._is_known(key, now)}
        if due:
            found = reader.gpu_activities(due, now=now)
            self.answers |= {key: _Answer(found.get(key), now) for key in due}
        return {key: self.answers[key].activity for key, some in pods.items() if some}

    def _is_known(self, key: ObjectKey, now: float) -> bool:
        return key in self.answers and self.answers[key].holds(now)
