"""Solvers: they answer all demands of a pass from one stock of GPUs."""

from plimsoll.placement.solvers.greedy import solve_greedily
from plimsoll.placement.solvers.protocol import Award, Solver, Stock

SOLVERS: dict[str, Solver] = {"greedy": solve_greedily}
"""The solvers by name. A new solver is a module in this folder and an entry here."""

DEFAULT_SOLVER = SOLVERS["greedy"]

__all__ = ["DEFAULT_SOLVER", "SOLVERS", "Award", "Solver", "Stock"]
