"""One solver in one world against the optimum: what its awards cost, leave out and leave free."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.placement.bound.instance import choice_of, instance_of, replicas_of, supply_of
from benchmarks.placement.bound.optimum import Optimum, optimum
from benchmarks.placement.bound.packing import divide_each_other, slot_rows
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.solvers.protocol import Award, Solver, Stock

WHOLE_NODE = 8
"""GPUs of a node that is worth keeping whole, for a model that needs all of them."""


class OverCommitted(Exception):
    """A solver gave away more than there is."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The figures of one solver in one world.

    ``least_dollars`` is the optimum for the same replicas that the solver placed: a solver gains nothing by leaving a
    dear replica out.
    """

    wanted: int
    unplaced: int
    doubts: int
    dollars: float
    least_dollars: float
    whole_nodes: int

    @property
    def above(self) -> float:
        """US dollars above the optimum for the same replicas, in per cent."""
        return 100 * (self.dollars / self.least_dollars - 1) if self.least_dollars else 0.0


def verdict_on(solver: Solver, demands: Sequence[Demand], stock: Stock, best: Optimum) -> Verdict:
    """Let a solver answer the demands, check its awards, and return the figures.

    Raises:
        OverCommitted: its awards do not fit on the nodes.
    """
    awards = list(solver(demands, stock))
    check(awards, stock)
    granted = [placed for award in awards for placed in award.granted]
    wanted = sum(max(0, demand.missing) for demand in demands)
    placed = sum(each.replicas for each in granted)
    unplaced = wanted - placed
    dollars = sum(each.replicas * choice_of(each.choice).dollars for each in granted)
    doubts = sum(each.replicas * choice_of(each.choice).doubts for each in granted)
    same = (unplaced, doubts) == (0, best.doubts)
    return Verdict(
        wanted=wanted,
        unplaced=unplaced,
        doubts=doubts,
        dollars=dollars,
        least_dollars=best.dollars if same else _least_dollars(awards, stock, doubts),
        whole_nodes=whole_nodes(stock, awards[-1].left if awards else stock.ledger),
    )


def _least_dollars(awards: Sequence[Award], stock: Stock, doubts: int) -> float:
    """Return the optimum for the replicas that the awards placed, with as many doubts as they have."""
    placed = replicas_of((award.demand, sum(each.replicas for each in award.granted)) for award in awards)
    same = instance_of([], stock).with_replicas(placed)
    return optimum(same, most_doubts=doubts).dollars


def check(awards: Sequence[Award], stock: Stock) -> None:
    """Check that all granted replicas fit on the nodes together, and that the last ledger says so."""
    given: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for award in awards:
        if sum(placed.replicas for placed in award.granted) > max(0, award.demand.missing):
            raise OverCommitted(f"{award.demand.request.key} got more replicas than it asked for")
        for placed in award.granted:
            given[placed.choice.gpu.name][placed.choice.split.gpus] += placed.replicas
    for gpu_type, replicas in given.items():
        _check_fit(gpu_type, replicas, supply_of(stock).get(gpu_type, {}))
    left = awards[-1].left if awards else stock.ledger
    used = _free_by_type(stock, stock.ledger)
    used.subtract(_free_by_type(stock, left))
    for gpu_type, gpus in used.items():
        expected = sum(size * count for size, count in given[gpu_type].items())
        if gpus != expected:
            raise OverCommitted(f"{gpu_type}: {expected} GPUs were granted, and the ledger lost {gpus}")


def _check_fit(gpu_type: str, replicas: Counter[int], nodes: dict[int, int]) -> None:
    sizes = sorted(replicas)
    if not divide_each_other(sizes):
        return
    for takes, slots in slot_rows(sizes, nodes):
        used = sum(takes[size] * replicas[size] for size in takes)
        if used > slots:
            raise OverCommitted(f"{gpu_type}: {used} slots of {min(takes)} GPUs are taken, and there are {slots}")


def _free_by_type(stock: Stock, ledger: Ledger) -> Counter[str]:
    free: Counter[str] = Counter()
    for node in stock.fleet.nodes:
        free[node.gpu.name] += ledger.free[node.account]
    return free


def whole_nodes(stock: Stock, left: Ledger) -> int:
    """Return the number of nodes with eight GPUs on which nothing runs."""
    return sum(left.free[node.account] == node.allocatable == WHOLE_NODE for node in stock.fleet.nodes)
