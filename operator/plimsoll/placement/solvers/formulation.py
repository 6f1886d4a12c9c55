"""A problem as a mixed-integer programme, and the shares of its kinds from a solution.

A mixed-integer programme as a value, and the protocol of the libraries that can solve it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from math import floor

from plimsoll.placement.solvers.limits import limits_of
from plimsoll.placement.solvers.problem import Kind, Problem

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
"""Solves a programme, always in the same way; None if it has no solution, or none was found within the limits."""


MIXING = 0.1
"""The part of a deployment's bill that a mix of GPU types must save. Below that, its replicas share one type: they
are easier to operate and answer at the same speed."""

_TOLERANCE = 1e-6
"""The most by which rounding may change a sum of shares."""


class Goal(StrEnum):
    """The figure that a programme minimises."""

    NOTHING = "nothing"
    """Any solution is good."""
    MISSING = "missing"
    """Replicas without a place."""
    DOUBT = "doubt"
    """The doubts of all replicas."""
    BILL = "bill"
    """US dollars an hour."""


@dataclass(frozen=True, slots=True)
class Aim:
    """The goal of one solve.

    ``minimised`` is what the programme minimises. ``doubt`` allows options with more doubts than others of
    the kind. ``missing`` is the most missing replicas of each level of priority, and the level after those is the one
    that :attr:`Goal.MISSING` minimises. ``doubts`` is the most doubts; None sets no limit. Replicas count as
    :meth:`~plimsoll.placement.solvers.problem.Kind.weighed` says.
    """

    minimised: Goal = Goal.BILL
    doubt: bool = False
    missing: tuple[float, ...] = ()
    doubts: float | None = None


@dataclass(slots=True)
class Columns:
    """The columns of one kind.

    ``whole`` counts deployments that get one choice. ``mixed`` counts deployments by size that are divided over
    choices, ``loose`` their replicas by choice, and ``short`` their replicas without a place by size. ``parts`` are
    replicas by choice and group, if a choice has several groups. A size that is not divided has no ``mixed``, and
    its ``short`` counts deployments without a place.
    """

    whole: dict[int, int] = field(default_factory=dict)
    mixed: dict[int, int] = field(default_factory=dict)
    loose: dict[int, int] = field(default_factory=dict)
    short: dict[int, int] = field(default_factory=dict)
    parts: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a kind.

    ``whole`` is the number of deployments by choice, and ``mixed`` that of divided deployments by size. ``loose`` is
    the number of their replicas by choice. ``parts`` is the number of replicas by choice and group.
    """

    whole: tuple[tuple[int, int], ...]
    mixed: tuple[tuple[int, int], ...]
    loose: tuple[tuple[int, int], ...]
    parts: tuple[tuple[tuple[int, int], int], ...]


