"""The ledger of free GPUs, and what one replica or one award takes from it and from its namespace's quotas.

Queries never change a ledger; :meth:`Ledger.take` returns a new one. A new ledger shares all with the old one except
the blocks of nodes that differ, so a pass that keeps one for each deployment takes little memory. The answers about
blocks and sections of nodes are shared as well, so a change of one node leaves most of them valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.host import NO_HOST_NEED, UNKNOWN_HOST, Amounts, HostNeed, HostRoom, times
from plimsoll.domain.cluster.quota_accounts import is_counted, resource_in, spot_account
from plimsoll.domain.decisions.outcomes import Option, ReplicaShape
from plimsoll.domain.kubernetes_names import ALL_PODS, CPU_LIMITS, CPU_REQUESTS, MEMORY_LIMITS, MEMORY_REQUESTS, PODS
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.options.candidates import Candidate
from plimsoll.placement.options.nodes import host_need

Answer = TypeVar("Answer")

Quotas = Mapping[str, Mapping[str, int]]
"""Amounts that a namespace may still take, by namespace and account. A missing entry means no limit. An amount is
negative if a limit was lowered below what is taken, or if pods that were promised go beyond it.

:mod:`plimsoll.domain.cluster.quota_accounts` has the accounts. GPUs are counted by the name of their resource.
:mod:`plimsoll.domain.kubernetes_names` has the names and units of CPU,
memory and pods.
"""

BLOCK = 32
"""The accounts of a block. One award copies one block and a reference to each other block of its section, which is the
least with blocks of about the square root of the largest section: some 1,000 nodes of one GPU type."""

Spot = tuple[int, int, int]
"""The indexes of a section, of one of its blocks, and of an account in the block."""


class _Block(NamedTuple):
    """What is free on the accounts of a block: GPUs, and the other resources of the account's node, if it reports any.

    Several accounts of one node are in one block, and each has the node's other resources.
    """

    free: tuple[int, ...]
    hosts: tuple[HostRoom | None, ...]


_Blocks = tuple[tuple[_Block, ...], ...]
"""All blocks, by section."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The accounts of each block of each section, the names of their nodes, and their indexes in the fleet.

    A section holds all nodes with the same GPU types. ``spots`` finds an account, ``homes`` a node's first account.
    Fleets with equal layouts have equal grids.
    """

    accounts: tuple[tuple[tuple[str, ...], ...], ...]
    names: tuple[tuple[tuple[str, ...], ...], ...]
    indexes: tuple[tuple[tuple[int, ...], ...], ...] = field(repr=False)
    spots: Mapping[str, Spot] = field(repr=False, compare=False)
    homes: Mapping[str, Spot] = field(repr=False, compare=False)
    largest: int = field(repr=False, compare=False)
    """The accounts of the largest section."""

    @staticmethod
    def of(fleet: Fleet) -> Grid:
        """Return the grid of a fleet: the entries of one node are together, and a block has hardly more than it may."""
        nodes, spots, homes = fleet.nodes, dict[str, Spot](), dict[str, Spot]()
        indexes = tuple(tuple(_divided(section)) for section in _sections(fleet))
        for section, blocks in enumerate(indexes):
            for block, those in enumerate(blocks):
                for position, index in enumerate(those):
                    spots[nodes[index].account] = section, block, position
                    homes.setdefault(nodes[index].name, (section, block, position))
        return Grid(
            tuple(tuple(tuple([nodes[index].account for index in those]) for those in blocks) for blocks in indexes),
            tuple(tuple(tuple([nodes[index].name for index in those]) for those in blocks) for blocks in indexes),
            indexes,
            spots,
            homes,
            largest=max((sum(map(len, blocks)) for blocks in indexes), default=0),
        )


class _Part(NamedTuple):
    """The accounts of a block that belong to a set of nodes: their positions, also as the bits of a number."""

    section: int
    block: int
    mask: int
    positions: tuple[int, ...]


class _Ordered(NamedTuple):
    """An account with room, ordered as replicas take them: the fewest free GPUs first, then by name."""

    free: int
    account: str
    spot: Spot
    pods: int


_Answers = dict[tuple[object, ...], tuple[tuple[GpuNode, ...], Any]]


@dataclass(frozen=True, slots=True)
class _Known:
    """Answers about one state of a section: about the whole of it, and about each of its blocks."""

    answers: _Answers
    blocks: tuple[dict[tuple[object, ...], object], ...]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The resources left after all bound pods and all promises of this pass.

    ``quota`` holds what namespaces may still take of GPUs, CPU, memory and pods. Two ledgers are equal if the same is
    left on the same nodes and of the same quotas.
    """

    grid: Grid
    blocks: _Blocks
    quota: Quotas
    _parts: dict[int, tuple[tuple[GpuNode, ...], tuple[_Part, ...], int]] = field(repr=False, compare=False)
    """The parts of sets of nodes, and the section that holds all of them or -1. The nodes are kept too, here and in all
    answers, so that no others get their id."""
    _known: tuple[_Known, ...] = field(repr=False, compare=False)
    _of_all: _Answers = field(repr=False, compare=False)
    """Cached answers about nodes of several sections; quotas change no cached answer."""

    @staticmethod
    def of(fleet: Fleet, quota: Quotas | None = None, grid: Grid | None = None) -> Ledger:
        """Return the ledger before any promise: allocatable resources minus those that pods hold.

        ``grid`` is that of the fleet, if it is known from a fleet with an equal layout.
        """
        nodes, grid = fleet.nodes, fleet.once("grid", lambda: Grid.of(fleet)) if grid is None else grid
        blocks = tuple(
            tuple(_block_of([nodes[index] for index in those]) for those in section) for section in grid.indexes
        )
        return _anew(grid, blocks, quota or {})

    def read_anew(self) -> Ledger:
        """Return an equal ledger without cached answers: they are about nodes, which each pass reads anew."""
        return _anew(self.grid, self.blocks, self.quota)

    @property
    def free(self) -> Mapping[str, int]:
        """The number of free GPUs of each account."""
        return _Free(self)

    @property
    def hosts(self) -> Mapping[str, HostRoom]:
        """The other free resources of each node that reports some, by the node's name. Its accounts share them."""
        return _Hosts(self)

    def room_for(
        self,
        nodes: tuple[GpuNode, ...],
        shape: ReplicaShape,
        need: HostNeed = NO_HOST_NEED,
        *,
        enough: int | None = None,
    ) -> int:
        """Return how many replicas still fit on these nodes, at most ``enough``, each pod whole on one node.

        ``need`` is that of a pod.
        """
        most = None if enough is None else shape.pods_of(enough)
        pods = self._pods(nodes, shape.gpus_per_pod, need, most)
        return shape.replicas_of(pods if most is None else min(pods, most))

    def has_room(self, nodes: tuple[GpuNode, ...], shape: ReplicaShape, need: HostNeed = NO_HOST_NEED) -> bool:
        """Whether these nodes have room for one replica."""
        return self.room_for(nodes, shape, need, enough=1) > 0

    def largest(self, nodes: tuple[GpuNode, ...]) -> int:
        """Return the most free GPUs on any one of these nodes."""
        return self.once("largest", nodes, (), lambda: max(map(self._largest_of, self._parts_of(nodes)), default=0))

    def hosts_with(self, nodes: tuple[GpuNode, ...], gpus: int) -> list[tuple[GpuNode, HostRoom]]:
        """Return the nodes with at least ``gpus`` free GPUs, each with its other free resources."""
        free, hosts = self.free, self.hosts
        return [(node, hosts.get(node.name, UNKNOWN_HOST)) for node in nodes if free[node.account] >= gpus]

    def once(
        self, question: str, nodes: tuple[GpuNode, ...], about: tuple[object, ...], find: Callable[[], Answer]
    ) -> Answer:
        """Return the answer to a question about the free resources of these nodes. Each answer is computed once.

        An answer that ``find`` reads from other nodes too needs all of the fleet's nodes as ``nodes``.
        """
        answers, key = self._answers_about(nodes), (question, id(nodes), *about)
        known = answers.get(key)
        if known is None:
            known = answers[key] = nodes, find()
        answer: Answer = known[1]
        return answer

    def recalled(self, question: str, nodes: tuple[GpuNode, ...], about: tuple[object, ...]) -> Any:
        """Return the answer of :meth:`once`; None if it is not known yet."""
        known = self._answers_about(nodes).get((question, id(nodes), *about))
        return None if known is None else known[1]

    def take(
        self, nodes: tuple[GpuNode, ...], shape: ReplicaShape, replicas: int, need: HostNeed = NO_HOST_NEED
    ) -> Ledger:
        """Promise GPUs for ``replicas`` replicas. The node with the fewest free GPUs comes first, then by name.

        Raises:
            ValueError: these nodes have no room for that many; call :meth:`room_for` first.
        """
        if replicas <= 0:
            return self
        left, gpus = shape.pods_of(replicas), shape.gpus_per_pod
        free, hosts = dict[Spot, int](), dict[Spot, HostRoom]()
        # The node with the fewest free GPUs keeps that rank while it is filled, so one ordered pass is enough.
        for each in merge(*(self._ordered(part, gpus, need) for part in self._parts_of(nodes))):
            taken = min(left, each.pods)
            free[each.spot] = each.free - taken * gpus
            section, block, position = each.spot
            host = self.blocks[section][block].hosts[position]
            if host is not None:
                hosts[each.spot] = host.without(need, taken)
            left -= taken
            if left == 0:
                return self._changed(free, hosts)
        raise ValueError(f"over-committed: {replicas} replicas of {shape.gpus} GPUs, room for fewer")

    def with_amounts(self, free: Mapping[str, int], hosts: Mapping[str, HostRoom]) -> Ledger:
        """Return the ledger with other amounts of GPUs on these accounts, and of other resources on these nodes.

        Raises:
            KeyError: the ledger has no such account or node.
        """
        spots, homes = self.grid.spots, self.grid.homes
        return self._changed(
            {spots[account]: gpus for account, gpus in free.items()},
            {homes[name]: room for name, room in hosts.items()},
        )

    def without_quota(self) -> Ledger:
        """Return a ledger with the same GPUs and no quotas."""
        return replace(self, quota={})

    def _changed(self, free: Mapping[Spot, int], hosts: Mapping[Spot, HostRoom]) -> Ledger:
        if not free and not hosts:
            return self
        sections, known = list(self.blocks), list(self._known)
        for section in {section for section, _, _ in chain(free, hosts)}:
            blocks, answers = list(sections[section]), list(known[section].blocks)
            for block in {each for among, each, _ in chain(free, hosts) if among == section}:
                blocks[block] = self._changed_block(section, block, free, hosts)
                answers[block] = {}
            sections[section], known[section] = tuple(blocks), _Known({}, tuple(answers))
        return Ledger(self.grid, tuple(sections), self.quota, self._parts, tuple(known), {})

    def _changed_block(
        self, section: int, block: int, free: Mapping[Spot, int], hosts: Mapping[Spot, HostRoom]
    ) -> _Block:
        before, names = self.blocks[section][block], self.grid.names[section][block]
        gpus, rooms = list(before.free), list(before.hosts)
        for (among, where, position), amount in free.items():
            if (among, where) == (section, block):
                gpus[position] = amount
        for (among, where, position), room in hosts.items():
            if (among, where) == (section, block):
                rooms = [room if name == names[position] else each for name, each in zip(names, rooms, strict=True)]
        return _Block(tuple(gpus), tuple(rooms))

    def _answers_about(self, nodes: tuple[GpuNode, ...]) -> _Answers:
        """Return the answers about these nodes: those of their section, or of the ledger if they are in several."""
        section = -1 if len(nodes) > self.grid.largest else self._located(nodes)[2]
        return self._of_all if section < 0 else self._known[section].answers

    def _parts_of(self, nodes: tuple[GpuNode, ...]) -> tuple[_Part, ...]:
        return self._located(nodes)[1]

    def _located(self, nodes: tuple[GpuNode, ...]) -> tuple[tuple[GpuNode, ...], tuple[_Part, ...], int]:
        found = self._parts.get(id(nodes))
        if found is None:
            found = self._parts[id(nodes)] = _located(nodes, self.grid.spots)
        return found

    def _pods(self, nodes: tuple[GpuNode, ...], gpus: int, need: HostNeed, most: int | None) -> int:
        """Return how many pods fit. The count stops at ``most``: not all nodes are read if there is much room."""
        answers, key = self._answers_about(nodes), ("pods", id(nodes), gpus, need)
        known: tuple[int, bool] = answers[key][1] if key in answers else (0, False)
        if not known[1] and (most is None or known[0] < most):
            known = self._counted(nodes, gpus, need, most)
            answers[key] = nodes, known
        return known[0]

    def _counted(self, nodes: tuple[GpuNode, ...], gpus: int, need: HostNeed, most: int | None) -> tuple[int, bool]:
        """Return how many pods fit on the nodes that were read, and whether these are all."""
        pods = 0
        for part in self._parts_of(nodes):
            pods += self._pods_on(part, gpus, need)
            if most is not None and pods >= most:
                return pods, False
        return pods, True

    def _pods_on(self, part: _Part, gpus: int, need: HostNeed) -> int:
        known, key = self._known[part.section].blocks[part.block], (part.mask, gpus, need)
        pods = known.get(key)
        if pods is None:
            block = self.blocks[part.section][part.block]
            pods = known[key] = sum(
                _room_on(block, position, gpus, need) for position in part.positions if block.free[position] >= gpus
            )
        return pods  # type: ignore[return-value] # what this key has

    def _largest_of(self, part: _Part) -> int:
        known = self._known[part.section].blocks[part.block]
        most = known.get((part.mask,))
        if most is None:
            free = self.blocks[part.section][part.block].free
            most = known[part.mask,] = max(free[position] for position in part.positions)
        return most  # type: ignore[return-value] # what this key has

    def _ordered(self, part: _Part, gpus: int, need: HostNeed) -> list[_Ordered]:
        if not self._pods_on(part, gpus, need):
            return []
        block, accounts = self.blocks[part.section][part.block], self.grid.accounts[part.section][part.block]
        return sorted(
            _Ordered(block.free[position], accounts[position], (part.section, part.block, position), pods)
            for position in part.positions
            if block.free[position] >= gpus and (pods := _room_on(block, position, gpus, need))
        )


