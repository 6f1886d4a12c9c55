"""The worth of the room of each limit of a problem that has no place for everybody.

The worths are found by the method of subgradients (Held, Wolfe and Crowder, Mathematical Programming 6, 1974).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.placement.solvers.limits import Limit, Where
from plimsoll.placement.solvers.problem import Kind, Problem

STEPS = 500
"""The number of corrections of the worths of limits."""

MOST_COSTS = 1_000_000
"""The most costs of a choice that are computed for the worths together: about half a second. A problem with many kinds
has fewer steps."""

Costs = tuple[tuple[tuple[tuple[int, int], float], ...], ...]
"""For each kind the worth of the room of one replica, by choice and group, the least first."""


class Worths:
    """The worth of the room of each limit, counted in replicas that have no place because of it.

    A replica has a place if its room is worth less than one replica of its kind. A limit that more replicas want than
    it holds becomes dearer, and one with room becomes cheaper.
    """

    def __init__(self, problem: Problem, room: Sequence[float], uses: Mapping[Where, list[tuple[int, float]]]) -> None:
        self.problem = problem
        self.room = room
        self.places = [
            [
                ((index, group), uses[number, index, group])
                for index, choice in enumerate(kind.choices)
                for group in choice.groups
            ]
            for number, kind in enumerate(problem.kinds)
        ]

    def costs(self) -> Costs:
        """Return the costs by the mean worths of all steps, since those of a single step go up and down."""
        now, total = [0.0] * len(self.room), [0.0] * len(self.room)
        steps = min(STEPS, MOST_COSTS // max(1, sum(map(len, self.places))))
        for step in range(1, steps + 1):
            taken = self._taken(now)
            for row, room in enumerate(self.room):
                now[row] = max(0.0, now[row] + (taken[row] - room) / max(1.0, room) ** 2 / step**0.5)
                total[row] += now[row]
        mean = [each / max(1, steps) for each in total]
        return tuple(
            tuple(
                sorted(
                    ((where, self._cost(mean, uses)) for where, uses in places),
                    key=lambda each, kind=kind: (round(each[1], 6), _rank(kind, each[0][0]), each[0]),  # type: ignore[misc]
                )
            )
            for kind, places in zip(self.problem.kinds, self.places, strict=True)
        )

    def _taken(self, worths: Sequence[float]) -> list[float]:
        """Return what all replicas use of each limit if each takes the choice that is worth the least."""
        taken = [0.0] * len(self.room)
        for kind, count, places in zip(self.problem.kinds, self.problem.counts, self.places, strict=True):
            cost, uses, size = min(
                (
                    (self._cost(worths, uses) * kind.sizes[kind.choices[index].size], uses, kind.choices[index].size)
                    for (index, _), uses in places
                ),
                key=lambda each: each[0],
            )
            if cost < kind.replicas:
                for row, amount in uses:
                    taken[row] += count * kind.sizes[size] * amount
        return taken

    @staticmethod
    def _cost(worths: Sequence[float], uses: Sequence[tuple[int, float]]) -> float:
        return sum([worths[row] * amount for row, amount in uses])


def _rank(kind: Kind, index: int) -> tuple[int, float]:
    return kind.choices[index].doubts, kind.choices[index].price


def uses_of(problem: Problem, limits: Sequence[Limit]) -> dict[Where, list[tuple[int, float]]]:
    """Return what one replica uses of each limit: the index of the limit, and the amount."""
    uses: dict[Where, list[tuple[int, float]]] = {
        (number, index, group): []
        for number, kind in enumerate(problem.kinds)
        for index, choice in enumerate(kind.choices)
        for group in choice.groups
    }
    for row, limit in enumerate(limits):
        for where, amount in limit.uses:
            uses[where].append((row, amount))
    return uses
