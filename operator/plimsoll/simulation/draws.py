"""Numbers that look as if drawn by chance, and follow from a seed alone: the same in every release of Python.

The core imports no ``random``, so that nothing of it depends on a hidden state. Requests that come evenly would need
less room than real ones, which come in bunches. So the simulator draws, with SplitMix64 (Steele, Lea and Flood, "Fast
Splittable Pseudorandom Number Generators", OOPSLA 2014): number ``n`` of a seed is a hash of both.

Chance as a value that is given: the core throws no dice of its own.

``random.Random`` is one, and :class:`~plimsoll.simulation.draws.Draws` is another one that needs nothing of Python's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import cos, log, pi, sqrt
from typing import Final, Protocol, TypeVar

T = TypeVar("T")

_MASK: Final = 2**64 - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB
_MANTISSA_BITS: Final = 53


def mixed(number: int) -> int:
    """Return 64 bits that depend on every bit of a number."""
    bits = number & _MASK
    bits = ((bits ^ (bits >> 30)) * _FIRST) & _MASK
    bits = ((bits ^ (bits >> 27)) * _SECOND) & _MASK
    return bits ^ (bits >> 31)


def seed_for(seed: int, purpose: str) -> int:
    """Return a seed of its own for a purpose, so that draws for one do not shift those for another."""
    found = mixed(seed + _GOLDEN)
    for letter in purpose.encode():
        found = mixed(found + letter + _GOLDEN)
    return found


@dataclass(slots=True)
class Draws:
    """A :class:`~plimsoll.simulation.draws.Chance` that counts its draws from a seed."""

    seed: int
    _count: int = field(default=0, init=False)

    def unit(self) -> float:
        """Return a number from 0 to 1, and never 1."""
        self._count += 1
        return float(mixed(self.seed + self._count * _GOLDEN) >> (64 - _MANTISSA_BITS)) / float(2**_MANTISSA_BITS)

    def uniform(self, least: float, most: float, /) -> float:
        """Return a number between two others, evenly."""
        return least + (most - least) * self.unit()

    def choice(self, among: Sequence[T], /) -> T:
        """Return one of a sequence. Raises IndexError when it is empty."""
        return among[int(self.unit() * len(among))]

    def sample(self, among: Sequence[T], count: int, /) -> list[T]:
        """Return so many different ones of a sequence; all of it if it has no more."""
        left = list(among)
        return [left.pop(int(self.unit() * len(left))) for _ in range(min(count, len(left)))]

    def gap(self) -> float:
        """Return the time between two events that come once in a unit of time on average, by chance (Poisson)."""
        return -log(1.0 - self.unit())

    def normal(self) -> float:
        """Return a number around 0 with a standard deviation of 1 (Box and Muller, 1958)."""
        return sqrt(2 * self.gap()) * cos(2 * pi * self.unit())


class Chance(Protocol):
    """Draws that are made by chance, or look as if they were."""

    def uniform(self, least: float, most: float, /) -> float:
        """Return a number between two others, evenly."""

    def choice(self, among: Sequence[T], /) -> T:
        """Return one of a sequence. Raises IndexError when it is empty."""

    def sample(self, among: Sequence[T], count: int, /) -> list[T]:
        """Return so many different ones of a sequence."""