def _room_on(block: _Block, position: int, gpus: int, need: HostNeed) -> int:
    by_gpus, host = block.free[position] // gpus, block.hosts[position]
    return by_gpus if host is None else host.takes(need, by_gpus)


def _sections(fleet: Fleet) -> list[list[list[int]]]:
    """Return the indexes of the entries of each node, divided by the GPU types of the node."""
    by_name: dict[str, list[int]] = {}
    for index, node in enumerate(fleet.nodes):
        by_name.setdefault(node.name, []).append(index)
    found: dict[tuple[str, ...], list[list[int]]] = {}
    for entries in by_name.values():
        types = {fleet.nodes[index].gpu.name for index in entries}
        found.setdefault(tuple(sorted(types)), []).append(entries)
    return list(found.values())


def _divided(nodes: Sequence[list[int]]) -> Iterator[tuple[int, ...]]:
    block: list[int] = []
    for entries in nodes:
        block += entries
        if len(block) >= BLOCK:
            yield tuple(block)
            block = []
    if block:
        yield tuple(block)


def _block_of(nodes: Sequence[GpuNode]) -> _Block:
    free = tuple([node.free for node in nodes])
    return _Block(free, tuple([node.host_free if node.host_free.is_bounded else None for node in nodes]))


def _anew(grid: Grid, blocks: _Blocks, quota: Quotas) -> Ledger:
    known = tuple(_Known({}, tuple({} for _ in section)) for section in blocks)
    return Ledger(grid, blocks, quota, {}, known, {})


