"""The nodes of a fleet by their free GPUs, so that a policy finds a node without looking at all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.solvers.protocol import Stock


class Shelf:
    """Free GPUs that a policy takes. Nodes are numbered in the fleet's order."""

    def __init__(self, stock: Stock) -> None:
        self.nodes: Sequence[GpuNode] = stock.fleet.nodes
        self.free = [stock.ledger.free[node.account] for node in self.nodes]
        self._heaps: defaultdict[str, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, node in enumerate(self.nodes):
            self._heaps[node.gpu.name][self.free[number]].append(number)
        for by_free in self._heaps.values():
            for heap in by_free.values():
                heapify(heap)

    def rooms(self, gpu_type: str, gpus: int) -> Iterator[tuple[int, int]]:
        """Yield the free GPUs and the first node for every number of free GPUs that is enough, fewest first."""
        by_free = self._heaps[gpu_type]
        for free in sorted(by_free):
            if free < gpus:
                continue
            heap = by_free[free]
            while heap and self.free[heap[0]] != free:  # the node was filled since it was put here
                heappop(heap)
            if heap:
                yield free, heap[0]

    def take(self, number: int, gpus: int) -> None:
        """Take GPUs of a node."""
        self.free[number] -= gpus
        if self.free[number] < 0:
            raise ValueError(f"{self.nodes[number].name} has no {gpus} free GPUs")
        heappush(self._heaps[self.nodes[number].gpu.name][self.free[number]], number)


def ledgers(stock: Stock, taken: Sequence[Sequence[tuple[int, int]]]) -> Iterator[Ledger]:
    """Yield the ledger after each award, from the nodes and GPUs that it takes."""
    ledger = stock.ledger
    for award in taken:
        if award:
            free: dict[str, int] = {}
            for number, gpus in award:
                account = stock.fleet.nodes[number].account
                free[account] = free.get(account, ledger.free[account]) - gpus
            ledger = ledger.with_amounts(free, {})
        yield ledger
