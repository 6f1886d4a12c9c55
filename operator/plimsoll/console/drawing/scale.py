"""Bytes to picture units: one scale for all GPUs of a page, so that lengths can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.domain.units import GIB

_STEPS = (1, 2, 4, 8, 16, 32, 64, 128)
_MOST_TICKS = 7


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on a scale, with its words."""

    at: float
    words: str


@dataclass(frozen=True, slots=True)
class Scale:
    """``length`` picture units stand for ``most`` bytes."""

    most: int
    length: float

    def at(self, size: float) -> float:
        """Return the place of a size, at most the whole length."""
        return round(min(self.length, max(0.0, size / self.most * self.length)), 2) if self.most else 0.0

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Marks at round numbers of GiB."""
        top = self.most / GIB
        step = next((each for each in _STEPS if top / each <= _MOST_TICKS), _STEPS[-1])
        return tuple(Tick(self.at(at * GIB), f"{at}") for at in range(0, int(top) + 1, step))


def common_scale(sizes: Iterable[int], length: float) -> Scale:
    """Return the scale on which the largest of the sizes has the whole length."""
    return Scale(max(sizes, default=0), length)