def _located(
    nodes: tuple[GpuNode, ...], spots: Mapping[str, Spot]
) -> tuple[tuple[GpuNode, ...], tuple[_Part, ...], int]:
    positions: dict[tuple[int, int], list[int]] = {}
    for node in nodes:
        section, block, position = spots[node.account]
        positions.setdefault((section, block), []).append(position)
    parts = [
        _Part(section, block, sum(1 << each for each in those), tuple(those))
        for (section, block), those in positions.items()
    ]
    sections = {part.section for part in parts}
    return nodes, tuple(parts), sections.pop() if len(sections) == 1 else -1


class _Free(Mapping[str, int]):
    """The GPUs of a ledger by account."""

    __slots__ = ("_blocks", "_grid")

    def __init__(self, ledger: Ledger) -> None:
        self._grid, self._blocks = ledger.grid, ledger.blocks

    def __getitem__(self, account: str) -> int:
        section, block, position = self._grid.spots[account]
        return self._blocks[section][block].free[position]

    def __iter__(self) -> Iterator[str]:
        return iter(self._grid.spots)

    def __len__(self) -> int:
        return len(self._grid.spots)


class _Hosts(Mapping[str, HostRoom]):
    """The other resources of a ledger by the name of a node. A node that reports none is not in it."""

    __slots__ = ("_blocks", "_grid")

    def __init__(self, ledger: Ledger) -> None:
        self._grid, self._blocks = ledger.grid, ledger.blocks

    def __getitem__(self, name: str) -> HostRoom:
        section, block, position = self._grid.homes[name]
        found = self._blocks[section][block].hosts[position]
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name, spot in self._grid.homes.items() if self._at(spot) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _at(self, spot: Spot) -> HostRoom | None:
        section, block, position = spot
        return self._blocks[section][block].hosts[position]


