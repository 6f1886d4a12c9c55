"""The grid of worlds, and every solver's figures in each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.placement.bound.instance import Instance, instance_of
from benchmarks.placement.bound.optimum import Optimum, optimum
from benchmarks.placement.judging import Verdict, verdict_on
from benchmarks.placement.worlds import ORDERS, Place, world_of
from plimsoll.placement.solvers import Solver

DEMANDS = (20, 50, 80, 95)
"""Per cent of the largest demand that the fleet can hold. At 20 % nearly everybody can have the cheapest option."""

CENT = 0.01


@dataclass(frozen=True, slots=True)
class Case:
    """One solver in one world. ``ample`` means that the optimum gives everybody the cheapest option."""

    place: Place
    prices: str
    percent: int
    order: str
    ample: bool
    deployments: int
    solver: str
    best: Optimum
    verdict: Verdict

    @property
    def stranded(self) -> int:
        """Replicas without a place that the optimum places."""
        return self.verdict.unplaced - self.best.unplaced

    def figures(self) -> dict[str, object]:
        """Return the case for a file."""
        return {
            "fleet": self.place.fleet,
            "nodes": self.place.nodes,
            "seed": self.place.seed,
            "kinds": self.place.kinds,
            "prices": self.prices,
            "demand_percent": self.percent,
            "order": self.order,
            "stock": "ample" if self.ample else "scarce",
            "deployments": self.deployments,
            "replicas": self.verdict.wanted,
            "solver": self.solver,
            "dollars": round(self.verdict.dollars, 4),
            "dollars_bound": round(self.best.dollars, 4),
            "dollars_bound_of_placed": round(self.verdict.least_dollars, 4),
            "bound_proven": self.best.proven,
            "above_bound_percent": round(self.verdict.above, 4),
            "unplaced": self.verdict.unplaced,
            "unplaced_bound": self.best.unplaced,
            "doubts": self.verdict.doubts,
            "doubts_bound": self.best.doubts,
            "whole_nodes": self.verdict.whole_nodes,
        }


def cases(
    places: Sequence[Place],
    price_lists: Sequence[str],
    solvers: Mapping[str, Solver],
    percents: Sequence[int] = DEMANDS,
    orders: Sequence[str] = tuple(ORDERS),
) -> Iterator[Case]:
    """Yield the cases, each as soon as it is known."""
    for place in places:
        for prices in price_lists:
            for percent in percents:
                best = None
                for order in orders:
                    world = world_of(place, percent, prices, order)
                    demands, stock = world.demands(), world.stock
                    instance = instance_of(demands, stock)
                    best = best or optimum(instance)
                    ample = best.dollars <= _cheapest(instance) + CENT
                    for name, solver in solvers.items():
                        verdict = verdict_on(solver, demands, stock, best)
                        yield Case(place, prices, percent, order, ample, len(demands), name, best, verdict)


def _cheapest(instance: Instance) -> float:
    """Return the bill if everybody had the best choice: the nodes are not looked at."""
    return sum(min(kind).dollars * replicas for kind, replicas in instance.replicas.items() if kind)
