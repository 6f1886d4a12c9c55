"""Awards from the places that a policy chose, replica by replica."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.placement.policies.shelf import Shelf, ledgers
from plimsoll.domain.decisions.outcomes import Option, Placed
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.solvers.protocol import Award, Stock


@dataclass(slots=True)
class Given:
    """The share of one demand: its options with their replicas, and the nodes with their GPUs."""

    replicas: Counter[Option] = field(default_factory=Counter)
    taken: list[tuple[int, int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of replicas."""
        return sum(self.replicas.values())

    def add(self, option: Option, number: int, shelf: Shelf) -> None:
        """Put one replica on a node."""
        shelf.take(number, option.split.gpus)
        self.replicas[option] += 1
        self.taken.append((number, option.split.gpus))


def awards(demands: Sequence[Demand], given: Sequence[Given], stock: Stock) -> Iterator[Award]:
    """Yield the awards in the order of the demands."""
    left = ledgers(stock, [each.taken for each in given])
    for demand, each, ledger in zip(demands, given, left, strict=True):
        granted = tuple(Placed(option, count) for option, count in each.replicas.items())
        short = each.count < demand.missing
        yield Award(demand, ledger, granted=granted, searched=demand.asks, refused_at=ledger if short else None)
