"""The cost of a plan: its bill, the proven least bill for its replicas, and the price of starting one anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Appraisal:
    """How good the new placements of a pass are together.

    Attributes:
        solver: what found them.
        bill: US dollars an hour of all replicas that the solver placed. A mix of GPU types, an fp8 KV cache by
            permission and the time that users wait count with their charges.
        bound: the proven least bill for the same replicas; None where nothing was proven.
        deployments: the number of deployments that were decided together.
        seniority_price: how many replicas fewer would wait if age did not count within a priority; 0 if all have a
            place or age does not count, None if that is not known.
    """

    solver: str
    bill: float
    bound: float | None
    deployments: int
    seniority_price: int | None = 0

    def with_(self, other: Appraisal) -> Appraisal:
        """Return the appraisal of both placements together, if they were decided one after the other."""
        bound = None if self.bound is None or other.bound is None else self.bound + other.bound
        prices = self.seniority_price, other.seniority_price
        price = None if prices[0] is None or prices[1] is None else prices[0] + prices[1]
        return Appraisal(self.solver, self.bill + other.bill, bound, self.deployments + other.deployments, price)

    def in_any_size(self, least: float) -> Appraisal:
        """Return the appraisal where each deployment chose its size alone: another size may cost less.

        Args:
            least: US dollars an hour that all replicas cost at least, in any size. A bill below it is one of fewer
                replicas, of which nothing is proven.
        """
        proven = None if self.bill < least - 1e-6 else min(least, least if self.bound is None else self.bound)
        return replace(self, bound=proven)

    @property
    def gap(self) -> float | None:
        """The part of the bill that a better plan might save at most; None if nothing was proven."""
        if self.bound is None:
            return None
        return 0.0 if self.bill <= 0 else max(0.0, 1 - self.bound / self.bill)


LEAST_SECONDS = 180
"""The least time that a move is charged for, whatever the start-up: people and caches need time to settle, too. With
three minutes, a solver that may move what runs makes a fifth to a half of the moves at the same bill."""

_SECONDS_PER_HOUR = 3600


def move_charge(hourly_price: Decimal | None, startup_seconds: float | None = None) -> Decimal:
    """Return US dollars for one move of a replica. A start-up that nobody has seen counts nothing."""
    seconds = LEAST_SECONDS + round(startup_seconds or 0.0)
    return (hourly_price or Decimal(0)) * seconds / _SECONDS_PER_HOUR
