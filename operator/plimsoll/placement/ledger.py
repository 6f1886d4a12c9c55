"""The ledger of free GPUs. Queries never change it; :meth:`Ledger.take` returns a new ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from plimsoll.domain.fleet import Fleet, GpuNode
from plimsoll.domain.host import NO_HOST_NEED, UNKNOWN_HOST, HostNeed, HostRoom

Answer = TypeVar("Answer")

Quotas = Mapping[str, Mapping[str, int]]
"""Amounts that a namespace may still take, by namespace and resource. A missing entry means no limit. An amount is
negative where a limit was lowered below what is taken, or where pods that were promised go beyond it.

GPUs are counted by the name of their resource. :mod:`plimsoll.domain.quotas` has the names and units of CPU and memory.
"""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The resources left after all bound pods and all promises of this pass.

    ``free`` counts GPUs per account of a node. ``hosts`` holds the other resources of each node, by the node's name;
    all accounts of a node share them. ``quota`` holds what namespaces may still take of GPUs, CPU and memory.
    """

    free: Mapping[str, int]
    hosts: Mapping[str, HostRoom] = field(default_factory=dict)
    quota: Quotas = field(default_factory=dict)
    _known: dict[tuple[object, ...], tuple[tuple[GpuNode, ...], object]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Cached answers about nodes; quotas do not change them. The nodes are kept too, so that no others get their id."""

    @staticmethod
    def of(fleet: Fleet, quota: Quotas | None = None) -> Ledger:
        """Return the ledger before any promise: allocatable resources minus those that pods hold."""
        return Ledger(
            {node.account: node.free for node in fleet.nodes},
            {node.name: node.host_free for node in fleet.nodes if node.host_free.is_bounded},
            quota or {},
        )

    def room_for(
        self, nodes: tuple[GpuNode, ...], gpus: int, need: HostNeed = NO_HOST_NEED, *, enough: int | None = None
    ) -> int:
        """Return how many replicas of ``gpus`` GPUs and ``need`` still fit on these nodes, each whole on one node.

        The count stops at ``enough``, so that not all nodes are read where much room is left.
        """
        return self.once("room", nodes, (gpus, need, enough), lambda: self._count_room(nodes, gpus, need, enough))

    def has_room(self, nodes: tuple[GpuNode, ...], gpus: int, need: HostNeed = NO_HOST_NEED) -> bool:
        """Whether these nodes have room for one replica."""
        return self.room_for(nodes, gpus, need, enough=1) > 0

    def largest(self, nodes: tuple[GpuNode, ...]) -> int:
        """Return the most free GPUs on any one of these nodes."""
        return self.once("largest", nodes, (), lambda: max((self.free[node.account] for node in nodes), default=0))

    def hosts_with(self, nodes: tuple[GpuNode, ...], gpus: int) -> list[tuple[GpuNode, HostRoom]]:
        """Return the nodes with at least ``gpus`` free GPUs, each with its other free resources."""
        return [(node, self.hosts.get(node.name, UNKNOWN_HOST)) for node in nodes if self.free[node.account] >= gpus]

    def once(
        self, question: str, nodes: tuple[GpuNode, ...], about: tuple[object, ...], find: Callable[[], Answer]
    ) -> Answer:
        """Return the answer to a question about the free resources of these nodes. Each answer is computed once."""
        key = (question, id(nodes), *about)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = nodes, find()
        answer: Answer = known[1]  # type: ignore[assignment]
        return answer

    def quota_left(self, namespace: str, resource: str) -> int | None:
        """Return the amount of a resource that the namespace may still take. None: it has no limit."""
        return self.quota.get(namespace, {}).get(resource)

    def take(self, nodes: tuple[GpuNode, ...], gpus: int, replicas: int, need: HostNeed = NO_HOST_NEED) -> Ledger:
        """Promise GPUs for ``replicas`` replicas. The node with the fewest free GPUs comes first, then by name.

        Raises:
            ValueError: these nodes have no room for that many; call :meth:`room_for` first.
        """
        if replicas <= 0:
            return self
        free, hosts, left = dict(self.free), dict(self.hosts), replicas
        roomy = [node for node in nodes if free[node.account] >= gpus]
        # The node with the fewest free GPUs keeps that rank while it is filled, so one ordered pass is enough.
        for node in sorted(roomy, key=lambda node: (self.free[node.account], node.account)):
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

    def charge(self, namespace: str, resource: str, amount: int) -> Ledger:
        """Subtract an amount that a namespace will take of a resource from its quota, if it has one."""
        left = self.quota_left(namespace, resource)
        if left is None or amount <= 0:
            return self
        own = {**self.quota[namespace], resource: left - amount}
        return replace(self, quota={**self.quota, namespace: own})

    def without_quota(self) -> Ledger:
        """Return a ledger with the same GPUs and no quotas."""
        return replace(self, quota={})

    def _count_room(self, nodes: tuple[GpuNode, ...], gpus: int, need: HostNeed, enough: int | None) -> int:
        room, free = 0, self.free
        for node in nodes:
            if free[node.account] < gpus:
                continue
            room += self._room_on(node, gpus, need)
            if enough is not None and room >= enough:
                return enough
        return room

    def _room_on(self, node: GpuNode, gpus: int, need: HostNeed) -> int:
        by_gpus = self.free[node.account] // gpus
        host = self.hosts.get(node.name) if by_gpus else None
        return by_gpus if host is None else host.takes(need, by_gpus)
