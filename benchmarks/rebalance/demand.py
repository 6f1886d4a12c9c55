"""Demand over time: requests a second as straight lines between points, and the moments at which requests come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, cos, pi, sqrt
from random import Random
from typing import NamedTuple

_SINE_POINTS = 48
"""Straight lines per period of a sine. The rate is then nowhere wrong by more than 0.3 % of the amplitude."""


class Point(NamedTuple):
    """A moment in seconds, and the requests a second at it."""

    at: float
    rate: float


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests a second over time: straight lines between points. Two points at the same moment are a step.

    Raises:
        ValueError: the points go back in time, a rate is negative, or there are fewer than two points.
    """

    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        """Refuse points that are no demand."""
        backwards = any(right.at < left.at for left, right in pairwise(self.points))
        if len(self.points) < len(("a start", "an end")) or backwards or min(point.rate for point in self.points) < 0:
            raise ValueError(f"not a demand over time: {self.points}")

    @property
    def seconds(self) -> float:
        """The time of the last point."""
        return self.points[-1].at

    def rate_at(self, at: float) -> float:
        """Return the requests a second at a moment: after the step where there is one.

        Raises:
            StopIteration: the moment is not within the demand.
        """
        left, right = next(pair for pair in pairwise(self.points) if pair[0].at <= at < pair[1].at)
        return left.rate + (right.rate - left.rate) * (at - left.at) / (right.at - left.at)

    def requests(self) -> float:
        """Return the mean number of requests over the whole time."""
        return sum((right.at - left.at) * (left.rate + right.rate) / 2 for left, right in pairwise(self.points))

    def moments(self, random: Random, burstiness: float = 1.0) -> Iterator[float]:
        """Yield the moments at which requests come, in their order.

        The gaps are gamma distributed around the mean gap of the moment, with ``burstiness`` as their shape, as in
        ``vllm bench serve --burstiness``: 1 is a Poisson process, less comes in bursts, more is more even.
        """
        drawn, done = _gap(random, burstiness), 0.0
        for left, right in pairwise(self.points):
            whole = (right.at - left.at) * (left.rate + right.rate) / 2
            while drawn < done + whole:
                yield left.at + _after(left, right, drawn - done)
                drawn += _gap(random, burstiness)
            done += whole


def _gap(random: Random, burstiness: float) -> float:
    """Return a gap whose mean is 1 request."""
    return random.gammavariate(burstiness, 1 / burstiness)


def _after(left: Point, right: Point, requests: float) -> float:
    """Return the seconds after ``left`` until so many requests have come."""
    slope = (right.rate - left.rate) / (right.at - left.at)
    return 2 * requests / (left.rate + sqrt(max(0.0, left.rate**2 + 2 * slope * requests)))


def constant(rate: float, seconds: float) -> Demand:
    """Return the same demand all the time."""
    return Demand((Point(0, rate), Point(seconds, rate)))


def steps(levels: Sequence[tuple[float, float]], seconds: float) -> Demand:
    """Return demand that jumps: each level is a moment and the rate from then on. The first moment is 0."""
    ends = [at for at, _ in levels[1:]] + [seconds]
    return Demand(
        tuple(Point(moment, rate) for (at, rate), end in zip(levels, ends, strict=True) for moment in (at, end))
    )


def ramps(points: Sequence[tuple[float, float]]) -> Demand:
    """Return demand along straight lines between moments and rates. The first moment is 0."""
    return Demand(tuple(Point(*point) for point in points))


def sine(low: float, high: float, seconds: float, periods: int = 1) -> Demand:
    """Return demand between two rates that begins and ends at the low one."""
    count = _SINE_POINTS * periods
    middle, amplitude = (low + high) / 2, (high - low) / 2
    return Demand(
        tuple(
            Point(seconds * index / count, middle - amplitude * cos(2 * pi * index / _SINE_POINTS))
            for index in range(count + 1)
        )
    )


def noisy(demand: Demand, spread: float, seconds: float) -> Demand:
    """Return demand that is up to ``spread`` of itself more or less, by chance and evenly, anew every so many seconds.

    The noise is part of the demand, and the same for every seed.
    """
    random = Random("noise")  # noqa: S311 - a reproducible draw
    levels = [(at, demand.rate_at(at) * random.uniform(1 - spread, 1 + spread)) for at in _moments(demand, seconds)]
    return steps(levels, demand.seconds)


def _moments(demand: Demand, seconds: float) -> Iterator[float]:
    return (index * seconds for index in range(ceil(demand.seconds / seconds)))


def turns(rate: float, phase_seconds: float, phases: Sequence[bool]) -> Demand:
    """Return demand that comes only in some of a row of equal phases."""
    levels = [(index * phase_seconds, rate if on else 0.0) for index, on in enumerate(phases)]
    return steps(levels, len(phases) * phase_seconds)
