"""A mixed-integer programme on HiGHS: columns, rows, and goals that are minimised one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import highspy
import numpy as np

INFINITY = highspy.kHighsInf
SECONDS = 120.0
"""The time limit of one solve. What is not proven by then is reported as not proven."""

SLACK = 1e-6


class NotSolved(Exception):
    """HiGHS found no solution."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The columns' values, the least value of the last goal as far as proven, and whether it is reached."""

    values: Sequence[float]
    bound: float
    optimal: bool


@dataclass(slots=True)
class Programme:
    """Columns are numbers from 0; rows are ``least <= sum of factor x column <= most``."""

    integer: list[bool] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    rows: list[tuple[dict[int, float], float, float]] = field(default_factory=list)

    def column(self, most: float = INFINITY, *, integer: bool = False) -> int:
        """Add a column that is at least 0, and return its number."""
        self.integer.append(integer)
        self.most.append(most)
        return len(self.integer) - 1

    def row(self, factors: Mapping[int, float], least: float = -INFINITY, most: float = INFINITY) -> None:
        """Add a row."""
        self.rows.append((dict(factors), least, most))

    def minimise(self, goals: Sequence[Mapping[int, float]]) -> Solved:
        """Minimise the first goal, then the second among the best solutions, and so on. Empty goals are skipped.

        Raises:
            NotSolved: there is no solution, or none was found in time.
        """
        solved = Solved((), 0.0, optimal=True)
        if not self.integer:
            return solved
        solver = self._loaded()
        asked = [goal for goal in goals[:-1] if goal] + [goals[-1]]
        for number, goal in enumerate(asked):
            solved = self._minimise(solver, goal)
            if number < len(asked) - 1:
                reached = sum(factor * solved.values[column] for column, factor in goal.items())
                solver.addRow(-INFINITY, reached + SLACK, len(goal), _ints(list(goal)), _floats(list(goal.values())))
        return solved

    def _loaded(self) -> highspy.Highs:
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0), ("time_limit", SECONDS)):
            solver.setOptionValue(option, value)
        solver.setOptionValue("mip_rel_gap", SLACK)
        count = len(self.integer)
        solver.addVars(count, np.zeros(count), _floats(self.most))
        whole = [column for column, integer in enumerate(self.integer) if integer]
        solver.changeColsIntegrality(len(whole), _ints(whole), np.ones(len(whole), dtype=np.uint8))
        for factors, least, most in self.rows:
            solver.addRow(least, most, len(factors), _ints(list(factors)), _floats(list(factors.values())))
        return solver

    def _minimise(self, solver: highspy.Highs, goal: Mapping[int, float]) -> Solved:
        count = len(self.integer)
        costs = np.zeros(count)
        costs[list(goal)] = list(goal.values())
        solver.changeColsCost(count, np.arange(count, dtype=np.int32), costs)
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            raise NotSolved(solver.modelStatusToString(status))
        optimal = status == highspy.HighsModelStatus.kOptimal
        bound = info.mip_dual_bound if any(self.integer) else info.objective_function_value
        return Solved(list(solver.getSolution().col_value), float(bound), optimal)


def _ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.asarray(values, dtype=np.int32)


def _floats(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(values, dtype=np.float64)
