"""A steady rise of the arrivals, and by how much they will have risen when a new replica serves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

FEWEST_POINTS = 12
LEAST_SECONDS = 300.0
"""A shorter rise may be a step, and a step does not go on."""

SIGNIFICANT = 3.0
"""A rise counts from so many standard errors of its slope."""

STEADY_SHARE = 0.3
"""Both halves of the time must rise by at least this part of the whole slope. After a step, one half is flat."""


class Point(NamedTuple):
    """Arrivals a second at a moment in POSIX seconds."""

    at: float
    per_second: float


@dataclass(frozen=True, slots=True)
class _Slope:
    """A slope per second, and its standard error."""

    rise: float
    error: float


def rise_within(points: Sequence[Point], seconds: float) -> float:
    """Return by how much the arrivals rise in so many seconds; 0 where they do not rise steadily."""
    if len(points) < FEWEST_POINTS or points[-1].at - points[0].at < LEAST_SECONDS:
        return 0.0
    whole, half = _slope(points), len(points) // 2
    if whole.rise <= SIGNIFICANT * whole.error:
        return 0.0
    is_steady = min(_slope(points[:half]).rise, _slope(points[half:]).rise) >= STEADY_SHARE * whole.rise
    return whole.rise * seconds if is_steady else 0.0


def _slope(points: Sequence[Point]) -> _Slope:
    """Return the slope of the line with the least squares."""
    count = len(points)
    middle, mean = sum(point.at for point in points) / count, sum(point.per_second for point in points) / count
    spread = sum((point.at - middle) ** 2 for point in points)
    if spread <= 0:
        return _Slope(0.0, math.inf)
    rise = sum((point.at - middle) * (point.per_second - mean) for point in points) / spread
    rest = sum((point.per_second - mean - rise * (point.at - middle)) ** 2 for point in points)
    return _Slope(rise, math.sqrt(rest / max(1, count - 2) / spread))
