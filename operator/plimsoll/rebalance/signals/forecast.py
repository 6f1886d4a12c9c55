"""The arrivals to expect when a new replica serves: from the days before, and from a steady rise.

The arrivals to expect when a new replica serves, from the days before at the same time of day.
The usual course is the median of the days before that were like today. With seven days, a day counts if at this time of
day it was like the day a week ago, so that a Saturday is expected to be like Saturdays and Sundays. The course is
scaled by how much of it has come today. Days are counted back from now in whole days, so no time zone is needed; a
change of the clocks makes one day wrong by an hour.

Each of these days is forecast from the others. When that erred more than to expect what comes now, there is no
forecast, and a rise within twice the error is no rise.

Libraries of forecasting (statsforecast, statsmodels) were looked at. They bring scipy and pandas, more than the
operator itself, fit a model for each deployment, and know neither of the two checks.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import NamedTuple

FEWEST_POINTS = 12
LEAST_SECONDS = 300.0
"""A rise that is shorter is chance too often."""

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
    """A slope per second, its standard error, and the sum of squares that the line does not explain."""

    rise: float
    error: float
    rest: float


def rise_within(points: Sequence[Point], seconds: float) -> float:
    """Return by how much the arrivals rise in so many seconds; 0 if they do not rise steadily.

    What began lately shows in the later part alone: in the last two thirds, or in the last half.
    """
    parts = (points, points[len(points) // 3 :], points[len(points) // 2 :])
    return seconds * next(filter(None, map(_steady_rise, parts)), 0.0)


def _steady_rise(points: Sequence[Point]) -> float:
    """Return by how much the arrivals rise a second; 0 if they do not rise steadily."""
    if len(points) < FEWEST_POINTS or points[-1].at - points[0].at < LEAST_SECONDS:
        return 0.0
    whole, half = _slope(points), len(points) // 2
    if whole.rise <= SIGNIFICANT * whole.error:
        return 0.0
    is_steady = min(_slope(points[:half]).rise, _slope(points[half:]).rise) >= STEADY_SHARE * whole.rise
    return whole.rise if is_steady and not _is_step(points, whole) else 0.0


def _is_step(points: Sequence[Point], line: _Slope) -> bool:
    """Whether two levels fit the arrivals as well as a line does: a step is over, and does not go on.

    Both have the same number of parameters but one, the moment of the step. The sums of squares are compared as they
    are, so what is about as much a step as a rise counts as a step.
    """
    rates = [point.per_second for point in points]
    total, squares = sum(rates), sum(rate * rate for rate in rates)
    left, least = 0.0, math.inf
    for count, rate in enumerate(rates[:-1], start=1):
        left += rate
        least = min(least, squares - left * left / count - (total - left) ** 2 / (len(rates) - count))
    return least <= line.rest


def _slope(points: Sequence[Point]) -> _Slope:
    count = len(points)
    middle, mean = sum(point.at for point in points) / count, sum(point.per_second for point in points) / count
    spread = sum((point.at - middle) ** 2 for point in points) or math.inf  # all at one moment: no rise
    rise = sum((point.at - middle) * (point.per_second - mean) for point in points) / spread
    rest = sum((point.per_second - mean - rise * (point.at - middle)) ** 2 for point in points)
    return _Slope(rise, math.sqrt(rest / max(1, count - 2) / spread), rest)


STEP_SECONDS = 300.0
"""With 3 requests a second, chance makes a difference of 3 % in a step. Start-ups are as long as a step or longer."""

DAY_STEPS = round(86_400 / STEP_SECONDS)

DAYS = 7
"""So many days are looked at. The newest that is like today may be a week ago."""

KEPT_STEPS = DAYS * DAY_STEPS + DAY_STEPS // 4
"""Of the oldest day, some hours before this time of day count too."""


MOST_PER_SECOND = 1e6
"""More requests a second of one deployment are an impossible number. All sums of smaller ones are numbers."""


@dataclass(frozen=True, slots=True)
class Past:
    """Requests a second by steps. ``rates`` begins with step ``first``, and is NaN if nothing is known.

    The step with the number n ends at n times :data:`STEP_SECONDS`, in POSIX seconds.
    """

    first: int = 0
    rates: array[float] = field(default_factory=lambda: array("d"))

    def at(self, step: int) -> float | None:
        """Return the requests a second in a step; None if they are not known."""
        index = step - self.first
        rate = self.rates[index] if 0 <= index < len(self.rates) else math.nan
        return None if math.isnan(rate) else rate

    def with_points(self, points: Iterable[Point], now: float) -> Past:
        """Return the past with more steps, each given by its end, without those that are too old.

        Steps in the future and rates that cannot be are left out. What is read again replaces what was known.
        """
        last = step_of(now) if math.isfinite(now) else 0
        known = {self.first + index: rate for index, rate in enumerate(self.rates)}
        known |= {round(each.at / STEP_SECONDS): each.per_second for each in points if _is_possible(each)}
        kept = {step: rate for step, rate in known.items() if last - KEPT_STEPS < step <= last and not math.isnan(rate)}
        if not kept:
            return Past()
        first = min(kept)
        return Past(first, array("d", (kept.get(step, math.nan) for step in range(first, max(kept) + 1))))


def step_of(at: float) -> int:
    """Return the number of the last step that has ended by a moment."""
    return math.floor(at / STEP_SECONDS)


def _is_possible(point: Point) -> bool:
    return math.isfinite(point.at) and 0 <= point.per_second <= MOST_PER_SECOND


LEAST_STARTUP_SECONDS = 180.0
"""With shorter start-ups, the arrivals of the last minutes say enough."""

HOUR_STEPS = round(3600 / STEP_SECONDS)

FEWEST_DAYS = 2
"""One day is no rhythm, and nothing could be compared with it."""

KNOWN_SHARE = 0.8
"""The part of the steps around this time of day that must be known of a day."""

LIKE_SHARE = 0.25
"""A day was like another if the differences are below this part of the arrivals."""

PRIOR_SHARE = 0.1
"""The part of the largest usual arrivals that is added to both sides before today is compared with the days before. At
night few requests come, and their ratio is chance."""

MOST_SCALE = 1.25
"""Today is never expected to be busier than the days before by more than this factor."""

LEAST_SCALE = 0.75
"""With less of what is usual, today is another kind of day, such as a holiday, and nothing is expected of it."""

ERRORS = 2.0
"""A rise counts from so many times the mean error of the forecast."""


@dataclass(frozen=True, slots=True)
class Season:
    """The usual course of the arrivals around now and for the next hours.

    Attributes:
        first: the number of the first step of ``rates``; see :class:`plimsoll.rebalance.signals.forecast.Past`.
        rates: usual requests a second in each step.
        today: the requests of the last hour over the usual ones.
        days: how many days these are from.
        error: the mean error of such forecasts, as a part of the arrivals.
    """

    first: int
    rates: tuple[float, ...]
    today: float
    days: int
    error: float

    def at(self, moment: float) -> float | None:
        """Return the usual requests a second at a moment, on straight lines between the middles of steps."""
        place = moment / STEP_SECONDS + 0.5 - self.first
        if not 0 <= place <= len(self.rates) - 1:
            return None
        left = min(int(place), len(self.rates) - 2)
        return self.rates[left] + (self.rates[left + 1] - self.rates[left]) * (place - left)


@dataclass(frozen=True, slots=True)
class Expected:
    """The most requests a second to expect until a while from now, and when: ``at`` is in POSIX seconds.

    ``days`` and ``error`` are those of the season.
    """

    per_second: float
    at: float
    days: int
    error: float


class _Trial(NamedTuple):
    """Arrivals, the error of a forecast of them, and the error of expecting no change, in requests a second."""

    came: float
    error: float
    unchanged: float


def expected_within(season: Season, now: float, seconds: float, current: float) -> Expected | None:
    """Return the most arrivals to expect within so many seconds and one step more; None if they do not rise.

    ``current`` are the requests a second that come now. If less has come than usual, in the last hour or now, as
    much less is expected.
    """
    usual_now = season.at(now)
    moments = [now + index * STEP_SECONDS for index in range(math.ceil(max(0.0, seconds) / STEP_SECONDS) + 2)]
    course = [(rate, moment) for moment in moments if (rate := season.at(moment)) is not None]
    if usual_now is None or len(course) < len(moments):
        return None
    peak, at = max(course, key=lambda each: (each[0], -each[1]))
    scale = min(season.today, scale_of(current, usual_now, max(season.rates)))
    rate = peak * scale
    if scale < LEAST_SCALE or rate * (1 - ERRORS * season.error) <= current:
        return None
    return Expected(rate, at, season.days, season.error)


def scale_of(came: float, usual: float, largest: float) -> float:
    """Return how much of what is usual has come, 0 to :data:`MOST_SCALE`. ``largest`` is usual at the busiest time."""
    prior = PRIOR_SHARE * largest
    return min(MOST_SCALE, (came + prior) / (usual + prior)) if usual + prior > 0 else 0.0


def season_of(past: Past, now: float, startup_seconds: float, seconds: float) -> Season | None:
    """Return the season at a moment. It says what is usual within so many seconds, and is good for an hour.

    None if there are too few days, if too little of them is known, or if forecasts for a start-up from now
    would have erred more than to expect no change.
    """
    here, around, lead = step_of(now), _around(now, startup_seconds, seconds), _lead(startup_seconds)
    lags = _days_like_today(past, around)
    usual = _usual(past, around, lags)
    error = _error([each for day in lags for each in _tried(past, day, lags, around, lead)])
    today = _scale(past, usual, here)
    course = range(here - 1, around.stop)
    if len(lags) < FEWEST_DAYS or error is None or today is None or any(step not in usual for step in course):
        return None
    return Season(course.start, tuple(usual[step] for step in course), today, len(lags), error)


def days_known(past: Past, now: float, startup_seconds: float, seconds: float) -> int:
    """Return of how many days before enough is known for :func:`season_of`."""
    return len(_known(past, _around(now, startup_seconds, seconds)))


def _around(now: float, startup_seconds: float, seconds: float) -> range:
    here = step_of(now)
    return range(here - 2 * HOUR_STEPS, here + HOUR_STEPS + max(_lead(startup_seconds), _lead(seconds)) + 3)


def _lead(seconds: float) -> int:
    return max(1, math.ceil(seconds / STEP_SECONDS))


def _known(past: Past, around: range) -> dict[int, dict[int, float]]:
    """Return the courses of the days of which enough is known, by how many days ago they were."""
    courses = {day: _course(past, around, day) for day in range(1, DAYS + 1)}
    return {day: course for day, course in courses.items() if len(course) >= KNOWN_SHARE * len(around)}


def _days_like_today(past: Past, around: range) -> list[int]:
    known = _known(past, around)
    if DAYS not in known:
        return list(known)
    return [day for day, course in known.items() if _are_alike(course, known[DAYS])]


def _course(past: Past, around: range, lag: int) -> dict[int, float]:
    """Return the rates of so many days ago by the steps of today, if they are known.

    Each is the mean of a step and its neighbours: chance makes a difference of single steps.
    """
    found = {}
    for step in around:
        shifted = step - lag * DAY_STEPS
        near = [rate for each in (shifted - 1, shifted, shifted + 1) if (rate := past.at(each)) is not None]
        if near:
            found[step] = fmean(near)
    return found


def _are_alike(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    steps = one.keys() & other.keys()
    total = sum(one[step] + other[step] for step in steps) / 2
    return sum(abs(one[step] - other[step]) for step in steps) <= LIKE_SHARE * total


def _usual(past: Past, around: range, lags: Sequence[int]) -> dict[int, float]:
    """Return the median of these days for each step of which anything is known."""
    courses = [_course(past, around, lag) for lag in lags]
    by_step = {step: [course[step] for course in courses if step in course] for step in around}
    return {step: median(rates) for step, rates in by_step.items() if rates}


def _scale(past: Past, usual: Mapping[int, float], here: int) -> float | None:
    """Return how much of the usual arrivals came in the hour before; None if less than half of it is known."""
    steps = range(here - HOUR_STEPS + 1, here + 1)
    both = [(came, usual[step]) for step in steps if step in usual and (came := past.at(step)) is not None]
    if len(both) < HOUR_STEPS / 2:
        return None
    return scale_of(fmean(came for came, _ in both), fmean(rate for _, rate in both), max(usual.values()))


def _tried(past: Past, day: int, lags: Sequence[int], around: range, lead: int) -> Iterator[_Trial]:
    """Yield the forecasts of a day from the others, an hour before and after this time of day."""
    shift, here = day * DAY_STEPS, around.start + 2 * HOUR_STEPS
    shifted = range(around.start - shift, around.stop - shift)
    usual = _usual(past, shifted, [other - day for other in lags if other != day])
    for step in range(here - HOUR_STEPS - shift, here + HOUR_STEPS - shift):
        came, before, scale = past.at(step + lead), past.at(step), _scale(past, usual, step)
        if came is not None and before is not None and scale is not None and step + lead in usual:
            yield _Trial(came, abs(usual[step + lead] * scale - came), abs(before - came))


def _error(tried: Sequence[_Trial]) -> float | None:
    """Return the mean error as a part of the arrivals; None if to expect no change would have been better."""
    came, error = sum(each.came for each in tried), sum(each.error for each in tried)
    if came <= 0 or error > sum(each.unchanged for each in tried):
        return None
    return error / came
