"""The nodes for the shares of all kinds: the largest replicas first, each on the node with the least room for it."""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.cluster.host import UNKNOWN_HOST, HostNeed
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.solvers.deciding import Decided
from plimsoll.placement.solvers.problem import Kind, Place


@dataclass(slots=True)
class Part:
    """Replicas of one demand with one GPU type and split, and the nodes that they got.

    ``rank`` is the index of the choice in its kind, and ``kind`` that of the kind. ``size`` is the index of the
    demand's size.
    """

    demand: int
    place: Place
    gpus: int
    need: HostNeed
    replicas: int
    rank: int
    kind: int
    size: int
    nodes: list[tuple[GpuNode, int]] = field(default_factory=list)

    @property
    def packed(self) -> int:
        """The number of replicas that got a node."""
        return sum(replicas for _, replicas in self.nodes)


def pack(decided: Decided, ledger: Ledger) -> tuple[list[Part], Ledger]:
    """Return the parts of all demands with their nodes, and what is left of the ledger."""
    parts = [part for kind in range(len(decided.shares)) for part in _parts(decided, kind)]
    packer = _Packer(decided, ledger)
    for part in sorted(parts, key=_hardest_first):
        packer.pack(part)
    return parts, packer.left()


def _hardest_first(part: Part) -> tuple[int, ...]:
    """Few nodes have what a pod names other than CPU and memory, so it comes before others with as many GPUs."""
    need = part.need
    return -part.gpus, -len(need.others), -need.memory_bytes, -need.cpu_millis, part.demand


def _parts(decided: Decided, number: int) -> Iterator[Part]:
    """Divide the share of a kind among its members: the oldest get the preferred choices."""
    kind, share = decided.posed.problem.kinds[number], decided.shares[number]
    members = list(decided.posed.members[number])
    for choice, count in share.whole:
        for member in members[:count]:
            yield _part(kind, number, member, choice, kind.sizes[kind.choices[choice].size])
        members = members[count:]
    for size, count in share.mixed:
        loose = [each for each in share.loose if kind.choices[each[0]].size == size]
        yield from _mixed(kind, number, members[:count], loose, kind.sizes[size])
        members = members[count:]


def _mixed(
    kind: Kind, number: int, members: Sequence[int], loose: list[tuple[int, int]], replicas: int
) -> Iterator[Part]:
    for member in members:
        missing = replicas
        while missing and loose:
            choice, left = loose.pop(0)
            taken = min(missing, left)
            yield _part(kind, number, member, choice, taken)
            missing -= taken
            if left > taken:
                loose.insert(0, (choice, left - taken))


def _part(kind: Kind, number: int, member: int, choice: int, replicas: int) -> Part:
    chosen = kind.choices[choice]
    return Part(member, chosen.place, chosen.gpus, chosen.need, replicas, choice, number, chosen.size)


Queue = dict[int, list[GpuNode]]
"""Nodes by their number of free GPUs."""


def _account(node: GpuNode) -> str:
    return node.account


class _Packer:
    """Takes nodes from the groups as the solution divides a choice over them."""

    def __init__(self, decided: Decided, ledger: Ledger) -> None:
        self.decided, self.ledger = decided, ledger
        self.booked: list[GpuNode] = []
        self.free = dict(ledger.free)
        self.hosts = dict(ledger.hosts)
        self.parts = [Counter(dict(share.parts)) for share in decided.shares]
        self.queues = [self._queue(nodes) for nodes in decided.posed.nodes]

    def _queue(self, nodes: Sequence[GpuNode]) -> Queue:
        """Return nodes by their number of free GPUs, each list in the order of accounts."""
        queue: Queue = defaultdict(list)
        for node in nodes:
            queue[self.free[node.account]].append(node)
        for each in queue.values():
            each.sort(key=_account)
        return queue

    def pack(self, part: Part) -> None:
        kind = self.decided.posed.problem.kinds[part.kind]
        shares = self.parts[part.kind]
        for group in kind.choices[part.rank].groups:
            planned = min(shares[part.rank, group], part.replicas - part.packed)
            shares[part.rank, group] -= self._take(self.queues[group], part, planned)

    def _take(self, queue: Queue, part: Part, replicas: int) -> int:
        taken = 0
        for free in sorted(each for each in queue if each >= part.gpus):
            for node in list(queue[free]):
                if taken == replicas:
                    return taken
                more = self._room(node, free, part, replicas - taken)
                if more:
                    self._book(queue, node, free, part, more)
                    taken += more
        return taken

    def _room(self, node: GpuNode, free: int, part: Part, at_most: int) -> int:
        host = self.hosts.get(node.name, UNKNOWN_HOST)
        return host.takes(part.need, min(free // part.gpus, at_most))

    def _book(self, queue: Queue, node: GpuNode, free: int, part: Part, replicas: int) -> None:
        left = free - replicas * part.gpus
        queue[free].remove(node)
        insort(queue[left], node, key=_account)
        self.free[node.account] = left
        if node.name in self.hosts:
            self.hosts[node.name] = self.hosts[node.name].without(part.need, replicas)
        part.nodes.append((node, replicas))
        self.booked.append(node)

    def left(self) -> Ledger:
        free = {node.account: self.free[node.account] for node in self.booked}
        hosts = {node.name: self.hosts[node.name] for node in self.booked if node.name in self.hosts}
        return self.ledger.with_amounts(free, hosts)
