"""Who gets which GPUs: asking never changes anything, taking gives you a new ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from plimsoll.domain.fleet import Fleet, GpuNode


@dataclass(frozen=True, slots=True)
class Ledger:
    """Free GPUs per account of a node, after everything that is bound and everything already promised in this pass."""

    free: Mapping[str, int]
    _known: dict[tuple[int, int], tuple[tuple[GpuNode, ...], int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Answers by nodes and GPUs; the nodes are kept with them, so that no others can have their ``id``."""

    @staticmethod
    def of(fleet: Fleet) -> Ledger:
        """The ledger before any promise: allocatable minus what pods hold."""
        return Ledger({node.account: node.free for node in fleet.nodes})

    def room_for(self, nodes: tuple[GpuNode, ...], gpus: int) -> int:
        """How many replicas of ``gpus`` GPUs, each whole on one node, these nodes still take."""
        if (id(nodes), gpus) not in self._known:
            self._known[id(nodes), gpus] = nodes, sum(self.free[node.account] // gpus for node in nodes)
        return self._known[id(nodes), gpus][1]

    def largest(self, nodes: tuple[GpuNode, ...]) -> int:
        """The most free GPUs on any one of these nodes."""
        if (id(nodes), 0) not in self._known:
            self._known[id(nodes), 0] = nodes, max((self.free[node.account] for node in nodes), default=0)
        return self._known[id(nodes), 0][1]

    def take(self, nodes: tuple[GpuNode, ...], gpus: int, replicas: int) -> Ledger:
        """Promise GPUs for ``replicas`` replicas, tightest node first, names breaking ties.

        Raises:
            ValueError: these nodes have no room for that many; ask :meth:`room_for` first.
        """
        if replicas == 0:
            return self
        free = dict(self.free)
        for _ in range(replicas):
            fitting = [node.account for node in nodes if free[node.account] >= gpus]
            if not fitting:
                raise ValueError(f"over-committed: {replicas} replicas of {gpus} GPUs, room for fewer")
            tightest = min(fitting, key=lambda name: (free[name], name))
            free[tightest] -= gpus
        return Ledger(free)
