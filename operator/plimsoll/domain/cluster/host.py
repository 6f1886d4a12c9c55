"""The node resources that a pod takes other than GPUs: CPU, memory, one of the node's pods, and what else it names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from plimsoll.domain.units import GIB, ceil_div, format_gib

DEFAULT_CPU = "2"
"""The CPU request of an engine on one GPU if the user sets none. The engine schedules requests and feeds the GPU."""

DEFAULT_MEMORY = "8Gi"
"""The memory request of an engine on one GPU if the user sets none and no weights stay in host memory."""

DEFAULT_CPU_MILLIS = 2000
"""``DEFAULT_CPU`` in thousandths of a core."""

DEFAULT_MEMORY_BYTES = 8 * 1024**3
"""``DEFAULT_MEMORY`` in bytes."""


Amounts = tuple[tuple[str, int], ...]
"""Amounts of further resources by their names in Kubernetes, sorted by name: bytes of ``ephemeral-storage`` and of huge
pages, and numbers of devices such as ``rdma/ib``."""


DISK = "ephemeral-storage"
"""The resource of a node's disk: logs, the pods' own files, and volumes of kind ``emptyDir``. Source:
https://kubernetes.io/docs/concepts/storage/ephemeral-storage/"""


def is_in_bytes(resource: str) -> bool:
    """Whether amounts of a further resource are bytes. All others are counted."""
    return resource == DISK or resource.startswith("hugepages-")


def amount_words(resource: str, amount: int) -> str:
    """Return an amount of a further resource in words: ``2 rdma/ib``, ``4.00 GiB of hugepages-2Mi``."""
    return f"{format_gib(amount)} of {resource}" if is_in_bytes(resource) else f"{amount} {resource}"


def times(amounts: Amounts, count: int) -> Amounts:
    """Return the amounts of so many pods."""
    return tuple([(name, amount * count) for name, amount in amounts]) if amounts else ()


def less(amounts: Amounts, taken: Amounts) -> Amounts:
    """Return what is left of amounts. What is taken of a resource that is not there makes its amount negative."""
    if not taken:
        return amounts
    left = dict(amounts)
    for name, amount in taken:
        left[name] = left.get(name, 0) - amount
    return tuple(sorted(left.items()))


class HostNeed(NamedTuple):
    """The requests of one pod: CPU in thousandths of a core, memory in bytes, and positive amounts of others.

    GPUs are not among these.
    """

    cpu_millis: int = 0
    memory_bytes: int = 0
    others: Amounts = ()

    def is_within(self, other: HostNeed) -> bool:
        """Whether a pod with this need fits wherever a pod with the other need fits."""
        if self.cpu_millis > other.cpu_millis or self.memory_bytes > other.memory_bytes:
            return False
        return all(amount <= dict(other.others).get(name, 0) for name, amount in self.others)


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
        """The memory below which the kernel kills the engine for sure; 0 if no term is certain."""
        certain = sum([term.size_bytes for term in self.terms if term.is_certain])
        return certain + self.floor_bytes if certain else 0


class HostCache(NamedTuple):
    """The KV cache of one replica that is in host memory: finished prefixes, for requests that come again.

    ``asked_bytes`` hold ``chunks`` of ``chunk_bytes`` of all ranks, and these ``tokens``: at least as many, if
    ``is_least``.
    """

    asked_bytes: int
    chunks: int
    chunk_bytes: int
    tokens: int
    is_least: bool = False


USUAL_HOST = HostEstimate(
    (HostTerm("processes", "the engine's processes and its shared memory", DEFAULT_MEMORY_BYTES),),
    DEFAULT_CPU_MILLIS,
    2 * GIB,
)
"""The estimate of an engine that nothing more is known of."""


class HostRoom(NamedTuple):
    """The resources that a node has, or has left, for pods. None: the node does not report it, so it has no limit.

    A node that reports its ``others`` has nothing of a resource that is not among them, as the scheduler counts it.
    """

    cpu_millis: int | None = None
    memory_bytes: int | None = None
    pods: int | None = None
    others: Amounts | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether the node reports any of these resources."""
        return self != UNKNOWN_HOST

    def without(self, need: HostNeed, pods: int) -> HostRoom:
        """Return what is left after so many pods with that need. A negative number of pods gives back."""
        return self.less(pods * need.cpu_millis, pods * need.memory_bytes, pods, times(need.others, pods))

    def less(self, cpu_millis: int, memory_bytes: int, pods: int, others: Amounts = ()) -> HostRoom:
        """Return what is left after taking these amounts. It may be negative if a node is over-committed."""
        return HostRoom(
            None if self.cpu_millis is None else self.cpu_millis - cpu_millis,
            None if self.memory_bytes is None else self.memory_bytes - memory_bytes,
            None if self.pods is None else self.pods - pods,
            None if self.others is None else less(self.others, others),
        )

    def above(self, left: HostRoom) -> HostRoom:
        """Return what was taken from this room so that ``left`` remained."""
        found = self.less(left.cpu_millis or 0, left.memory_bytes or 0, left.pods or 0, left.others or ())
        return found._replace(others=()) if left.others and left.others is self.others else found

    def of_other(self, resource: str) -> int | None:
        """Return the amount of a further resource; None if the node reports none of them."""
        return None if self.others is None else dict(self.others).get(resource, 0)

    def takes(self, need: HostNeed, at_most: int) -> int:
        """Return how many pods with that need have room here, at most ``at_most``."""
        room = at_most
        if self.cpu_millis is not None and need.cpu_millis > 0:
            room = min(room, self.cpu_millis // need.cpu_millis)
        if self.memory_bytes is not None and need.memory_bytes > 0:
            room = min(room, self.memory_bytes // need.memory_bytes)
        if self.pods is not None:
            room = min(room, self.pods)
        if need.others and room > 0 and self.others is not None:
            left = dict(self.others)
            room = min(room, *[left.get(name, 0) // amount for name, amount in need.others])
        return max(0, room)


UNKNOWN_HOST = HostRoom()
"""A node that reports none of its resources."""
