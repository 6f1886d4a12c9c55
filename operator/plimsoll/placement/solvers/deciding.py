"""The order of goals: nobody without a place who could have one, then options without doubts, then the bill.

Where not all replicas have a place, the older deployments come first: a deployment stays without a place only because
of those before it in the order of decisions.
"""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.placement.appraisal import Appraisal
from plimsoll.placement.solvers.formulation import Aim, Formulation, Goal, Share
from plimsoll.placement.solvers.problem import Posed
from plimsoll.placement.solvers.programme import Milp, Solution

MOST_ROUNDS = 6
"""How often the search continues behind a deployment that cannot have all its replicas. Behind the last one, the
most replicas get a place, whoever owns them."""

CULPRIT, OTHERS = 2, 1
"""How much a missing replica counts, of a deployment that was found to have no full place, and of those behind it."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The shares of the kinds of ``posed``, and how good they are."""

    posed: Posed
    shares: tuple[Share, ...]
    appraisal: Appraisal


def decide(posed: Posed, milp: Milp) -> Decided | None:
    """Decide the shares; None where the programme was not solved within its limits."""
    return (
        _solved(posed, milp, Aim())
        or _all_placed(posed, milp)
        or _some_missing(posed.with_patience(_patience(posed, milp)), milp)
    )


def _solved(posed: Posed, milp: Milp, aim: Aim) -> Decided | None:
    form = Formulation(posed.problem, aim)
    solution = milp(form.programme)
    if solution is None:
        return None
    appraisal = Appraisal("programme", solution.objective, solution.bound, sum(posed.problem.counts))
    return Decided(posed, form.shares(solution), appraisal)


def _all_placed(posed: Posed, milp: Milp) -> Decided | None:
    """Place all replicas, some of them with options that have doubts."""
    least = _least(posed, milp, Aim(Goal.DOUBT, doubt=True))
    return None if least is None else _solved(posed, milp, Aim(doubt=True, doubts=least))


def _some_missing(posed: Posed, milp: Milp) -> Decided | None:
    missing = _least(posed, milp, Aim(Goal.MISSING, doubt=True))
    if missing is None:
        return None
    doubts = _least(posed, milp, Aim(Goal.DOUBT, doubt=True, missing=missing))
    return None if doubts is None else _solved(posed, milp, Aim(doubt=True, missing=missing, doubts=doubts))


def _least(posed: Posed, milp: Milp, aim: Aim) -> int | None:
    solution: Solution | None = milp(Formulation(posed.problem, aim).programme)
    return None if solution is None else round(solution.objective)


def _patience(posed: Posed, milp: Milp) -> dict[int, int]:
    """Return the demands that may miss replicas. All others can have all their replicas together."""
    kind_of = {index: kind for kind, members in enumerate(posed.members) for index in members}
    waiting = sorted(kind_of)
    placed: list[int] = []
    patience: dict[int, int] = {}
    for _ in range(MOST_ROUNDS):
        more = _most_together(posed, milp, placed, waiting, kind_of)
        placed, waiting = [*placed, *waiting[:more]], waiting[more:]
        if not waiting:
            return patience
        patience[waiting.pop(0)] = CULPRIT
    return patience | dict.fromkeys(waiting, OTHERS)


def _most_together(posed: Posed, milp: Milp, placed: list[int], waiting: list[int], kind_of: dict[int, int]) -> int:
    """Return how many of the next demands can have all their replicas together with those placed."""
    low, high = 0, len(waiting)
    while low < high:
        middle = (low + high + 1) // 2
        counts = [0] * len(posed.members)
        for index in (*placed, *waiting[:middle]):
            counts[kind_of[index]] += 1
        aim = Aim(Goal.NOTHING, doubt=True)
        if milp(Formulation(posed.problem.with_counts(counts), aim).programme) is None:
            high = middle - 1
        else:
            low = middle
    return low
