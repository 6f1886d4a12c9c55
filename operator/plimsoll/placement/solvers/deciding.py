"""The order of goals: nobody without a place who could have one, then options without doubts, then the bill.

If not all replicas have a place, deployments come first in the order of decisions: those of a higher priority, and
among equals the older ones. A deployment stays without a place only because of those before it in that order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from plimsoll.placement.costs import Appraisal
from plimsoll.placement.solvers.formulation import Aim, Formulation, Goal, Milp, Share, Solution
from plimsoll.placement.solvers.problem import Patience, Posed

MOST_ROUNDS = 6
"""How often the search continues behind a deployment that cannot have all its replicas. Behind the last one, the most
replicas of each level of priority get a place, whoever owns them, the highest level first."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The shares of the kinds of ``posed``, and how good they are."""

    posed: Posed
    shares: tuple[Share, ...]
    appraisal: Appraisal


def decide(posed: Posed, milp: Milp) -> Decided | None:
    """Decide the shares; None if the programme was not solved within its limits."""
    return _solved(posed, milp, Aim()) or _all_placed(posed, milp) or _some_missing(posed, milp)


def _solved(posed: Posed, milp: Milp, aim: Aim) -> Decided | None:
    form = Formulation(posed.problem, aim)
    solution = milp(form.programme)
    if solution is None:
        return None
    appraisal = Appraisal("programme", solution.objective, solution.bound, sum(posed.problem.counts))
    return Decided(posed, form.shares(solution), appraisal)


def _all_placed(posed: Posed, milp: Milp) -> Decided | None:
    least = _least(posed, milp, Aim(Goal.DOUBT, doubt=True))
    return None if least is None else _solved(posed, milp, Aim(doubt=True, doubts=least))


def _some_missing(posed: Posed, milp: Milp) -> Decided | None:
    patience = _Queue(posed, milp).patience()
    everybody = {index for level in posed.levels for index in level}
    patient = posed.among(everybody, patience)
    missing: tuple[float, ...] = ()
    for _ in range(max((level for _, level in patience.values()), default=0)):
        least = _least(patient, milp, Aim(Goal.MISSING, doubt=True, missing=missing))
        if least is None:
            return None
        missing = (*missing, least)
    doubts = _least(patient, milp, Aim(Goal.DOUBT, doubt=True, missing=missing))
    return None if doubts is None else _solved(patient, milp, Aim(doubt=True, missing=missing, doubts=doubts))


def _least(posed: Posed, milp: Milp, aim: Aim) -> float | None:
    programme = Formulation(posed.problem, aim).programme
    solution: Solution | None = milp(programme)
    if solution is None:
        return None
    # The values are whole numbers, and the library's own objective is not exact.
    return sum(cost * value for cost, value in zip(programme.costs, solution.values, strict=True))


@dataclass(slots=True)
class _Queue:
    """Finds in the order of decisions who can have all replicas, and how many the others miss at least."""

    posed: Posed
    milp: Milp
    placed: list[int] = field(default_factory=list)
    missing: dict[int, Patience] = field(default_factory=dict)

    def patience(self) -> Mapping[int, Patience]:
        """Return the demands that may miss replicas. All others can have all their replicas together."""
        waiting = [index for level in self.posed.levels for index in level]
        for number in range(MOST_ROUNDS):
            more = self._most_together(waiting, starts_low=number > 0)
            self.placed, waiting = [*self.placed, *waiting[:more]], waiting[more:]
            if not waiting:
                return self.missing
            culprit = waiting.pop(0)
            self.missing[culprit] = self._fewest_missing(culprit), 0
        return self.missing | self._in_levels(set(waiting))

    def _most_together(self, waiting: list[int], *, starts_low: bool) -> int:
        """Return how many of the next demands can have all their replicas together with those before them.

        With ``starts_low``, small numbers are tried first: behind a demand that misses replicas, the next one mostly
        misses some too.
        """
        low, high = 0, len(waiting)
        while low < high:
            middle = min(2 * low + 1, high) if starts_low else (low + high + 1) // 2
            posed = self._with(waiting[:middle], {})
            if self.milp(Formulation(posed.problem, Aim(Goal.NOTHING, doubt=True)).programme) is None:
                high, starts_low = middle - 1, False
            else:
                low = middle
        return low

    def _fewest_missing(self, culprit: int) -> float:
        """Return how many replicas of a demand have no place at least, after all that come before it.

        A demand with several sizes counts in replicas of its first size: see :meth:`Kind.weighed`.
        """
        replicas = self._replicas(culprit)
        posed = self._with([culprit], {culprit: (replicas, 1)})
        least = _least(posed, self.milp, Aim(Goal.MISSING, doubt=True))
        return replicas if least is None else least

    def _with(self, more: list[int], patience: Mapping[int, Patience]) -> Posed:
        chosen = {*self.placed, *self.missing, *more}
        return self.posed.among(chosen, {**self.missing, **patience})

    def _in_levels(self, waiting: set[int]) -> dict[int, Patience]:
        found: dict[int, Patience] = {}
        rank = 0
        for level in self.posed.levels:
            those = [index for index in level if index in waiting]
            rank += bool(those)
            found |= {index: (self._replicas(index), rank) for index in those}
        return found

    def _replicas(self, demand: int) -> int:
        kinds = zip(self.posed.problem.kinds, self.posed.members, strict=True)
        return next(kind.replicas for kind, members in kinds if demand in members)
