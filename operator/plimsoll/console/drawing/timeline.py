"""Figures over time as paths: an area, a line, or steps, with marks where something happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plimsoll.console.drawing.bar import Tick, ticks_of

WIDTH = 900.0
HEIGHT = 90.0
"""Units of a drawing without its words; the page scales it."""

_MINUTE = 60
_TICK_MINUTES = (1, 2, 5, 10, 15, 30, 60)
_MOST_TICKS = 12


@dataclass(frozen=True, slots=True)
class Axis:
    """``seconds`` are as wide as the drawing."""

    seconds: float

    def at(self, moment: float) -> float:
        """Return where a moment is drawn."""
        return round(WIDTH * min(1.0, max(0.0, moment / self.seconds)), 1) if self.seconds > 0 else 0.0

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Marks at round numbers of minutes."""
        return ticks_of(self.seconds / _MINUTE, _TICK_MINUTES, _MOST_TICKS, lambda each: self.at(each * _MINUTE))


@dataclass(frozen=True, slots=True)
class Curve:
    """The data of an SVG path, and its class."""

    css: str
    path: str


def area(axis: Axis, moments: Sequence[float], values: Sequence[float], most: float, css: str) -> Curve:
    """Return the area below values; ``most`` is as high as the drawing."""
    if not moments:
        return Curve(css, "")
    points = " ".join(_points(axis, moments, values, most))
    return Curve(css, f"M{axis.at(moments[0])} {HEIGHT:g}L{points} {axis.at(moments[-1])} {HEIGHT:g}z")


def line(axis: Axis, moments: Sequence[float], values: Sequence[float], most: float, css: str) -> Curve:
    """Return the line through values."""
    points = " ".join(_points(axis, moments, values, most))
    return Curve(css, f"M{points}" if points else "")


def steps(axis: Axis, moments: Sequence[float], values: Sequence[float], most: float, css: str) -> Curve:
    """Return a line that keeps each value until the next moment."""
    if not moments:
        return Curve(css, "")
    parts = [f"M{axis.at(moments[0])} {_height(values[0], most)}"]
    for moment, value in zip(moments[1:], values[1:], strict=True):
        parts.append(f"H{axis.at(moment)}V{_height(value, most)}")
    return Curve(css, "".join(parts))


def _points(axis: Axis, moments: Sequence[float], values: Sequence[float], most: float) -> Iterator[str]:
    for moment, value in zip(moments, values, strict=True):
        yield f"{axis.at(moment)} {_height(value, most)}"


def _height(value: float, most: float) -> float:
    share = min(1.0, max(0.0, value / most)) if most > 0 else 0.0
    return round(HEIGHT * (1 - share), 1)
