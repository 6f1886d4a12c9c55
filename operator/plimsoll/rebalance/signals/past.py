"""The arrivals of the last days in equal steps, as a source that keeps samples has them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from plimsoll.rebalance.signals.trend import Point

STEP_SECONDS = 300.0
"""With 3 requests a second, chance makes a difference of 3 % in a step. Start-ups are as long as a step or longer."""

DAY_STEPS = round(86_400 / STEP_SECONDS)

DAYS = 7
"""So many days are looked at. The newest that is like today may be a week ago."""

KEPT_STEPS = DAYS * DAY_STEPS + DAY_STEPS // 4
"""Of the oldest day, some hours before this time of day count too."""


MOST_PER_SECOND = 1e6
"""More requests a second of one deployment are an impossible number. All sums of smaller ones are numbers."""


@dataclass(frozen=True, slots=True)
class Past:
    """Requests a second by steps. ``rates`` begins with step ``first``, and is NaN where nothing is known.

    The step with the number n ends at n times :data:`STEP_SECONDS`, in POSIX seconds.
    """

    first: int = 0
    rates: array[float] = field(default_factory=lambda: array("d"))

    def at(self, step: int) -> float | None:
        """Return the requests a second in a step; None where they are not known."""
        index = step - self.first
        rate = self.rates[index] if 0 <= index < len(self.rates) else math.nan
        return None if math.isnan(rate) else rate

    def with_points(self, points: Iterable[Point], now: float) -> Past:
        """Return the past with more steps, each given by its end, without those that are too old.

        Steps in the future and rates that cannot be are left out. What is read again replaces what was known.
        """
        last = step_of(now) if math.isfinite(now) else 0
        known = {self.first + index: rate for index, rate in enumerate(self.rates)}
        known |= {round(each.at / STEP_SECONDS): each.per_second for each in points if _is_possible(each)}
        kept = {step: rate for step, rate in known.items() if last - KEPT_STEPS < step <= last and not math.isnan(rate)}
        if not kept:
            return Past()
        first = min(kept)
        return Past(first, array("d", (kept.get(step, math.nan) for step in range(first, max(kept) + 1))))


def step_of(at: float) -> int:
    """Return the number of the last step that has ended by a moment."""
    return math.floor(at / STEP_SECONDS)


def _is_possible(point: Point) -> bool:
    return math.isfinite(point.at) and 0 <= point.per_second <= MOST_PER_SECOND
