"""Solvers: they answer all demands of a pass from one stock of GPUs."""

from plimsoll.placement.solvers.deciding import Overload
from plimsoll.placement.solvers.fleetwide import Fleetwide
from plimsoll.placement.solvers.greedy import solve_greedily
from plimsoll.placement.solvers.protocol import Award, Solver, Stock

SOLVERS: dict[str, Solver] = {"greedy": solve_greedily, "search": Fleetwide()}
"""The solvers by name that need no library. A new solver is a module in this folder and an entry here."""

DEFAULT_SOLVER = SOLVERS["search"]

__all__ = ["DEFAULT_SOLVER", "SOLVERS", "Award", "Fleetwide", "Overload", "Solver", "Stock"]
