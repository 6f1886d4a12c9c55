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
    FAULTS = "faults"
    """Situations that break laws, each with a goal: replicas that are not alike or do not serve, signals that lie, and
    demand that no law can follow."""
    OWN = "own"
    """A trace that a user brings."""


SETS = (Group.TUNING, Group.VALIDATION, Group.RHYTHM, Group.FAULTS)
"""The sets of situations that are carried."""

FIRST_SEED = {Group.TUNING: 1, Group.VALIDATION: 1001, Group.RHYTHM: 2001, Group.FAULTS: 3001, Group.OWN: 1}
"""No seed is in two carried sets as long as there are fewer than a thousand."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The most that a law may differ in a situation from another run of the same seed.

    Attributes:
        than: what runs for comparison: mostly the same scenario without what disturbs it.
        by_fleet: the replicas at the beginning of that scenario serve in it to the end. Else the same law runs it.
        words: that run in words.
        replicas: the most replicas over the most of that run; None: any number.
        points: the most points of goodput below that of that run; None: any.
        hours: the most GPU-hours, as a part of those of that run; None: any.
        flips: the most flips.
    """

    than: Scenario
    words: str
    by_fleet: bool = False
    replicas: int | None = 1
    points: float | None = 0.0
    hours: float | None = None
    flips: int = 1

    def __str__(self) -> str:
        """Return the goal in words."""
        asked = (
            None if self.replicas is None else f"at most {self.replicas} more",
            None if self.points is None else f"{self.points:g} points less",
            None if self.hours is None else f"{self.hours:g} x the GPU-hours",
            f"{self.flips} flip{'' if self.flips == 1 else 's'}",
        )
        return f"{', '.join(each for each in asked if each)} than {self.words}"


@dataclass(frozen=True, slots=True)
class Situation:
    """A scenario, what it tests, and the set that it belongs to.

    ``rises`` are the moments in seconds at which demand jumps up: recovery is measured after each. ``goal`` is what a
    law shall reach in it; None: it is only compared with other laws.
    """

    scenario: Scenario
    tests: str
    group: Group
    rises: tuple[float, ...] = ()
    goal: Goal | None = None

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
