"""Defragmentation: the fewest moved GPUs that make room on one node for a replica that needs several of them.

Every moved replica starts on GPUs that are free now, on another node of its type, before the old one ends. So the moves
of each node can be looked at alone, and all of them are: the answer is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.host import UNKNOWN_HOST, HostRoom
from plimsoll.domain.decisions.outcomes import Option
from plimsoll.domain.decisions.proposals import Change, Proposal, ProposalReason, Share
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import exact_price
from plimsoll.placement.ledger import Ledger, quota_room
from plimsoll.placement.options.nodes import eligible_nodes, host_need
from plimsoll.placement.proposing.preemption import Waiting
from plimsoll.placement.proposing.running import Group, Running, pods_of, room_on, ways

MOST_STEPS = 20_000
"""The most targets that are tried for one option. Sets for which the free slots do not suffice cost none."""

Moves = tuple[tuple[Running, GpuNode], ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """Moves that make room on a node for an option. ``cost`` is in GPUs, then in US dollars."""

    cost: tuple[int, Decimal]
    option: Option
    moves: Moves

    @property
    def order(self) -> tuple[int, tuple[int, Decimal], Decimal]:
        """The sort key: fewer doubts, fewer moved GPUs, less charge, the option of less cost."""
        return self.option.doubts, self.cost, self.option.cost or Decimal(0)


def defragmentation(
    waiting: Waiting, running: Iterable[Running], owners: Mapping[ObjectKey, Request], fleet: Fleet, ledger: Ledger
) -> Proposal | None:
    """Return the moves that make room for one replica of a deployment that waits, or None.

    ``owners`` are the requests of those who run: their rules say which nodes their pods may be on.
    """
    there: dict[str, list[Running]] = {}
    for each in running:
        if each.owner in owners:
            there.setdefault(each.node, []).append(each)
    found: _Found | None = None
    for option in waiting.options:
        if option.split.shape.gpus_per_pod > 1 and _within_quota(waiting, option, ledger):
            search = _Search(waiting, option, there, owners, fleet, ledger)
            for moves in search.found(found):
                if found is None or moves.order < found.order:
                    found = moves
    return None if found is None else _proposal(waiting, found)


def _within_quota(waiting: Waiting, option: Option, ledger: Ledger) -> bool:
    admitted = quota_room(waiting.request, option, ledger)
    return admitted is None or admitted > 0


@dataclass(slots=True)
class _Search:
    waiting: Waiting
    option: Option
    there: Mapping[str, Sequence[Running]]
    owners: Mapping[ObjectKey, Request]
    fleet: Fleet
    ledger: Ledger
    steps: int = MOST_STEPS
    _free: Mapping[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        free = [self.ledger.free[node.account] for node in self.fleet.of_type(self.option.gpu.name)]
        sizes = {each.gpus for there in self.there.values() for each in there} | {1}
        self._free = {size: sum(each // size for each in free) for size in sizes}

    def found(self, best: _Found | None) -> Iterator[_Found]:
        """Yield moves, each better than those before; nodes that lack the fewest GPUs come first."""
        nodes = eligible_nodes(self.waiting.request, self.fleet, self.option.gpu.name)
        seen: set[object] = set()
        for node in sorted(nodes, key=lambda node: (self._lacking(node), node.account)):
            if best is not None and best.option.doubts == self.option.doubts and best.cost[0] < self._lacking(node):
                return
            state = self._state(node)
            if state in seen:
                continue  # like a node before it, so that its moves cannot cost less
            seen.add(state)
            each = self._on(node, best)
            if each is not None:
                best = each
                yield each

    def _state(self, node: GpuNode) -> object:
        """Return everything that the moves of a node depend on. Replicas with rules of their own make it unique."""
        there = self.there.get(node.name, ())
        owners = [self.owners[each.owner] for each in there]
        rules = {owner.sites for owner in owners}
        if len(rules) > 1 or any(owner.node_selector or owner.node_rules for owner in owners):
            return node.name
        replicas = sorted((each.target.gpu_type, each.charge, each.gpus, each.need) for each in there)
        return (
            self.ledger.free[node.account],
            self.ledger.hosts.get(node.name),
            node.taints,
            tuple(replicas),
            frozenset(rules),
        )

    def _lacking(self, node: GpuNode) -> int:
        return self.option.split.shape.gpus_per_pod - self.ledger.free[node.account]

    def _on(self, node: GpuNode, best: _Found | None) -> _Found | None:
        """Return the cheapest moves that make room on one node, if they are better than the best so far."""
        movable = [each for each in self.there.get(node.name, ()) if each.target.gpu_type == self.option.gpu.name]
        if self._lacking(node) > self._slots(1, node):
            return None
        sets = [
            group
            for group in ways(movable, self._alike, lambda each: (each.charge,))
            if group and self._makes_room(node, group) and self._have_slots(group, node)
        ]
        for group in sorted(sets, key=lambda group: (_cost(group), [each.owner for each in group])):
            candidate = _Found(_cost(group), self.option, ())
            if best is not None and candidate.order >= best.order:
                return None
            moves = self._targets(group, node)
            if moves is not None:
                return replace(candidate, moves=moves)
        return None

    def _slots(self, size: int, source: GpuNode) -> int:
        return self._free[size] - self.ledger.free[source.account] // size

    def _have_slots(self, group: Group, source: GpuNode) -> bool:
        """Whether the other nodes have slots for the replicas of each size and the larger ones. If not, none fit."""
        sizes = {each.gpus for each in group}
        return all(
            sum(each.gpus // size for each in group if each.gpus >= size) <= self._slots(size, source) for size in sizes
        )

    def _alike(self, each: Running) -> tuple[object, ...]:
        """Return what decides where a replica may go: its size, its need and its owner's rules."""
        owner = self.owners[each.owner]
        return each.gpus, each.need, owner.sites

    def _makes_room(self, node: GpuNode, group: Group) -> bool:
        need = host_need(self.waiting.request, self.option)
        return room_on(node, self.ledger, self.option.split.shape, need, group) > 0

    def _targets(self, group: Group, source: GpuNode) -> Moves | None:
        """Return a free place on another node for every replica of a set; None if not all have one."""
        ordered = sorted(group, key=lambda each: (-each.gpus, -each.need.memory_bytes, each.owner))
        return self._packed(ordered, source, {}, {})

    def _packed(
        self, left: Sequence[Running], source: GpuNode, gpus: dict[str, int], hosts: dict[str, HostRoom]
    ) -> Moves | None:
        if not left:
            return ()
        first, *rest = left
        same_rules = len({self._alike(each)[2:] for each in left}) == 1
        tried: set[tuple[object, ...]] = set()
        for node in eligible_nodes(self.owners[first.owner], self.fleet, first.target.gpu_type):
            free = gpus.get(node.account, self.ledger.free[node.account])
            room = hosts.get(node.name, self.ledger.hosts.get(node.name, UNKNOWN_HOST))
            alike = (free, room, "" if same_rules else node.name)
            if node.name == source.name or free < first.gpus or alike in tried or not room.takes(first.need, 1):
                continue
            tried.add(alike)
            self.steps -= 1
            if self.steps < 0:
                return None
            used = room.without(first.need, 1)
            behind = self._packed(rest, source, {**gpus, node.account: free - first.gpus}, {**hosts, node.name: used})
            if behind is not None:
                return ((first, node), *behind)
        return None


def _cost(group: Group) -> tuple[int, Decimal]:
    return sum(each.gpus for each in group), sum((each.charge for each in group), Decimal(0))


def _proposal(waiting: Waiting, found: _Found) -> Proposal:
    option, (gpus, charge) = found.option, found.cost
    numbers: Numbers = (
        ("replicas", 1),
        ("moved", len(found.moves)),
        ("gpus", gpus),
        ("charge", str(charge)),
        ("added", exact_price(option.hourly_price or Decimal(0))),
    )
    changes = tuple(
        Change(each.owner, Share(each.target, 1), each.node, node.name, pods_of((each,))) for each, node in found.moves
    )
    after = (*waiting.before, Share(option.target, 1))
    return Proposal(waiting.before, after, ProposalReason.DEFRAGMENT_NODE, numbers, changes)
