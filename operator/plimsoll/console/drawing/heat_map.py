"""The geometry of one row of the heat map: a bar for each column, whose height and colour both show the step.

Columns of one step share one path, so that a row of 60 columns is a handful of elements. Heights carry the steps as
colours do: the map is readable without any colour.

The absolute steps in which loads are drawn. A step has a word and a level, so that none is known by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby

from plimsoll.console.drawing.timeline import Curve


class LoadStep(IntEnum):
    """A range of shares of a whole. The number is the level of the drawing: higher is fuller."""

    UNKNOWN = 0
    BELOW_30 = 1
    BELOW_50 = 2
    BELOW_70 = 3
    BELOW_80 = 4
    TOO_MUCH = 5
    BELOW_FULL = 6
    FULL = 7

    @property
    def word(self) -> str:
        """The step in the legend."""
        return _STEPS[self][1]

    @property
    def css(self) -> str:
        """The class of the step's colour and pattern."""
        return _STEPS[self][2]


TOO_MUCH_FROM = 0.8
"""The share from which a load is too much: what is left does not hold a burst."""

FULL_FROM = 0.995
"""The share from which a load is full: 100 % in whole percent."""

_STEPS = {
    LoadStep.UNKNOWN: (0.0, "no samples", "load-unknown"),
    LoadStep.BELOW_30: (0.3, "below 30 %", "load-30"),
    LoadStep.BELOW_50: (0.5, "30 to 50 %", "load-50"),
    LoadStep.BELOW_70: (0.7, "50 to 70 %", "load-70"),
    LoadStep.BELOW_80: (TOO_MUCH_FROM, "70 to 80 %", "load-80"),
    LoadStep.TOO_MUCH: (0.9, "80 to 90 %: too much", "load-90"),
    LoadStep.BELOW_FULL: (FULL_FROM, "over 90 %", "load-100"),
    LoadStep.FULL: (math.inf, "full", "load-full"),
}
"""The share below which a step ends, its word in the legend, and its CSS class."""


def step_of(share: float | None) -> LoadStep:
    """Return the step of a share of 1. What cannot be a share, such as NaN or a negative number, is unknown."""
    if share is None or not 0 <= share < math.inf:
        return LoadStep.UNKNOWN
    return next(step for step, (bound, *_) in _STEPS.items() if share < bound)


COLUMN_WIDTH = 6
"""Units of the drawing; the page scales it."""

LEVEL_HEIGHT = 3
MARK_HEIGHT = 4
"""The height of the marks of a queue, above the bars."""

GAP = 1
"""Free units between two columns of the same run: none. Between the marks and the bars: one."""

BARS_HEIGHT = LEVEL_HEIGHT * max(LoadStep)
HEIGHT = MARK_HEIGHT + GAP + BARS_HEIGHT


@dataclass(frozen=True, slots=True)
class HeatMapStrip:
    """A row of the map, with a band for all columns of a step. ``marks`` is the path of the columns with a queue."""

    width: int
    height: int
    bands: tuple[Curve, ...]
    marks: str = ""

    @property
    def view_box(self) -> str:
        """The attribute of the SVG element."""
        return f"0 0 {self.width} {self.height}"


def strip_of(steps: Sequence[LoadStep], queued: Sequence[bool] = ()) -> HeatMapStrip:
    """Return the drawing of a row.

    Args:
        steps: one for each column, the oldest first.
        queued: whether requests waited in each column; empty if the row has no marks.
    """
    runs = [
        (step, [column for column, _ in group]) for step, group in groupby(enumerate(steps), key=lambda each: each[1])
    ]
    used = sorted({step for step, _ in runs})
    bands = (Curve(step.css, " ".join(_bar(step, columns) for each, columns in runs if each is step)) for step in used)
    marks = " ".join(_mark(column) for column, waits in enumerate(queued) if waits)
    return HeatMapStrip(COLUMN_WIDTH * len(steps), HEIGHT, tuple(bands), marks)


def key_of(step: LoadStep) -> HeatMapStrip:
    """Return the drawing of one step for the legend."""
    return strip_of([step, step])


def mark_key() -> HeatMapStrip:
    """Return the drawing of a queue's mark for the legend."""
    return HeatMapStrip(COLUMN_WIDTH, HEIGHT, (), _mark(0))


def _bar(step: LoadStep, columns: Sequence[int]) -> str:
    """Return a rectangle that stands on the ground. No samples: one over the whole height, which is drawn dashed."""
    height = BARS_HEIGHT if step is LoadStep.UNKNOWN else LEVEL_HEIGHT * step
    left, width = COLUMN_WIDTH * columns[0], COLUMN_WIDTH * len(columns)
    return f"M{left} {HEIGHT - height}h{width}v{height}h-{width}z"


def _mark(column: int) -> str:
    """Return a triangle that points down to its column."""
    return f"M{COLUMN_WIDTH * column} 0h{COLUMN_WIDTH}l-{COLUMN_WIDTH // 2} {MARK_HEIGHT}z"
