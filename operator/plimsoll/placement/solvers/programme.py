"""A mixed-integer programme as a value, and the protocol of the libraries that can solve it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Coefficients = tuple[tuple[int, float], ...]
"""The entries of one row: a column's index and its coefficient."""

NO_LIMIT = float("inf")


@dataclass(slots=True)
class Programme:
    """Minimise ``costs · x`` with ``0 <= x <= limits``, every x a whole number, and a lower and upper bound per row."""

    costs: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    rows: list[tuple[float, Coefficients, float]] = field(default_factory=list)

    def column(self, limit: float, cost: float = 0.0) -> int:
        """Add a variable and return its index."""
        self.costs.append(cost)
        self.limits.append(limit)
        return len(self.costs) - 1

    def row(self, entries: Coefficients, *, at_least: float = -NO_LIMIT, at_most: float = NO_LIMIT) -> None:
        """Add a row. A row without entries is not added."""
        if entries:
            self.rows.append((at_least, entries, at_most))


@dataclass(frozen=True, slots=True)
class Solution:
    """The best known values, their objective, and the proven lower bound of any solution."""

    values: tuple[int, ...]
    objective: float
    bound: float


Milp = Callable[[Programme], Solution | None]
"""Solves a programme, always in the same way; None where it has no solution, or none was found within the limits."""
