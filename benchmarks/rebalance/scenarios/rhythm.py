"""Situations with days before them: a morning that comes every day, and days that differ.

Only some hours around a morning are simulated, at the true speed of a day. Of the days before, the requests a second
are drawn as Prometheus would have them. Each day is a little different: how much comes, and when the morning begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from benchmarks.rebalance.arrivals import Lengths, Stream, drawn
from benchmarks.rebalance.demand import Demand, ramps
from benchmarks.rebalance.engines import sustained_rate
from benchmarks.rebalance.scenarios.situation import Group, Situation
from benchmarks.rebalance.scenarios.tuning import ENGINE, LONG
from benchmarks.rebalance.scenarios.validation import LARGE, WRITER
from benchmarks.rebalance.scraping import STEP_SECONDS
from benchmarks.rebalance.values import EngineSpec, Scenario
from plimsoll.simulation.values import Arrival

MINUTE = 60.0
DAY = 86_400.0

DAYS = 7

LEVEL_SPREAD = 0.08
"""How much more or less comes on a day: the standard deviation."""

MOMENT_SPREAD = 6 * MINUTE
"""How much earlier or later a morning begins: the standard deviation."""

Course = Callable[[Random], Demand]
"""Draws the demand of one day from some hours before the run's first moment of the day to some hours after its last."""

_situation = partial(Situation, group=Group.RHYTHM)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of use on one kind of replica, whose demand is given in replicas."""

    engine: EngineSpec
    lengths: Lengths
    low: float
    high: float

    def rate(self, replicas: float) -> float:
        """Return the requests a second that so many replicas sustain."""
        return replicas * sustained_rate(self.engine, self.lengths.prompt, self.lengths.output)


USUAL = Kind(ENGINE, LONG, low=1.6, high=5.5)
WRITERS = Kind(LARGE, WRITER, low=1.4, high=5.0)

QUIET_SECONDS, CLIMB_SECONDS, HIGH_SECONDS, FALL_SECONDS = 40 * MINUTE, 40 * MINUTE, 40 * MINUTE, 40 * MINUTE
RUN_SECONDS = QUIET_SECONDS + CLIMB_SECONDS + HIGH_SECONDS + FALL_SECONDS + 20 * MINUTE


@dataclass(frozen=True, slots=True)
class Morning:
    """A day that climbs from little to much, stays and falls."""

    kind: Kind

    def __call__(self, random: Random) -> Demand:
        """Draw one day, from midnight of the run's clock to the next one."""
        level = max(0.5, random.gauss(1, LEVEL_SPREAD))
        begin = QUIET_SECONDS + random.gauss(0, MOMENT_SPREAD)
        low, high = level * self.kind.rate(self.kind.low), level * self.kind.rate(self.kind.high)
        top, fall = begin + CLIMB_SECONDS, begin + CLIMB_SECONDS + HIGH_SECONDS
        return ramps(
            ((-DAY / 2, low), (begin, low), (top, high), (fall, high), (fall + FALL_SECONDS, low), (DAY / 2, low))
        )


@dataclass(frozen=True, slots=True)
class Flat:
    """A day without a morning."""

    kind: Kind

    def __call__(self, random: Random) -> Demand:
        """Draw one day."""
        low = max(0.5, random.gauss(1, LEVEL_SPREAD)) * self.kind.rate(self.kind.low)
        return ramps(((-DAY / 2, low), (DAY / 2, low)))


@dataclass(frozen=True, slots=True)
class AnyTime:
    """A day with the same climb at any time of the day."""

    kind: Kind

    def __call__(self, random: Random) -> Demand:
        """Draw one day."""
        low, high = self.kind.rate(self.kind.low), self.kind.rate(self.kind.high)
        begin = random.uniform(-DAY / 2, DAY / 2 - 3 * FALL_SECONDS)
        top, fall = begin + CLIMB_SECONDS, begin + CLIMB_SECONDS + HIGH_SECONDS
        return ramps(
            ((-DAY / 2, low), (begin, low), (top, high), (fall, high), (fall + FALL_SECONDS, low), (DAY / 2, low))
        )


