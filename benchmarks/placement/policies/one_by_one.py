"""Policies that place one replica after the other, and never look back.

On each GPU type a replica takes the fewest GPUs that hold it, as a user would have declared it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from benchmarks.placement.bound.instance import by_table, choice_of, options_of
from benchmarks.placement.policies.awarding import Given, awards
from benchmarks.placement.policies.shelf import Shelf
from plimsoll.domain.decisions.outcomes import Option
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.options.verdicts import rank
from plimsoll.placement.solvers.protocol import Award, Stock

Spot = tuple[Option, int, int]
"""An option, the free GPUs of a node with room for it, and the node's number."""

Taste = Callable[[Spot], tuple[object, ...]]
"""The smaller, the better."""


def first_fit(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Take the first node that holds a replica, as a scheduler that knows no prices."""
    return _place(demands, stock, demands, lambda spot: (spot[2],))


def best_fit(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Take the node on which the fewest GPUs stay free; among equal ones the cheapest option."""
    return _place(demands, stock, demands, lambda spot: (spot[1] - spot[0].split.gpus, *rank(spot[0]), spot[2]))


def first_fit_decreasing(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Deal with the dearest replicas first. Each takes its cheapest option with room, on the first node."""
    cheapest = by_table(lambda demand: min((rank(each) for each in options_of(demand)), default=()))
    order = sorted(demands, key=cheapest, reverse=True)
    return _place(demands, stock, order, lambda spot: (*rank(spot[0]), spot[2]))


def gpustack(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Take one GPU where one is enough, then several of one node; spread over the emptiest nodes, without prices.

    This is the order of GPUStack's resource-fit selectors with its default strategy ``spread``.
    """
    return _place(demands, stock, demands, lambda spot: (spot[0].split.gpus, -spot[1], spot[2]))


def least_fragments(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Take the spot that makes the fewest free GPUs useless for the usual replicas, then the cheapest option.

    A node's free GPUs are fragments for every replica that is too large for them, as in FGD (USENIX ATC 2023).
    """
    popular = _popularity(demands)

    def grows(spot: Spot) -> tuple[object, ...]:
        option, free, number = spot
        return (_fragments(free - option.split.gpus, popular) - _fragments(free, popular), *rank(option), number)

    return _place(demands, stock, demands, grows)


def _smallest(demand: Demand) -> list[Option]:
    """Return one option for each GPU type: the fewest doubts, and then the fewest GPUs."""
    best: dict[str, Option] = {}
    for option in sorted(options_of(demand), key=lambda each: (choice_of(each).doubts, rank(each))):
        best.setdefault(option.gpu.name, option)
    return list(best.values())


def _popularity(demands: Iterable[Demand]) -> Mapping[int, float]:
    """Return the part of the replicas whose smallest option has so many GPUs."""
    sizes: Counter[int] = Counter()
    least = by_table(lambda demand: min((option.split.gpus for option in options_of(demand)), default=0))
    for demand in demands:
        sizes[least(demand)] += demand.request.replicas
    return {size: count / sizes.total() for size, count in sizes.items()}


def _fragments(free: int, popular: Mapping[int, float]) -> float:
    return round(free * sum(share for size, share in popular.items() if size > free), 9)


def _place(demands: Sequence[Demand], stock: Stock, order: Iterable[Demand], taste: Taste) -> Iterator[Award]:
    shelf, given, smallest = Shelf(stock), {id(demand): Given() for demand in demands}, by_table(_smallest)
    for demand in order:
        fitting = smallest(demand)
        for _ in range(max(0, demand.missing)):
            spots = ((option, *room) for option in fitting for room in shelf.rooms(option.gpu.name, option.split.gpus))
            best = min(spots, key=taste, default=None)
            if best is None:
                break
            given[id(demand)].add(best[0], best[2], shelf)
    return awards(demands, [given[id(demand)] for demand in demands], stock)
