"""Preemption: the cheapest replicas of lower priority whose going makes room for a deployment that waits.

A replica is whole on one node, so the sets of each node are looked at alone, all of them, and the cheapest combination
of nodes follows by dynamic programming: the answer is exact. If owners must keep some of their replicas, what would
break this is left out, and the answer need not be the cheapest one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.decisions.outcomes import Option, Split, Target
from plimsoll.domain.decisions.proposals import Change, Proposal, ProposalReason, Share
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import exact_price
from plimsoll.placement.ledger import Ledger, quota_room
from plimsoll.placement.options.nodes import eligible_nodes, host_need
from plimsoll.placement.options.verdicts import NO_PRICE
from plimsoll.placement.proposing.running import Group, Running, pods_of, room_on, ways

Cost = tuple[Decimal, int, int]
"""US dollars an hour of the replicas that go, their number, and the sum of their priorities."""

NOTHING: Cost = (Decimal(0), 0, 0)


Spare = Mapping[ObjectKey, int]
"""How many replicas of each deployment may end. Those that are not named keep all of theirs."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A deployment that misses replicas: what it runs now, its options and its priority."""

    request: Request
    missing: int
    options: tuple[Option, ...]
    priority: int
    before: tuple[Share, ...] = ()


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to make room for some replicas on some nodes."""

    cost: Cost = NOTHING
    going: tuple[tuple[GpuNode, Group], ...] = ()


def preemption(
    waiting: Waiting, running: Iterable[Running], fleet: Fleet, ledger: Ledger, spare: Spare | None = None
) -> Proposal | None:
    """Return what to end for a deployment that waits, or None. Nobody of its own priority or a higher one is touched.

    As many of the missing replicas as possible get a place. Options with fewer doubts come first, then the cheapest
    set of replicas that go, then the option of the least cost. ``spare`` is how many replicas each owner can do
    without; None: all of them.
    """
    victims = _victims(waiting, running, spare)
    found: list[tuple[tuple[int, int, Cost, Decimal], Option, _Way]] = []
    for option in waiting.options:
        replicas, way = _best(waiting, option, victims, fleet, ledger, spare)
        if way.going:
            key = -replicas, option.doubts, way.cost, NO_PRICE if option.cost is None else option.cost
            found.append((key, option, way))
    if not found:
        return None
    (fewer, *_), option, way = min(found, key=lambda each: (each[0], each[1].target.place))
    return _proposal(waiting, option, -fewer, way)


def _victims(waiting: Waiting, running: Iterable[Running], spare: Spare | None) -> dict[str, list[Running]]:
    """Return the replicas that may end, by node. Of one owner no more are on a node than it can do without."""
    victims: dict[str, list[Running]] = {}
    seen: Counter[tuple[str, ObjectKey]] = Counter()
    for each in sorted(running, key=lambda each: (each.price, each.priority)):
        if each.priority >= waiting.priority or each.owner == waiting.request.key:
            continue
        seen[each.node, each.owner] += 1
        if spare is None or seen[each.node, each.owner] <= spare.get(each.owner, 0):
            victims.setdefault(each.node, []).append(each)
    return victims


def _best(
    waiting: Waiting,
    option: Option,
    victims: Mapping[str, Sequence[Running]],
    fleet: Fleet,
    ledger: Ledger,
    spare: Spare | None,
) -> tuple[int, _Way]:
    """Return for how many replicas there is room, and the cheapest way to make it."""
    most = waiting.missing
    admitted = quota_room(waiting.request, option, ledger)
    if admitted is not None:
        most = min(most, admitted)
    best: dict[int, _Way] = {0: _Way()}
    seen: Counter[object] = Counter()
    for node in eligible_nodes(waiting.request, fleet, option.gpu.name):
        state = _state(node, victims.get(node.name, ()), ledger, spare)
        seen[state] += 1
        if seen[state] > most:  # no more nodes than replicas are used, and this one is like others before it
            continue
        alone = _on_node(waiting, option, node, victims.get(node.name, ()), ledger, most)
        if alone:
            best = _joined(best, alone, most, spare)
    replicas = max(best)
    return replicas, best[replicas]


def _state(node: GpuNode, victims: Iterable[Running], ledger: Ledger, spare: Spare | None) -> object:
    """Return what the ways on a node depend on. Owners count only if they must keep some of their replicas."""
    there = sorted(
        (
            each.target.gpu_type,
            each.gpus,
            each.price,
            each.priority,
            each.need,
            None if spare is None else each.owner,
        )
        for each in victims
    )
    return ledger.free[node.account], ledger.hosts.get(node.name), tuple(there)


def _on_node(
    waiting: Waiting, option: Option, node: GpuNode, victims: Sequence[Running], ledger: Ledger, most: int
) -> dict[int, _Way]:
    """Return the cheapest way for each number of replicas on one node."""
    there = [each for each in victims if each.target.gpu_type == option.gpu.name]
    found: dict[int, _Way] = {}
    for group in ways(there, lambda each: (each.gpus, each.need), lambda each: (each.price, each.priority)):
        replicas = min(most, room_on(node, ledger, option.split.shape, host_need(waiting.request, option), group))
        cost = sum((each.price for each in group), Decimal(0)), len(group), sum(each.priority for each in group)
        if replicas and (replicas not in found or cost < found[replicas].cost):
            found[replicas] = _Way(cost, ((node, group),) if group else ())
    return found


def _joined(best: Mapping[int, _Way], alone: Mapping[int, _Way], most: int, spare: Spare | None) -> dict[int, _Way]:
    joined = dict(best)
    for have, way in best.items():
        for more, other in alone.items():
            total = min(most, have + more)
            cost = way.cost[0] + other.cost[0], way.cost[1] + other.cost[1], way.cost[2] + other.cost[2]
            going = way.going + other.going
            if (total not in joined or cost < joined[total].cost) and _are_spare(going, spare):
                joined[total] = _Way(cost, going)
    return joined


def _are_spare(going: Iterable[tuple[GpuNode, Group]], spare: Spare | None) -> bool:
    if spare is None:
        return True
    owners = Counter(each.owner for _, group in going for each in group)
    return all(count <= spare.get(owner, 0) for owner, count in owners.items())


def _proposal(waiting: Waiting, option: Option, replicas: int, way: _Way) -> Proposal:
    changes = tuple(
        Change(owner, Share(target, count), node.name, pods=pods_of(group, owner, target))
        for node, group in way.going
        for (owner, target), count in sorted(Counter((each.owner, each.target) for each in group).items(), key=_name)
    )
    cost, number, _ = way.cost
    numbers: Numbers = (
        ("replicas", replicas),
        ("ended", number),
        ("saved", str(cost)),
        ("added", exact_price((option.hourly_price or Decimal(0)) * replicas)),
    )
    after = (*waiting.before, Share(option.target, replicas))
    return Proposal(waiting.before, after, ProposalReason.PREEMPT_LOWER_PRIORITY, numbers, changes)


def _name(entry: tuple[tuple[ObjectKey, Target], int]) -> tuple[ObjectKey, tuple[str, Split]]:
    """Return what sorts the replicas that go: an owner may have several splits on one node."""
    (owner, target), _ = entry
    return owner, target.place