@dataclass(frozen=True, slots=True)
class Taken:
    """The difference between two ledgers.

    ``gpus`` are counted per account of a node. ``hosts`` are the other resources of each node, by the node's name.
    ``quota`` holds amounts by namespace and resource. Nodes and namespaces without a difference are left out.
    """

    gpus: Mapping[str, int]
    hosts: Mapping[str, HostRoom]
    quota: Quotas

    def given_back_to(self, ledger: Ledger) -> Ledger:
        """Return the ledger with these resources added. The ledger itself is not changed."""
        return self._applied(ledger, 1)

    def taken_from(self, ledger: Ledger) -> Ledger:
        """Return the ledger without these resources. The ledger itself is not changed."""
        return self._applied(ledger, -1)

    def _applied(self, ledger: Ledger, sign: int) -> Ledger:
        free, hosts = ledger.free, ledger.hosts
        after = ledger.with_amounts(
            {account: free[account] + sign * gpus for account, gpus in self.gpus.items()},
            {name: _plus(hosts[name], room, sign) for name, room in self.hosts.items()},
        )
        if not self.quota:
            return after
        changed = {
            namespace: {**ledger.quota[namespace], **_summed(ledger.quota[namespace], amounts, sign)}
            for namespace, amounts in self.quota.items()
        }
        return replace(after, quota={**ledger.quota, **changed})


