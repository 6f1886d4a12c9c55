"""The node resources that a pod takes besides GPUs: CPU, memory and one of the node's pods."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_CPU = "2"
"""The CPU request of an engine where the user sets none. The engine schedules requests and feeds the GPUs."""

DEFAULT_MEMORY = "8Gi"
"""The memory request of an engine where the user sets none: for Python, CUDA's context and loading buffers."""

DEFAULT_CPU_MILLIS = 2000
"""``DEFAULT_CPU`` in thousandths of a core."""

DEFAULT_MEMORY_BYTES = 8 * 1024**3
"""``DEFAULT_MEMORY`` in bytes."""


@dataclass(frozen=True, slots=True)
class HostNeed:
    """The CPU and memory that one pod requests, in thousandths of a core and in bytes."""

    cpu_millis: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HostRoom:
    """The resources that a node has, or has left, for pods. None: the node does not report it, so it has no limit."""

    cpu_millis: int | None = None
    memory_bytes: int | None = None
    pods: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether the node reports any of these resources."""
        return self.cpu_millis is not None or self.memory_bytes is not None or self.pods is not None

    def less(self, cpu_millis: int, memory_bytes: int, pods: int) -> HostRoom:
        """Return what is left after taking these amounts. It may be negative where a node is over-committed."""
        return HostRoom(
            None if self.cpu_millis is None else self.cpu_millis - cpu_millis,
            None if self.memory_bytes is None else self.memory_bytes - memory_bytes,
            None if self.pods is None else self.pods - pods,
        )

    def takes(self, need: HostNeed, at_most: int) -> int:
        """Return how many pods with that need have room here, at most ``at_most``."""
        room = at_most
        if self.cpu_millis is not None and need.cpu_millis > 0:
            room = min(room, self.cpu_millis // need.cpu_millis)
        if self.memory_bytes is not None and need.memory_bytes > 0:
            room = min(room, self.memory_bytes // need.memory_bytes)
        if self.pods is not None:
            room = min(room, self.pods)
        return max(0, room)


UNKNOWN_HOST = HostRoom()
"""A node that reports no CPU, memory or pods."""
