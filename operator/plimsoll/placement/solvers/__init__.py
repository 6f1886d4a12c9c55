"""Who gets which GPUs: solvers answer all demands of a pass, on one stock of GPUs."""

from plimsoll.placement.solvers.greedy import solve_greedily
from plimsoll.placement.solvers.protocol import Award, Solver, Stock

SOLVERS: dict[str, Solver] = {"greedy": solve_greedily}
"""By name. A new one is a module in this folder and a row here."""

DEFAULT_SOLVER = SOLVERS["greedy"]

__all__ = ["DEFAULT_SOLVER", "SOLVERS", "Award", "Solver", "Stock"]
