"""The node resources that a pod takes besides GPUs: CPU, memory and one of the node's pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from plimsoll.domain.units import GIB, ceil_div

DEFAULT_CPU = "2"
"""The CPU request of an engine on one GPU where the user sets none. The engine schedules requests and feeds the GPU."""

DEFAULT_MEMORY = "8Gi"
"""The memory request of an engine on one GPU where the user sets none and no weights stay in host memory."""

DEFAULT_CPU_MILLIS = 2000
"""``DEFAULT_CPU`` in thousandths of a core."""

DEFAULT_MEMORY_BYTES = 8 * 1024**3
"""``DEFAULT_MEMORY`` in bytes."""


class HostNeed(NamedTuple):
    """The CPU and memory that one pod requests, in thousandths of a core and in bytes."""

    cpu_millis: int = 0
    memory_bytes: int = 0

    def is_within(self, other: HostNeed) -> bool:
        """Whether a pod with this need fits wherever a pod with the other need fits."""
        return self.cpu_millis <= other.cpu_millis and self.memory_bytes <= other.memory_bytes


NO_HOST_NEED = HostNeed()


class HostTerm(NamedTuple):
    """A part of a pod's host memory: its name in the API, a formula with its numbers, and its bytes.

    A certain term is memory that the engine allocates for sure. The others are estimates that a user may replace.
    """

    name: str
    formula: str
    size_bytes: int
    is_certain: bool = False


@dataclass(frozen=True, slots=True)
class HostEstimate:
    """The host memory and CPU that the pod of one replica needs, term by term.

    ``shm_bytes`` is the size of ``/dev/shm``. It is memory of the pod, so the terms contain it. ``floor_bytes`` is the
    memory that the processes take for sure, in addition to the certain terms.
    """

    terms: tuple[HostTerm, ...]
    cpu_millis: int
    shm_bytes: int
    floor_bytes: int = 0
    memory_bytes: int = field(init=False, repr=False, compare=False)
    """The sum of the terms, rounded up to whole GiB as it is requested."""

    def __post_init__(self) -> None:
        """Compute the sum once: a pass reads it for each candidate of each deployment."""
        total = ceil_div(sum(term.size_bytes for term in self.terms), GIB) * GIB
        object.__setattr__(self, "memory_bytes", total)

    @property
    def least_bytes(self) -> int:
        """The memory below which the kernel kills the engine for sure; 0 where no term is certain."""
        certain = sum([term.size_bytes for term in self.terms if term.is_certain])
        return certain + self.floor_bytes if certain else 0


USUAL_HOST = HostEstimate(
    (HostTerm("processes", "the engine's processes and its shared memory", DEFAULT_MEMORY_BYTES),),
    DEFAULT_CPU_MILLIS,
    2 * GIB,
)
"""The estimate of an engine that nothing more is known of."""


class HostRoom(NamedTuple):
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
