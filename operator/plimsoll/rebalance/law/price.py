"""One expected cost: the price of a replica against that of the requests that miss their promise without it.

Whether one more replica is worth its price depends on what is known. Arrivals when it would serve are a normal
distribution around those of now: by the chance of what was counted, by how much arrivals wander until then, and by the
error of what a replica is believed to carry. If they exceed what the replicas carry, requests queue, and all of them
miss their promise until another replica serves. So one more replica is worth its price if

    chance of too few * requests a second * time until more serve * worth of a missed request > price * time it stays

and the same for one less, with the chance that it is missed within the time in which none is added again (the
critical fractile of the newsvendor: Arrow, Harris and Marschak, "Optimal Inventory Policy", Econometrica 1951).

The worth of a missed request follows from the user's objective (:data:`WORTH`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from plimsoll.domain.decisions.latency import Objective
from plimsoll.rebalance.law.capacity import ReplicaCapacity, ReplicaModel

OWN_ERROR: Final = 0.05
"""The error of what a replica is believed to carry, as a part of it: one standard deviation."""

WANDER_PER_SECOND: Final = 1e-5
"""How much arrivals wander: the square of a part of them, a second (a random walk). They are 8 % others after ten
minutes and 14 % after half an hour: one standard deviation."""

LEAST_CHANCE: Final = 1e-3
MOST_CHANCE: Final = 0.5
"""The bounds of the chance of too few replicas. With the most, the replicas carry the arrivals as they are. Of rarer
things than the least, a normal distribution says nothing."""

MOST_TAKEN_BACK: Final = 0.16
"""The most chance that a removal is taken back. What is added again has to start and to fill its cache anew, and after
two of these nothing is removed within the hour (``reversalsPerHour``). A choice of this project: one removal of six."""

WORTH: Final[Mapping[Objective, float]] = {
    Objective.INTERACTIVE: 62.5,
    Objective.BALANCED: 25.0,
    Objective.BATCH: 0.0,
}
"""The worth of a request that keeps its promise, by the user's objective: so many times what it costs to serve it. A
choice of this project, in the proportions of :data:`plimsoll.performance.worth.SCALES`: with less, a twentieth of the
requests of real traces missed their promise for a few percent fewer GPU-hours (docs/rebalance-benchmark.md)."""

COOLDOWN_SECONDS: Final = 1800.0
"""How long a replica stays at least by the usual bounds of ``spec.rebalancing``."""

LEAST_STAY_SECONDS: Final = 60.0
"""Nobody pays for less than a minute of a GPU."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """The sides of one more replica.

    Attributes:
        missed_seconds: the worth of a request that misses its promise, in seconds of the price of a replica.
        startup_seconds: the time until a replica that is ordered now serves.
        stay_seconds: how long it stays at least.
        notice_seconds: how long arrivals are counted before a change shows.
    """

    missed_seconds: float
    startup_seconds: float
    stay_seconds: float = COOLDOWN_SECONDS
    notice_seconds: float = 30.0

    def chance(self, rate: float) -> float:
        """Return the chance of too few replicas at which one more is worth its price, at so many requests a second."""
        lost = self.missed_seconds * rate * (self.startup_seconds + self.notice_seconds)
        return max(LEAST_CHANCE, min(MOST_CHANCE, self.stay_seconds / lost)) if lost > 0 else MOST_CHANCE

    def use(self, rate: float, counted_error: float = 0.0) -> float:
        """Return the part of what replicas carry from which arrivals ask for one more.

        Args:
            rate: requests a second that come.
            counted_error: its standard deviation, as a part of it.
        """
        return _use(self.chance(rate), _error(counted_error, self.startup_seconds))

    def spare_use(self, rate: float, counted_error: float = 0.0) -> float:
        """Return the part up to which a replica is superfluous: for so long that another one is not added again."""
        chance = min(MOST_TAKEN_BACK, self.chance(rate))
        return _use(chance, _error(counted_error, self.startup_seconds + self.stay_seconds))

    def behind(self, backlog: float, rate: float, most: float) -> float:
        """Return the replicas, in parts, that are worth their price for a backlog.

        ``n`` replicas serve it in ``backlog / (n * most - rate)`` seconds, and what comes meanwhile misses its promise.
        From the number that is returned, one more saves less than it costs.

        Args:
            backlog: requests that wait; 0 at least.
            rate: requests a second that come.
            most: requests a second that a replica serves at the most; above 0.
        """
        gain = backlog * rate / most * self.missed_seconds / self.stay_seconds
        return rate / most + (math.sqrt(1 + 4 * gain) - 1) / 2

    def staying(self, seconds: float) -> Stakes:
        """Return the stakes of a replica that stays so long at least: not shorter than it starts, and a minute."""
        return replace(self, stay_seconds=max(seconds, self.startup_seconds, LEAST_STAY_SECONDS))


def stakes_of(replica: ReplicaModel, capacity: ReplicaCapacity, startup_seconds: float) -> Stakes:
    """Return the stakes of a replica that carries so much and starts in so many seconds."""
    return Stakes(WORTH[replica.objective] / capacity.per_second, startup_seconds)


def _error(counted: float, seconds: float) -> float:
    return math.sqrt(counted**2 + OWN_ERROR**2 + WANDER_PER_SECOND * seconds)


@lru_cache(maxsize=4096)
def _use(chance: float, error: float) -> float:
    return 1 / (1 + NormalDist().inv_cdf(1 - chance) * error)
