"""The order of goals: nobody without a place who could have one, then options without doubts, then the bill.

If not all replicas have a place, deployments come first in the order of decisions: those of a higher priority, and
among equals the older ones. A deployment stays without a place only because of those before it in that order. With
:attr:`Overload.MOST_PLACED`, age does not count: the most replicas of each priority get a place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from plimsoll.placement.costs import Appraisal
from plimsoll.placement.solvers.formulation import Aim, Formulation, Goal, Milp, Share, Solution
from plimsoll.placement.solvers.problem import Patience, Posed

MOST_ROUNDS = 6
"""How often the search continues behind a deployment that cannot have all its replicas. Behind the last one, the most
replicas of each level of priority get a place, whoever owns them, the highest level first."""


class Overload(StrEnum):
    """Who waits if not all replicas have a place. A running replica is never taken from its deployment."""

    SENIORITY = "Seniority"
    """Those of a lower priority, and among equals the younger ones."""
    MOST_PLACED = "MostPlaced"
    """Those of a lower priority, and among equals as few replicas as possible."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The shares of the kinds of ``posed``, and how good they are."""

    posed: Posed
    shares: tuple[Share, ...]
    appraisal: Appraisal


def decide(posed: Posed, milp: Milp, overload: Overload = Overload.SENIORITY) -> Decided | None:
    """Decide the shares; None if the programme was not solved within its limits."""
    return _solved(posed, milp, Aim()) or _all_placed(posed, milp) or _some_missing(posed, milp, overload)


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


def _some_missing(posed: Posed, milp: Milp, overload: Overload) -> Decided | None:
    everybody = {index for level in posed.levels for index in level}
    ageless = in_levels(posed, everybody)
    patience = ageless if overload is Overload.MOST_PLACED else _Queue(posed, milp).patience()
    patient = posed.among(everybody, patience)
    missing = _least_missing(patient, milp)
    if missing is None:
        return None
    doubts = _least(patient, milp, Aim(Goal.DOUBT, doubt=True, missing=missing))
    decided = None if doubts is None else _solved(patient, milp, Aim(doubt=True, missing=missing, doubts=doubts))
    if decided is None or overload is Overload.MOST_PLACED:
        return decided
    fewest = _least_missing(posed.among(everybody, ageless), milp)  # last, so that it takes no time from the plan
    waiting = sum(missing) + sum(spare for spare, level in patience.values() if level == 0)
    price = None if fewest is None else max(0, round(waiting - sum(fewest)))
    return replace(decided, appraisal=replace(decided.appraisal, seniority_price=price))


def _least_missing(posed: Posed, milp: Milp) -> tuple[float, ...] | None:
    """Return the fewest missing replicas of each level of priority; None if a programme was not solved."""
    missing: tuple[float, ...] = ()
    for _ in range(max((kind.level for kind in posed.problem.kinds), default=0)):
        least = _least(posed, milp, Aim(Goal.MISSING, doubt=True, missing=missing))
        if least is None:
            return None
        missing = (*missing, least)
    return missing


def in_levels(posed: Posed, waiting: Collection[int]) -> dict[int, Patience]:
    """Return the demands, each of which may miss all its replicas: those of one priority are minimised together."""
    found: dict[int, Patience] = {}
    rank = 0
    for level in posed.levels:
        those = [index for index in level if index in waiting]
        rank += bool(those)
        found |= {index: (_replicas(posed, index), rank) for index in those}
    return found


def _replicas(posed: Posed, demand: int) -> int:
    kinds = zip(posed.problem.kinds, posed.members, strict=True)
    return next(kind.replicas for kind, members in kinds if demand in members)


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
        for _ in range(MOST_ROUNDS):
            if self.missing and self._misses_some(waiting):  # mostly, behind one that does
                continue
            more = self._most_together(waiting)
            self.placed, waiting = [*self.placed, *waiting[:more]], waiting[more:]
            if not waiting:
                return self.missing
            culprit = waiting.pop(0)
            self.missing[culprit] = self._fewest_missing(culprit), 0
        return self.missing | in_levels(self.posed, set(waiting))

    def _misses_some(self, waiting: list[int]) -> bool:
        """Whether the next demand cannot have all its replicas. It is noted and does not wait any more, either way."""
        if not waiting:
            return False
        following = waiting.pop(0)
        least = self._fewest_missing(following)
        if least:
            self.missing[following] = least, 0
        else:
            self.placed.append(following)
        return least > 0

    def _most_together(self, waiting: list[int]) -> int:
        """Return how many of the next demands can have all their replicas together with those before them.

        Behind a demand that misses replicas, small numbers are tried first.
        """
        low, high, starts_low = 0, len(waiting), bool(self.missing)
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
        replicas = _replicas(self.posed, culprit)
        posed = self._with([culprit], {culprit: (replicas, 1)})
        least = _least(posed, self.milp, Aim(Goal.MISSING, doubt=True))
        return replicas if least is None else least

    def _with(self, more: list[int], patience: Mapping[int, Patience]) -> Posed:
        chosen = {*self.placed, *self.missing, *more}
        return self.posed.among(chosen, {**self.missing, **patience})