def _plus(room: HostRoom, other: HostRoom, sign: int) -> HostRoom:
    cpu, memory, pods = (-sign * (each or 0) for each in (other.cpu_millis, other.memory_bytes, other.pods))
    return room.less(cpu, memory, pods, times(other.others or (), -sign))


def _summed(left: Mapping[str, int], amounts: Mapping[str, int], sign: int) -> dict[str, int]:
    return {resource: left[resource] + sign * amount for resource, amount in amounts.items()}


def taken_between(before: Ledger, left: Ledger) -> Taken | None:
    """Return what was taken from ``before`` so that ``left`` remained; None if nothing was taken.

    One of them is made from the other, or both from a third one: they have the same nodes.
    """
    if left is before:
        return None
    gpus, hosts = dict[str, int](), dict[str, HostRoom]()
    for section, block in _unlike(before, left):
        then, now = before.blocks[section][block], left.blocks[section][block]
        accounts, names = before.grid.accounts[section][block], before.grid.names[section][block]
        for position, account in enumerate(accounts):
            if then.free[position] != now.free[position]:
                gpus[account] = then.free[position] - now.free[position]
            room, rest = then.hosts[position], now.hosts[position]
            if room is not None and rest is not None and rest is not room:
                hosts[names[position]] = room.above(rest)
    return Taken(gpus, hosts, _quota_taken(before.quota, left.quota))


