"""The days before of each object, read bit by bit if Prometheus has them, and the season that they show.

A question is about one day at most, so that it costs a server little. The first one is about the last day; then one day
after the other is added, and from then on only what is new is read. What was read is kept in memory only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from plimsoll.adapters.prometheus.readings import PastReader
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.rebalance.signals.forecast import (
    FEWEST_DAYS,
    KEPT_STEPS,
    LEAST_STARTUP_SECONDS,
    STEP_SECONDS,
    Past,
    Point,
    Season,
    days_known,
    season_of,
)

EVERY_SECONDS = 600.0
"""How often what is new is read: two steps."""

FILLING_SECONDS = 15.0
"""The time between two questions until all days are known. There are eight of them."""

PATIENCE_SECONDS = 1800.0
"""So long nothing is asked after no answer."""

DAY_SECONDS = 86_400.0

OVERLAP_SECONDS = 2 * STEP_SECONDS
"""How much of what is known is read again: samples may arrive late."""


@dataclass(frozen=True, slots=True)
class DaysWanted:
    """The use that an object has for the days before.

    ``startup_seconds`` is its longest start-up, and ``ahead_seconds`` is how far ahead the season must reach.
    """

    startup_seconds: float
    ahead_seconds: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """The season of an object, and why the days before do not show one; empty if nothing is wrong."""

    season: Season | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Known:
    """The arrivals that were read of one object: all from ``begin`` to ``end``, in POSIX seconds."""

    past: Past
    begin: float
    end: float
    asked_at: float
    next_at: float
    outlook: Outlook = Outlook()

    def is_due(self, now: float) -> bool:
        """Whether to ask again: it is time, or the clock was set back."""
        return now >= self.next_at or now < self.asked_at

    def question(self, now: float) -> tuple[float, float]:
        """Return what to read next: first what is new, and then one day before all that is known."""
        if not self.begin < self.end <= now:
            return now - DAY_SECONDS, now
        if now - self.end >= EVERY_SECONDS or self.is_whole(now):
            return max(now - DAY_SECONDS, self.end - OVERLAP_SECONDS), now
        return max(self.begin - DAY_SECONDS, now - KEPT_STEPS * STEP_SECONDS), self.begin + OVERLAP_SECONDS

    def is_whole(self, now: float) -> bool:
        """Whether all days are known that are looked at."""
        return self.begin <= now - KEPT_STEPS * STEP_SECONDS + EVERY_SECONDS

    def after(self, points: Iterable[Point], begin: float, end: float, now: float) -> _Known:
        """Return it with what was read. A hole that is longer than a day is none that later questions would close."""
        has_hole = begin > self.end or end < self.begin
        known = replace(self, begin=begin if has_hole else min(begin, self.begin), end=max(end, self.end))
        pause = EVERY_SECONDS if known.is_whole(now) else FILLING_SECONDS
        return replace(known, past=self.past.with_points(points, now), asked_at=now, next_at=now + pause)


_NOTHING = _Known(Past(), 0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class SeasonWatch:
    """The known days by object. One question is asked at a time, in a thread of its own; nothing else waits for it."""

    known: dict[ObjectKey, _Known] = field(default_factory=dict)

    def outlook(self, key: ObjectKey, wanted: DaysWanted | None) -> Outlook:
        """Return what was found last; nothing if it is not wanted."""
        return self.known.get(key, _NOTHING).outlook if _is_worth_it(wanted) else Outlook()

    def is_due(self, key: ObjectKey, wanted: DaysWanted | None, now: float) -> bool:
        """Whether there is something to ask about an object."""
        return _is_worth_it(wanted) and self.known.get(key, _NOTHING).is_due(now)

    def asked(
        self,
        reader: PastReader,
        key: ObjectKey,
        wanted: DaysWanted,
        metrics: Sequence[EngineMetrics],
        now: float,
        skew: float,
    ) -> _Known:
        """Ask one question about an object for each engine. Return what is known then. Blocks as the source does.

        Args:
            reader: the source of signals.
            key: the object.
            wanted: what the days are wanted for.
            metrics: the names that each of its engines uses. Requests of all of them are added up.
            now: POSIX seconds.
            skew: how far the source's clock is ahead, in seconds.
        """
        known = self.known.get(key, _NOTHING)
        begin, end = known.question(now)
        seconds = max(STEP_SECONDS, end - begin)
        rates = defaultdict[float, float](float)
        for each in metrics:
            answer = reader.arrivals_before(key.namespace, key.name, each, until=end + skew, seconds=seconds)
            if answer.error:
                return _without_answer(known, answer.error, now)
            for point in answer.points:
                rates[point.at] += point.per_second
        shifted = [Point(at - skew, rate) for at, rate in rates.items()]
        return _judged(known.after(shifted, begin, end, now), wanted, now)

    def keep(self, key: ObjectKey, known: _Known | None, now: float) -> None:
        """Keep what is known of an object after a question that was asked at ``now``. None: the source failed."""
        self.known[key] = known or _without_answer(self.known.get(key, _NOTHING), "the question failed", now)


def _is_worth_it(wanted: DaysWanted | None) -> bool:
    """Whether start-ups take so long that the days before help."""
    return wanted is not None and wanted.startup_seconds >= LEAST_STARTUP_SECONDS


def _without_answer(known: _Known, error: str, now: float) -> _Known:
    """Return what is known after a question without an answer. It stays, and nothing is asked for a while."""
    outlook = Outlook(known.outlook.season, f"they cannot be read: {error}")
    return replace(known, outlook=outlook, asked_at=now, next_at=now + PATIENCE_SECONDS)


def _judged(known: _Known, wanted: DaysWanted, now: float) -> _Known:
    season = season_of(known.past, now, wanted.startup_seconds, wanted.ahead_seconds)
    return replace(known, outlook=Outlook(season, _too_few(known, wanted, now)))


def _too_few(known: _Known, wanted: DaysWanted, now: float) -> str:
    """Return how many days are known if they are too few; empty while older ones may still be read."""
    days = days_known(known.past, now, wanted.startup_seconds, wanted.ahead_seconds)
    if days >= FEWEST_DAYS or not known.is_whole(now):
        return ""
    return f"Prometheus has {days} of them, and {FEWEST_DAYS} are needed"
