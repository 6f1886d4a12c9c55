"""Replicas that run on a node, as far as a proposal needs to know them, and those of one node together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import prod
from typing import Any

from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.cluster.host import NO_HOST_NEED, UNKNOWN_HOST, HostNeed
from plimsoll.domain.decisions.outcomes import ReplicaShape, Target
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.placement.costs import move_charge
from plimsoll.placement.ledger import Ledger

MOST_WAYS = 4_096
"""The most sets of replicas that are tried on one node. A node with eight GPUs and pods of one size has nine."""


@dataclass(frozen=True, slots=True)
class Running:
    """A replica on a node.

    ``price`` is in US dollars an hour. ``startup_seconds`` is how long its engine took to serve; None if that is
    not known. ``pod`` is the uid of its pod. Pods of others are no replicas: nobody here may move them.
    """

    owner: ObjectKey
    target: Target
    node: str
    priority: int
    price: Decimal
    need: HostNeed = NO_HOST_NEED
    startup_seconds: float | None = None
    pod: str = ""

    @property
    def gpus(self) -> int:
        """Its number of GPUs on the node."""
        return self.target.split.shape.gpus_per_pod

    @property
    def charge(self) -> Decimal:
        """The cost of one move."""
        return move_charge(self.price, self.startup_seconds)


Group = tuple[Running, ...]
"""Replicas of one node."""


def ways(
    replicas: Iterable[Running], alike: Callable[[Running], Hashable], cost: Callable[[Running], tuple[Any, ...]]
) -> Iterator[Group]:
    """Yield the sets of these replicas that can be best; none if there are too many sets.

    Of replicas that are alike, the cheapest ones are taken: any other set with as many of them costs no less.
    """
    groups: dict[Hashable, list[Running]] = {}
    for each in sorted(replicas, key=lambda each: (*cost(each), each.owner)):
        groups.setdefault(alike(each), []).append(each)
    if prod(len(group) + 1 for group in groups.values()) > MOST_WAYS:
        return
    for counts in itertools.product(*(range(len(group) + 1) for group in groups.values())):
        yield tuple(each for group, count in zip(groups.values(), counts, strict=True) for each in group[:count])


def pods_of(group: Group, owner: ObjectKey | None = None, target: Target | None = None) -> tuple[str, ...]:
    """Return the uids of the pods of some replicas, as far as they are known; if given, of one owner and target."""
    ours = (each for each in group if owner is None or (each.owner, each.target) == (owner, target))
    return tuple(sorted(each.pod for each in ours if each.pod))


def room_on(node: GpuNode, ledger: Ledger, shape: ReplicaShape, need: HostNeed, leaving: Iterable[Running]) -> int:
    """Return how many replicas of this shape have room on a node once some have left it."""
    gone = tuple(leaving)
    free = ledger.free[node.account] + sum(each.gpus for each in gone)
    host = ledger.hosts.get(node.name, UNKNOWN_HOST)
    for each in gone:
        host = host.without(each.need, -1)
    return shape.replicas_of(host.takes(need, free // shape.gpus_per_pod))
