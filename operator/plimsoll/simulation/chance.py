"""Chance as a value that is given: the core throws no dice of its own.

``random.Random`` is one, and :class:`~plimsoll.simulation.draws.Draws` is another one that needs nothing of Python's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Chance(Protocol):
    """Draws that are made by chance, or look as if they were."""

    def uniform(self, least: float, most: float, /) -> float:
        """Return a number between two others, evenly."""

    def choice(self, among: Sequence[T], /) -> T:
        """Return one of a sequence. Raises IndexError when it is empty."""

    def sample(self, among: Sequence[T], count: int, /) -> list[T]:
        """Return so many different ones of a sequence."""
