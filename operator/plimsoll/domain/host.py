"""What a pod takes of its node besides GPUs: processor time, memory and a pod's slot."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_CPU = "2"
"""Cores that an engine asks for where the user names none: it schedules requests and feeds the GPUs from the host."""

DEFAULT_MEMORY = "8Gi"
"""Host memory that an engine asks for where the user names none: Python, CUDA's context and loading buffers."""

DEFAULT_CPU_MILLIS = 2000
"""``DEFAULT_CPU`` in thousandths of a core."""

DEFAULT_MEMORY_BYTES = 8 * 1024**3
"""``DEFAULT_MEMORY`` in bytes."""


@dataclass(frozen=True, slots=True)
class HostNeed:
    """What one pod asks of its node, in thousandths of a core and in bytes."""

    cpu_millis: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HostRoom:
    """What a node has, or has left, for pods. None: the node does not say, so nothing is refused for it."""

    cpu_millis: int | None = None
    memory_bytes: int | None = None
    pods: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether the node says anything at all."""
        return self.cpu_millis is not None or self.memory_bytes is not None or self.pods is not None

    def less(self, cpu_millis: int, memory_bytes: int, pods: int) -> HostRoom:
        """What is left after so much is taken. It may be less than nothing where a node promised too much."""
        return HostRoom(
            None if self.cpu_millis is None else self.cpu_millis - cpu_millis,
            None if self.memory_bytes is None else self.memory_bytes - memory_bytes,
            None if self.pods is None else self.pods - pods,
        )

    def takes(self, need: HostNeed, at_most: int) -> int:
        """How many pods of that need have room here, counted up to ``at_most``."""
        room = at_most
        if self.cpu_millis is not None and need.cpu_millis > 0:
            room = min(room, self.cpu_millis // need.cpu_millis)
        if self.memory_bytes is not None and need.memory_bytes > 0:
            room = min(room, self.memory_bytes // need.memory_bytes)
        if self.pods is not None:
            room = min(room, self.pods)
        return max(0, room)


UNKNOWN_HOST = HostRoom()
"""A node that says nothing of its processors, memory and pods."""
