"""A scenario with the purpose behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from benchmarks.rebalance.values import Scenario


class Group(StrEnum):
    """The uses of a scenario."""

    TUNING = "tuning"
    """Constants of a law may be chosen by it."""
    VALIDATION = "validation"
    """No constant may be chosen by it: other seeds, other models on other GPUs, and traces of real requests."""
    RHYTHM = "rhythm"
    """Days that are known when the run begins, like each other or not."""
    OWN = "own"
    """A trace that a user brings."""


SETS = (Group.TUNING, Group.VALIDATION, Group.RHYTHM)
"""The sets of situations that are carried."""

FIRST_SEED = {Group.TUNING: 1, Group.VALIDATION: 1001, Group.RHYTHM: 2001, Group.OWN: 1}
"""No seed is in two carried sets as long as there are fewer than a thousand."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A scenario, what it tests, and the set that it belongs to.

    ``rises`` are the moments in seconds at which demand jumps up: recovery is measured after each.
    """

    scenario: Scenario
    tests: str
    group: Group
    rises: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The name of the scenario."""
        return self.scenario.name

    def shortened(self, seconds: float) -> Situation:
        """Return its beginning, under a name of its own: its figures are not those of the whole."""
        scenario = replace(self.scenario, name=f"{self.name}-{seconds / 60:.0f}min", seconds=seconds)
        return replace(self, scenario=scenario, rises=tuple(each for each in self.rises if each < seconds))

    def seeds(self, count: int) -> range:
        """Return so many seeds of its set."""
        first = FIRST_SEED[self.group]
        return range(first, first + count)