def _unlike(before: Ledger, left: Ledger) -> Iterator[tuple[int, int]]:
    """Yield the section and the index of each block that the ledgers do not share."""
    for section, (then, now) in enumerate(zip(before.blocks, left.blocks, strict=True)):
        if then is not now:
            yield from ((section, block) for block in range(len(then)) if then[block] is not now[block])


def _quota_taken(before: Quotas, left: Quotas) -> Quotas:
    return {
        namespace: {resource: amount - left[namespace][resource] for resource, amount in limits.items()}
        for namespace, limits in before.items()
        if left[namespace] is not limits
    }


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """The amounts that a replica takes of what a quota may limit, and the PriorityClass of its pods; empty for none."""

    amounts: Amounts = ()
    priority_class: str = ""

    def on(self, left: Mapping[str, int]) -> Amounts:
        """Return what it takes of each account of its namespace that counts its pods, in the order of the amounts."""
        if not left:
            return ()
        asked = dict(self.amounts)
        plain = tuple(each for each in self.amounts if each[0] in left)
        scoped = (each for each in left if each not in asked and is_counted(each, self.priority_class))
        return (*plain, *((each, asked[resource]) for each in scoped if (resource := resource_in(each)) in asked))


NO_USE = QuotaUse()


def use_of(request: Request, resource: str, shape: ReplicaShape, need: HostNeed) -> QuotaUse:
    """Return the amounts that a quota counts for the pods of one replica. ``need`` is that of a pod.

    A pod without a limit of its own counts with the one that a LimitRange gives it, else with its request: then the API
    server refuses the pod, whatever the quota leaves.
    """
    cpu, memory = request.counted_limits(need)
    of_pod = (
        (resource, shape.gpus_per_pod),
        (CPU_REQUESTS, need.cpu_millis),
        (MEMORY_REQUESTS, need.memory_bytes),
        (CPU_LIMITS, cpu),
        (MEMORY_LIMITS, memory),
        (PODS, 1),
        (ALL_PODS, 1),
    )
    return QuotaUse(times(of_pod, shape.pods), request.priority_class)


def use_at(request: Request, place: Option | Candidate) -> QuotaUse:
    """Return the amounts that a quota, or the deployment's own limit of spot nodes, counts for a replica at a place."""
    use = use_of(request, place.target.resource, place.split.shape, host_need(request, place))
    if not request.least_on_demand or place.gpu.capacity is not CapacityType.SPOT:
        return use
    return replace(use, amounts=(*use.amounts, (spot_account(request.key.name), 1)))


def quota_room(request: Request, place: Option | Candidate, ledger: Ledger) -> int | None:
    """Return the number of replicas that the namespace's quotas admit at a place. None: they do not limit it."""
    left = ledger.quota.get(request.key.namespace)
    return room_in(left, use_at(request, place)) if left else None


def room_in(left: Mapping[str, int], use: QuotaUse) -> int | None:
    """Return how often this use fits into what is left. None: nothing that it takes is limited."""
    found = min((left[name] // amount for name, amount in use.on(left) if amount > 0), default=None)
    return None if found is None else max(0, found)


def short_in(left: Mapping[str, int], use: QuotaUse) -> Amounts:
    """Return the accounts of which less is left than one replica takes, each with the amount that it takes."""
    return tuple((name, amount) for name, amount in use.on(left) if left[name] < amount)


def charged(ledger: Ledger, namespace: str, use: QuotaUse, replicas: int) -> Ledger:
    """Return the ledger after so many replicas took their part of the namespace's quotas. Below 0 they give it back."""
    left = ledger.quota.get(namespace, {})
    after = {name: left[name] - amount * replicas for name, amount in use.on(left) if amount * replicas}
    return replace(ledger, quota={**ledger.quota, namespace: {**left, **after}}) if after else ledger