class Formulation:
    """The programme of a problem with an aim."""

    def __init__(self, problem: Problem, aim: Aim) -> None:
        self.problem, self.aim = problem, aim
        self.programme = Programme()
        self.columns = [self._of_kind(kind, count) for kind, count in zip(problem.kinds, problem.counts, strict=True)]
        self._limit()
        self._limit_totals()

    def shares(self, solution: Solution) -> tuple[Share, ...]:
        """Read the shares of all kinds from a solution."""
        return tuple(
            self._share(kind, columns, solution) for kind, columns in zip(self.problem.kinds, self.columns, strict=True)
        )

    def _of_kind(self, kind: Kind, count: int) -> Columns:
        columns = Columns()
        for size in range(len(kind.sizes)):
            self._of_size(kind, size, count, columns)
        self._all_have_one(count, columns)
        self._divide(kind, count, columns)
        return columns

    def _of_size(self, kind: Kind, size: int, count: int, columns: Columns) -> None:
        allowed, replicas, add = self._allowed(kind, size), kind.sizes[size], self.programme.column
        if not allowed:
            return
        for choice in allowed:
            columns.whole[choice] = add(count, self._cost(kind, choice, replicas))
        divisible = not kind.whole and replicas > 1 and (len(allowed) > 1 or kind.spare > 0)
        if divisible:
            columns.mixed[size] = add(count, self._charge(kind, size))
            for choice in allowed:
                columns.loose[choice] = add(count * replicas, self._cost(kind, choice, 1))
        if kind.spare:
            most = _most_short(kind, size)
            columns.short[size] = add(
                count * (most if divisible else most // replicas), self._penalty(kind, size, columns)
            )
        if divisible:
            self._balance(kind, size, columns)

    def _allowed(self, kind: Kind, size: int) -> list[int]:
        """Return the choices with the fewest doubts, or all of them if the aim allows more doubts."""
        fewest = min(choice.doubts for choice in kind.choices)
        return [index for index in kind.of_size(size) if self.aim.doubt or kind.choices[index].doubts == fewest]

    def _cost(self, kind: Kind, index: int, replicas: int) -> float:
        choice = kind.choices[index]
        if self.aim.minimised is Goal.BILL:
            return replicas * (choice.price + 1e-6 * index)  # among equal bills, the preferred choices
        return kind.weighed(choice.size, replicas * choice.doubts) if self.aim.minimised is Goal.DOUBT else 0.0

    def _charge(self, kind: Kind, size: int) -> float:
        if self.aim.minimised is not Goal.BILL:
            return 0.0
        return MIXING * kind.sizes[size] * min(kind.choices[index].price for index in kind.of_size(size))

    def _penalty(self, kind: Kind, size: int, columns: Columns) -> float:
        counts = self.aim.minimised is Goal.MISSING and kind.level == len(self.aim.missing) + 1
        return _weight(kind, size, columns) if counts else 0.0

    def _balance(self, kind: Kind, size: int, columns: Columns) -> None:
        """Count the replicas of divided deployments of one size: each has a place, or is short."""
        mixed, short = columns.mixed[size], columns.short.get(size)
        replicas = [(columns.loose[index], 1.0) for index in kind.of_size(size) if index in columns.loose]
        missing = [] if short is None else [(short, 1.0)]
        entries = (*replicas, *missing, (mixed, -float(kind.sizes[size])))
        self.programme.row(entries, at_least=0.0, at_most=0.0)
        if short is not None and len(kind.sizes) > 1:  # with one size, the column's limit says the same
            self.programme.row(((short, 1.0), (mixed, -float(_most_short(kind, size)))), at_most=0.0)

    def _all_have_one(self, count: int, columns: Columns) -> None:
        alone = [column for size, column in columns.short.items() if size not in columns.mixed]
        placed = [(column, 1.0) for column in (*columns.whole.values(), *columns.mixed.values(), *alone)]
        self.programme.row(tuple(placed), at_least=count, at_most=count)

    def _divide(self, kind: Kind, count: int, columns: Columns) -> None:
        for index in columns.whole:
            choice = kind.choices[index]
            if len(choice.groups) == 1:
                continue
            for group in choice.groups:
                columns.parts[index, group] = self.programme.column(count * kind.sizes[choice.size])
            entries = [(columns.parts[index, group], 1.0) for group in choice.groups]
            taken = [(column, -weight) for column, weight in self._replicas(kind, columns, index)]
            self.programme.row((*entries, *taken), at_least=0.0, at_most=0.0)

    def _replicas(self, kind: Kind, columns: Columns, choice: int) -> Iterator[tuple[int, float]]:
        """Yield the columns and weights that count the replicas of a choice."""
        yield columns.whole[choice], float(kind.sizes[kind.choices[choice].size])
        if choice in columns.loose:
            yield columns.loose[choice], 1.0

    def _limit(self) -> None:
        for limit in limits_of(self.problem):
            entries: dict[int, float] = {}
            for (number, index, group), amount in limit.uses:
                for column, weight in self._on(number, index, group):
                    entries[column] = entries.get(column, 0.0) + weight * amount
            self.programme.row(tuple(entries.items()), at_most=limit.at_most)

    def _on(self, number: int, index: int, group: int) -> Iterator[tuple[int, float]]:
        columns = self.columns[number]
        if (index, group) in columns.parts:
            yield columns.parts[index, group], 1.0
        elif index in columns.whole:
            yield from self._replicas(self.problem.kinds[number], columns, index)

    def _limit_totals(self) -> None:
        """Keep what earlier solves reached: the missing replicas of each level, and the number of doubts."""
        paired = list(zip(self.problem.kinds, self.columns, strict=True))
        for level, most in enumerate(self.aim.missing, start=1):
            short = [
                (column, _weight(kind, size, columns))
                for kind, columns in paired
                if kind.level == level
                for size, column in columns.short.items()
            ]
            self.programme.row(tuple(short), at_most=most)
        if self.aim.doubts is not None:
            doubtful = [
                each
                for kind, columns in paired
                for index in columns.whole
                if kind.choices[index].doubts
                for each in self._doubts(kind, columns, index)
            ]
            self.programme.row(tuple(doubtful), at_most=self.aim.doubts)

    def _doubts(self, kind: Kind, columns: Columns, choice: int) -> Iterator[tuple[int, float]]:
        each = kind.choices[choice]
        counted = self._replicas(kind, columns, choice)
        return ((column, kind.weighed(each.size, weight * each.doubts)) for column, weight in counted)

    def _share(self, kind: Kind, columns: Columns, solution: Solution) -> Share:
        value = solution.values
        parts = []
        for index in columns.whole:
            for group in kind.choices[index].groups:
                if (index, group) in columns.parts:
                    replicas = value[columns.parts[index, group]]
                else:
                    counted = self._replicas(kind, columns, index)
                    replicas = sum(value[column] * round(weight) for column, weight in counted)
                if replicas:
                    parts.append(((index, group), replicas))
        return Share(
            whole=tuple((index, value[column]) for index, column in sorted(columns.whole.items()) if value[column]),
            mixed=tuple((size, value[column]) for size, column in columns.mixed.items() if value[column]),
            loose=tuple((index, value[column]) for index, column in columns.loose.items() if value[column]),
            parts=tuple(parts),
        )


def _most_short(kind: Kind, size: int) -> int:
    return min(kind.sizes[size], floor(kind.spare / kind.weighed(size, 1) + _TOLERANCE))


def _weight(kind: Kind, size: int, columns: Columns) -> float:
    """Return how much one unit of the column ``short`` counts: a replica, or a deployment that is not divided."""
    return kind.weighed(size, 1 if size in columns.mixed else kind.sizes[size])
