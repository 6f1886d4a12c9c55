"""The geometry of errors around 0 %: a dot for each, on one scale for all groups of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 240
HEIGHT = 24
EDGE = 6
"""Free units at both ends, so that a dot at the end is whole."""

LEAST_REACH_PERMILLE = 100
"""The scale reaches at least to 10 % on either side, so that small errors look small."""

MOST_REACH_PERMILLE = 1000
"""And at most to 100 %. Larger errors stand at the end as a triangle."""


@dataclass(frozen=True, slots=True)
class Dot:
    """An error. ``is_beyond`` means that it is off the scale; its place is the end."""

    x: float
    y: float
    permille: int
    is_beyond: bool = False


@dataclass(frozen=True, slots=True)
class ErrorStrip:
    """A row of dots. ``reach`` is the error at either end, in thousandths; ``zero`` and ``close`` are places."""

    dots: tuple[Dot, ...]
    reach: int
    zero: float
    close: tuple[float, float]
    width: int = WIDTH
    height: int = HEIGHT


def reach_of(errors: Sequence[int]) -> int:
    """Return the error that the scale of a page ends at, in thousandths: the largest one, in steps of 10 %."""
    largest = max((abs(each) for each in errors), default=0)
    return min(max(-(-largest // 100) * 100, LEAST_REACH_PERMILLE), MOST_REACH_PERMILLE)


def error_strip(errors: Sequence[int], reach: int, close: int) -> ErrorStrip:
    """Return the drawing of errors in thousandths.

    Args:
        errors: one for each dot.
        reach: the error at either end.
        close: the error up to which a figure counts as close, drawn as a band around 0.
    """
    return ErrorStrip(
        tuple(_dot(error, turn, reach) for turn, error in enumerate(sorted(errors))),
        reach,
        _place(0, reach),
        (_place(-close, reach), _place(close, reach)),
    )


def _dot(error: int, turn: int, reach: int) -> Dot:
    """Return a dot. Neighbours alternate between three heights, so that equal errors stay visible."""
    shown = max(-reach, min(reach, error))
    return Dot(_place(shown, reach), HEIGHT / 4 * (1 + turn % 3), error, shown != error)


def _place(error: int, reach: int) -> float:
    return round(EDGE + (WIDTH - 2 * EDGE) * (error + reach) / (2 * reach), 1)