@dataclass(frozen=True, slots=True)
class Days:
    """The days before, by how many days ago, the newest last; and today."""

    before: tuple[Course, ...]
    today: Course
    lengths: Lengths

    def arrivals(self, seed: int) -> tuple[Arrival, ...]:
        """Return the requests of today from the run's first moment."""
        demand = self.today(Random(f"{seed}/today"))  # noqa: S311
        return drawn(Stream(_of_the_run(demand), self.lengths))(seed)

    def past(self, seed: int) -> Sequence[tuple[float, float]]:
        """Return the ends of the steps before the run, and the requests a second in each, with their chance."""
        return tuple(self._steps(seed))

    def _steps(self, seed: int) -> Iterator[tuple[float, float]]:
        random = Random(f"{seed}/past")  # noqa: S311
        for index, course in enumerate(self.before):
            shift = (len(self.before) - index) * DAY
            yield from _rates(course(Random(f"{seed}/{index}")), -DAY / 2, DAY / 2, -shift, random)  # noqa: S311
        yield from _rates(self.today(Random(f"{seed}/today")), -DAY / 2, 0.0, 0.0, random)  # noqa: S311


def _rates(demand: Demand, begin: float, end: float, shift: float, random: Random) -> Iterator[tuple[float, float]]:
    for number in range(round(begin / STEP_SECONDS), round(end / STEP_SECONDS)):
        rate = demand.rate_at((number + 0.5) * STEP_SECONDS)
        came = random.gauss(rate * STEP_SECONDS, (rate * STEP_SECONDS) ** 0.5)
        yield (number + 1) * STEP_SECONDS + shift, max(0.0, came) / STEP_SECONDS


def _of_the_run(demand: Demand) -> Demand:
    """Return the part of a demand that a run measures."""
    within = (point for point in demand.points if 0 < point.at < RUN_SECONDS)
    return ramps(((0.0, demand.rate_at(0.0)), *within, (RUN_SECONDS, demand.rate_at(RUN_SECONDS))))


def rhythm() -> Iterator[Situation]:
    """Yield the situations."""
    for seconds in (300, 600):
        yield _morning(f"MORNING{seconds}", USUAL, seconds)
    yield _morning("V-MORNING", WRITERS, 600)
    yield _of_days(
        "YOUNG600",
        Days((Morning(USUAL),) * 2, Morning(USUAL), LONG),
        "two days are known, and a start takes 600 s",
    )
    yield _of_days(
        "HOLIDAY600",
        Days((Morning(USUAL),) * 7, Flat(USUAL), LONG),
        "every day before had a morning, and today has none: what does the wrong forecast cost?",
    )
    week = (Flat(USUAL), Flat(USUAL), *(Morning(USUAL),) * 5)
    yield _of_days(
        "MONDAY600",
        Days((*(Morning(USUAL),) * 5, Flat(USUAL), Flat(USUAL)), Morning(USUAL), LONG),
        "a Monday after a weekend without mornings: is the week known?",
    )
    yield _of_days(
        "SATURDAY600",
        Days((week[0], week[1], *week[2:]), Flat(USUAL), LONG),
        "a Saturday after five working days, and a Saturday without a morning a week ago: is it taken for a Friday?",
    )
    yield _of_days(
        "ANYTIME600",
        Days((AnyTime(USUAL),) * 7, Morning(USUAL), LONG),
        "each day before had a climb at another time: is chance taken for a rhythm?",
    )


def _morning(name: str, kind: Kind, seconds: float) -> Situation:
    course = Morning(kind)
    days = Days((course,) * DAYS, course, kind.lengths)
    tests = f"a climb of 40 minutes at the same time of all seven days before, and a start takes {seconds:.0f} s"
    return _of_days(name, days, tests, kind, seconds)


def _of_days(name: str, days: Days, tests: str, kind: Kind = USUAL, seconds: float = 600) -> Situation:
    scenario = Scenario(
        name=name,
        engine=kind.engine,
        seconds=RUN_SECONDS,
        start_replicas=2,
        cold_start_seconds=seconds,
        declared_concurrency=64,
        arrivals=days.arrivals,
        past=days.past,
    )
    return _situation(scenario, tests)
