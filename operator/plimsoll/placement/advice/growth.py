"""Nodes that would take replicas without a place: node groups that can grow, with the price of their new nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.decisions.outcomes import Option, Remedy
from plimsoll.domain.public_words import RemedyKind
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import ceil_div, exact_price
from plimsoll.placement.ledger import Ledger, room_in, use_at
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.nodes import host_need
from plimsoll.placement.options.verdicts import NO_PRICE
from plimsoll.placement.places.place import first_that_fits

MOST_NAMED = 3
"""The most suggestions for one deployment: the cheapest are enough to choose from. A group that may start several kinds
of machines is named with the best one of each capacity type."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Nodes of a group, and how many of the waiting replicas they take."""

    group: NodeGroup
    nodes: int
    replicas: int
    option: Option

    @property
    def price(self) -> Decimal | None:
        """US dollars an hour for all nodes; None if the price is not known."""
        one = self.group.usd_per_hour
        return None if one is None else one * self.nodes

    @property
    def order(self) -> tuple[int, int, Decimal, str, int]:
        """All replicas before some of them, options without doubts first, then the price of the nodes."""
        price = NO_PRICE if self.price is None else self.price
        return -self.replicas, self.option.doubts, price, self.group.name, self.nodes


@dataclass(frozen=True, slots=True)
class Growable:
    """A node group and the number of nodes that it may still get; None without a limit."""

    group: NodeGroup
    left: int | None


def growable(groups: Sequence[NodeGroup], fleet: Fleet) -> tuple[Growable, ...]:
    """Return the groups that may still grow."""
    found = (Growable(group, group.nodes_left(fleet)) for group in groups)
    return tuple(each for each in found if each.left != 0)


def growth(
    request: Request, missing: int, groups: Sequence[Growable], ledger: Ledger, memo: Memo
) -> tuple[Remedy, ...]:
    """Return what to add so that ``missing`` replicas get a place: the cheapest first.

    If the namespace's quotas admit no replica, new nodes do not help.
    """
    left = ledger.quota.get(request.key.namespace, {})
    basis = (missing, groups, left)
    return memo.recall(request, ("grow", request.stated_host), basis, lambda: _growth(request, missing, groups, left))


def _growth(request: Request, missing: int, groups: Sequence[Growable], left: Mapping[str, int]) -> tuple[Remedy, ...]:
    found = (grown(request, missing, each, left) for each in groups)
    best: dict[tuple[str, CapacityType], Growth] = {}
    for each in sorted((each for each in found if each is not None), key=lambda each: each.order):
        best.setdefault((each.group.name, each.group.gpu.capacity), each)
    return tuple(_remedy(each, missing, request) for each in [*best.values()][:MOST_NAMED])


def grown(request: Request, missing: int, growing: Growable, left: Mapping[str, int]) -> Growth | None:
    """Return how many nodes of a group would take how many of the waiting replicas; None if they take none.

    ``left`` is what the namespace's quotas leave.
    """
    group, added = growing.group, Fleet((growing.group.node(),))
    ledger = Ledger.of(added)
    option = first_that_fits(request.for_new_nodes().with_replicas(1), added, ledger)
    if option is None:
        return None
    on_one = ledger.room_for(added.nodes, option.split.shape, host_need(request, option))
    admitted = room_in(left, use_at(request, option))
    wanted = missing if admitted is None else min(missing, admitted)
    nodes = ceil_div(wanted, on_one)
    nodes = nodes if growing.left is None else min(nodes, growing.left)
    return Growth(group, nodes, min(wanted, nodes * on_one), option) if nodes > 0 else None


def _remedy(found: Growth, missing: int, request: Request) -> Remedy:
    group = found.group
    numbers: list[tuple[str, int | str]] = [
        ("group", group.name),
        ("nodes", found.nodes),
        ("gpu_type", group.gpu.name),
        ("gpus", group.gpus),
        ("price", exact_price(found.price)),
        ("replicas", found.replicas),
        ("missing", missing),
    ]
    needs = request.new_node_needs(host_need(request, found.option))
    return Remedy(RemedyKind.ADD_NODES, (*numbers, *needs))
