"""A pass as counts: kinds of replicas with their choices, and nodes of each GPU type by their free GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from plimsoll.domain.decisions.outcomes import Option
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.options.verdicts import Options
from plimsoll.placement.solvers.protocol import Stock


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """A GPU type and a number of GPUs for one replica: how bad it is, and what it costs.

    ``doubts`` are those that placement counts, whatever the choice costs. ``dollars`` are US dollars an hour, with the
    worth of the time that users wait.
    """

    doubts: int
    dollars: float
    gpus: int
    gpu_type: str

    @property
    def place(self) -> tuple[str, int]:
        """The GPU type and the number of GPUs."""
        return self.gpu_type, self.gpus


Answer = TypeVar("Answer")

Choices = tuple[Choice, ...]
Supply = Mapping[str, Mapping[int, int]]
"""For each GPU type, the number of nodes by their free GPUs."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Replicas by their choices, and the nodes.

    Everybody may use every node: worlds of this benchmark have no taints, selectors, quotas or scarce CPUs.
    """

    replicas: Mapping[Choices, int]
    supply: Supply

    def with_replicas(self, replicas: Mapping[Choices, int]) -> Instance:
        """Return the same nodes with other replicas."""
        return replace(self, replicas=replicas)


def instance_of(demands: Iterable[Demand], stock: Stock) -> Instance:
    """Return the counts of these demands on this stock."""
    return Instance(replicas_of((demand, demand.missing) for demand in demands), supply_of(stock))


def replicas_of(wanted: Iterable[tuple[Demand, int]]) -> dict[Choices, int]:
    """Return the replicas of each kind. Demands with the same choices are one kind."""
    table = by_table(choices_of)
    counts: Counter[Choices] = Counter()
    for demand, replicas in wanted:
        if replicas > 0:
            counts[table(demand)] += replicas
    return dict(counts)


def by_table(find: Callable[[Demand], Answer]) -> Callable[[Demand], Answer]:
    """Return a function that finds each answer once for a table of options. Equal requests share their table."""
    known: dict[int, tuple[Options, Answer]] = {}

    def ask(demand: Demand) -> Answer:
        table = demand.options
        if id(table) not in known:
            known[id(table)] = table, find(demand)  # the table is kept, so that no other one gets its id
        return known[id(table)][1]

    return ask


def choices_of(demand: Demand) -> Choices:
    """Return the best choice for every GPU type and number of GPUs."""
    best: dict[tuple[str, int], Choice] = {}
    for choice in sorted(map(choice_of, options_of(demand))):
        best.setdefault(choice.place, choice)
    return tuple(best.values())


def options_of(demand: Demand) -> Iterator[Option]:
    """Yield the options that fit."""
    return (verdict for verdict in demand.options.verdicts if isinstance(verdict, Option))


def choice_of(option: Option) -> Choice:
    """Return an option's place and price.

    Raises:
        ValueError: its GPU type has no price.
    """
    if option.cost is None:
        raise ValueError(f"{option.gpu.name} has no price: every type of a benchmark's fleet needs one")
    return Choice(
        doubts=option.doubts,
        dollars=float(option.cost),
        gpus=option.split.gpus,
        gpu_type=option.gpu.name,
    )


def supply_of(stock: Stock) -> dict[str, dict[int, int]]:
    """Return the number of nodes by GPU type and free GPUs; full nodes are left out."""
    free: dict[str, Counter[int]] = {}
    for node in stock.fleet.nodes:
        if stock.ledger.free[node.account]:
            free.setdefault(node.gpu.name, Counter())[stock.ledger.free[node.account]] += 1
    return {name: dict(counts) for name, counts in free.items()}


def sizes_of(kinds: Iterable[Choices]) -> Sequence[int]:
    """Return the numbers of GPUs that replicas may take, in order."""
    return sorted({choice.gpus for choices in kinds for choice in choices})
