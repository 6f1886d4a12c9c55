"""Who gets which GPUs: asking never changes anything, taking gives you a new ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from plimsoll.domain.fleet import Fleet, GpuNode
from plimsoll.domain.host import UNKNOWN_HOST, HostNeed, HostRoom

Answer = TypeVar("Answer")

NO_HOST_NEED = HostNeed()

Quotas = Mapping[str, Mapping[str, int]]
"""GPUs that a namespace may still ask for, by namespace and resource. What is not in here is not limited."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is left after everything that is bound and everything already promised in this pass.

    ``free`` counts GPUs per account of a node; ``hosts`` is the rest of the node, which all its accounts share, by the
    node's name; ``quota`` is what namespaces may still ask for.
    """

    free: Mapping[str, int]
    hosts: Mapping[str, HostRoom] = field(default_factory=dict)
    quota: Quotas = field(default_factory=dict)
    _known: dict[tuple[object, ...], tuple[tuple[GpuNode, ...], object]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Answers about nodes, which no quota changes; the nodes are kept with them, so that no others have their id."""

    @staticmethod
    def of(fleet: Fleet, quota: Quotas | None = None) -> Ledger:
        """The ledger before any promise: allocatable minus what pods hold."""
        return Ledger(
            {node.account: node.free for node in fleet.nodes},
            {node.name: node.host_free for node in fleet.nodes if node.host_free.is_bounded},
            quota or {},
        )

    def room_for(
        self, nodes: tuple[GpuNode, ...], gpus: int, need: HostNeed = NO_HOST_NEED, *, enough: int | None = None
    ) -> int:
        """How many replicas of ``gpus`` GPUs and ``need``, each whole on one node, these nodes still take.

        The count stops at ``enough``: with much room left the first nodes tell as much as all of them.
        """
        return self.once("room", nodes, (gpus, need, enough), lambda: self._count_room(nodes, gpus, need, enough))

    def has_room(self, nodes: tuple[GpuNode, ...], gpus: int, need: HostNeed = NO_HOST_NEED) -> bool:
        """Whether these nodes still take one replica."""
        return self.room_for(nodes, gpus, need, enough=1) > 0

    def largest(self, nodes: tuple[GpuNode, ...]) -> int:
        """The most free GPUs on any one of these nodes."""
        return self.once("largest", nodes, (), lambda: max((self.free[node.account] for node in nodes), default=0))

    def hosts_with(self, nodes: tuple[GpuNode, ...], gpus: int) -> list[tuple[GpuNode, HostRoom]]:
        """The nodes with so many free GPUs, each with what is left of the rest."""
        return [(node, self.hosts.get(node.name, UNKNOWN_HOST)) for node in nodes if self.free[node.account] >= gpus]

    def once(
        self, question: str, nodes: tuple[GpuNode, ...], about: tuple[object, ...], find: Callable[[], Answer]
    ) -> Answer:
        """The answer to a question about what these nodes have left, which is found once."""
        key = (question, id(nodes), *about)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = nodes, find()
        answer: Answer = known[1]  # type: ignore[assignment]
        return answer

    def quota_left(self, namespace: str, resource: str) -> int | None:
        """GPUs that the namespace may still ask for. None: it is not limited."""
        return self.quota.get(namespace, {}).get(resource)

    def take(self, nodes: tuple[GpuNode, ...], gpus: int, replicas: int, need: HostNeed = NO_HOST_NEED) -> Ledger:
        """Promise GPUs for ``replicas`` replicas, tightest node first, names breaking ties.

        Raises:
            ValueError: these nodes have no room for that many; ask :meth:`room_for` first.
        """
        if replicas <= 0:
            return self
        free, hosts, left = dict(self.free), dict(self.hosts), replicas
        # The tightest node stays the tightest while it is being filled, so one walk in order fills them all.
        for node in sorted(nodes, key=lambda node: (self.free[node.account], node.account)):
            taken = min(left, self._room_on(node, gpus, need))
            if taken == 0:
                continue
            free[node.account] -= taken * gpus
            if node.name in hosts:
                hosts[node.name] = hosts[node.name].less(taken * need.cpu_millis, taken * need.memory_bytes, taken)
            left -= taken
            if left == 0:
                return Ledger(free, hosts, self.quota)
        raise ValueError(f"over-committed: {replicas} replicas of {gpus} GPUs, room for fewer")

    def charge(self, namespace: str, resource: str, gpus: int) -> Ledger:
        """Count GPUs that a namespace will ask for against its quota, if it has one."""
        left = self.quota_left(namespace, resource)
        if left is None or gpus <= 0:
            return self
        own = {**self.quota[namespace], resource: max(0, left - gpus)}
        return replace(self, quota={**self.quota, namespace: own})

    def without_quota(self) -> Ledger:
        """The same GPUs for a namespace that may ask for all of them."""
        return replace(self, quota={})

    def _count_room(self, nodes: tuple[GpuNode, ...], gpus: int, need: HostNeed, enough: int | None) -> int:
        room = 0
        for node in nodes:
            room += self._room_on(node, gpus, need)
            if enough is not None and room >= enough:
                return enough
        return room

    def _room_on(self, node: GpuNode, gpus: int, need: HostNeed) -> int:
        by_gpus = self.free[node.account] // gpus
        host = self.hosts.get(node.name) if by_gpus else None
        return by_gpus if host is None else host.takes(need, by_gpus)
