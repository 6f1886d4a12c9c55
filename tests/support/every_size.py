"""The best plan of all ways to size, divide and place deployments, for tiny fleets of nodes with enough CPU and memory.

It shares no code with the solvers: it tries every size, and every node for every replica.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Option
from plimsoll.placement.demands.demand import demand_of
from plimsoll.placement.demands.pools import Decision, PoolState, Tenant
from plimsoll.placement.memo import Memo

Free = tuple[int, ...]
"""The free GPUs of each node of the fleet."""

Goals = tuple[tuple[Fraction, ...], Fraction, Fraction]
"""The part of the load without a place by deployment, the oldest first; doubts; US dollars an hour with all charges.

Doubts are counted in replicas, and those of a deployment with several sizes in replicas of its first size.
"""

Cost = tuple[Fraction, Fraction, Fraction]
"""The same for one deployment."""

MIXING = Fraction(1, 10)
"""The charge for a mix: this part of what all replicas would cost with the cheapest option that has room. A
deployment that misses some of its replicas pays it as well."""


def best_goals(asking: Sequence[Tenant], fleet: Fleet) -> Goals:
    """Return what the best plan reaches. The deployments are new, and given in the order of decisions."""
    found: dict[Free, Goals] = {tuple(node.free for node in fleet.nodes): ((), Fraction(0), Fraction(0))}
    for tenant in asking:
        sizes = sizes_with_options(tenant, fleet)
        after: dict[Free, Goals] = {}
        for free, (missing, doubts, bill) in found.items():
            for left, cost in _ways(free, sizes, fleet):
                goals = (*missing, cost[0]), doubts + cost[1], bill + cost[2]
                if left not in after or goals < after[left]:
                    after[left] = goals
        found = after
    return min(found.values())


def goals_of(decisions: Sequence[Decision], asking: Sequence[Tenant], fleet: Fleet) -> Goals:
    """Return what a plan reaches for the same deployments, in the same order."""
    costs = [_cost_of(decision, tenant, fleet) for decision, tenant in zip(decisions, asking, strict=True)]
    missing, doubts, bills = zip(*costs, strict=True)
    return missing, sum(doubts, Fraction(0)), sum(bills, Fraction(0))


def sizes_with_options(tenant: Tenant, fleet: Fleet) -> tuple[tuple[int, tuple[Option, ...]], ...]:
    """Return the replicas of every size, with the options that have room for one of them on the empty fleet."""
    demand = demand_of(tenant, fleet, Memo())
    return tuple((each.request.replicas, _with_room(each.options.verdicts, fleet)) for each in demand.ways)


def _with_room(verdicts: Sequence[object], fleet: Fleet) -> tuple[Option, ...]:
    options = (each for each in verdicts if isinstance(each, Option))
    return tuple(
        each
        for each in options
        if any(node.gpu.name == each.gpu.name and node.free >= each.split.gpus for node in fleet.nodes)
    )


def _cost_of(decision: Decision, tenant: Tenant, fleet: Fleet) -> Cost:
    sizes = sizes_with_options(tenant, fleet)
    options = next(options for replicas, options in sizes if replicas == decision.request.replicas)
    active = [each for each in decision.pools if each.state is PoolState.ACTIVE]
    placed = [(each.choice, each.replicas) for each in active if each.choice is not None]
    return _cost(decision.request.replicas, sizes[0][0], options, placed)


def _cost(
    replicas: int, first: int, options: Sequence[Option], placed: Sequence[tuple[Option, int]]
) -> tuple[Fraction, Fraction, Fraction]:
    missing = Fraction(replicas - sum(count for _, count in placed), replicas)
    doubts = Fraction(sum(count * option.doubts for option, count in placed) * first, replicas)
    bill = sum((count * _price(option) for option, count in placed), Fraction(0))
    if len({option.target.place for option, _ in placed}) > 1 or 0 < missing < 1:
        bill += MIXING * replicas * min(map(_price, options))
    return missing, doubts, bill


def _price(option: Option) -> Fraction:
    assert option.cost is not None
    return Fraction(option.cost)


def _ways(free: Free, sizes: tuple[tuple[int, tuple[Option, ...]], ...], fleet: Fleet) -> Iterator[tuple[Free, Cost]]:
    """Yield what every way to place one deployment costs, and the GPUs that it leaves."""
    for replicas, options in sizes:
        for left, counts in _divided(free, options, replicas, fleet):
            placed = [(option, count) for option, count in zip(options, counts, strict=True) if count]
            yield left, _cost(replicas, sizes[0][0], options, placed)


def _divided(
    free: Free, options: tuple[Option, ...], replicas: int, fleet: Fleet
) -> Iterator[tuple[Free, tuple[int, ...]]]:
    """Yield every way to divide up to ``replicas`` replicas over the options, with the GPUs that are left."""
    seen: set[tuple[Free, tuple[int, ...]]] = {(free, (0,) * len(options))}
    newest = set(seen)
    for _ in range(replicas):
        newest = {each for left, counts in newest for each in _one_more(left, counts, options, fleet)}
        seen |= newest
    yield from seen


def _one_more(
    free: Free, counts: tuple[int, ...], options: tuple[Option, ...], fleet: Fleet
) -> Iterator[tuple[Free, tuple[int, ...]]]:
    for number, option in enumerate(options):
        for index in _nodes(option.gpu.name, fleet):
            if free[index] >= option.split.gpus:
                left = (*free[:index], free[index] - option.split.gpus, *free[index + 1 :])
                yield left, (*counts[:number], counts[number] + 1, *counts[number + 1 :])


@cache
def _nodes(gpu_type: str, fleet: Fleet) -> tuple[int, ...]:
    return tuple(index for index, node in enumerate(fleet.nodes) if node.gpu.name == gpu_type)
