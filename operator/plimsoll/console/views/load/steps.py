"""The absolute steps in which loads are drawn. A step has a word and a level, so that none is known by colour alone."""

from __future__ import annotations

import math
from enum import IntEnum


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
        return _WORDS[self]

    @property
    def css(self) -> str:
        """The class of the step's colour and pattern."""
        return _CLASSES[self]


TOO_MUCH_FROM = 0.8
"""The share from which a load is too much: what is left does not hold a burst."""

FULL_FROM = 0.995
"""The share from which a load is full: 100 % in whole percent."""

_BOUNDS = (
    (0.3, LoadStep.BELOW_30),
    (0.5, LoadStep.BELOW_50),
    (0.7, LoadStep.BELOW_70),
    (TOO_MUCH_FROM, LoadStep.BELOW_80),
    (0.9, LoadStep.TOO_MUCH),
    (FULL_FROM, LoadStep.BELOW_FULL),
)

_WORDS = {
    LoadStep.UNKNOWN: "no samples",
    LoadStep.BELOW_30: "below 30 %",
    LoadStep.BELOW_50: "30 to 50 %",
    LoadStep.BELOW_70: "50 to 70 %",
    LoadStep.BELOW_80: "70 to 80 %",
    LoadStep.TOO_MUCH: "80 to 90 %: too much",
    LoadStep.BELOW_FULL: "over 90 %",
    LoadStep.FULL: "full",
}

_CLASSES = {
    LoadStep.UNKNOWN: "load-unknown",
    LoadStep.BELOW_30: "load-30",
    LoadStep.BELOW_50: "load-50",
    LoadStep.BELOW_70: "load-70",
    LoadStep.BELOW_80: "load-80",
    LoadStep.TOO_MUCH: "load-90",
    LoadStep.BELOW_FULL: "load-100",
    LoadStep.FULL: "load-full",
}


def step_of(share: float | None) -> LoadStep:
    """Return the step of a share of 1. What cannot be a share, such as NaN or a negative number, is unknown."""
    if share is None or not 0 <= share < math.inf:
        return LoadStep.UNKNOWN
    return next((step for bound, step in _BOUNDS if share < bound), LoadStep.FULL)
