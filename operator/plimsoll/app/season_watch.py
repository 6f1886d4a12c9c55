"""The days before of each object, read bit by bit where Prometheus has them, and the season that they show.

A question is about one day at most, so that it costs a server little. The first one is about the last day; then one day
after the other is added, and from then on only what is new is read. What was read is kept in memory only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from plimsoll.domain.keys import ObjectKey
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.rebalance.past import KEPT_STEPS, STEP_SECONDS, Past
from plimsoll.rebalance.season import LEAST_STARTUP_SECONDS, Season, season_of
from plimsoll.rebalance.trend import Point

EVERY_SECONDS = 600.0
"""How often what is new is read: two steps."""

FILLING_SECONDS = 60.0
"""The time between two questions until all days are known."""

PATIENCE_SECONDS = 1800.0
"""So long nothing is asked after no answer."""

DAY_SECONDS = 86_400.0

OVERLAP_SECONDS = 2 * STEP_SECONDS
"""How much of what is known is read again: samples may arrive late."""


@dataclass(frozen=True, slots=True)
class DaysWanted:
    """Whose days to read, and what for.

    ``workloads`` are the names of the object's Deployments. ``startup_seconds`` is its longest start-up, and
    ``ahead_seconds`` is how far ahead the season must reach.
    """

    workloads: tuple[str, ...]
    startup_seconds: float
    ahead_seconds: float


@runtime_checkable
class PastReader(Protocol):
    """A source that keeps samples for days. A failure is no answer."""

    def arrivals_before(
        self, namespace: str, workloads: Collection[str], metrics: EngineMetrics, *, until: float, seconds: float
    ) -> list[Point] | None:
        """Return the requests a second in each step of the time that ends at ``until`` (POSIX seconds).

        They are those of all pods of the Deployments, also of pods that are gone. None where the source does not say.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read of one object: all from ``begin`` to ``end``, in POSIX seconds."""

    past: Past
    begin: float
    end: float
    asked_at: float
    next_at: float
    season: Season | None = None

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

    def after(self, points: list[Point], begin: float, end: float, now: float) -> _Known:
        """Return it with what was read. A hole that is longer than a day is none that later questions would close."""
        has_hole = begin > self.end or end < self.begin
        known = replace(self, begin=begin if has_hole else min(begin, self.begin), end=max(end, self.end))
        pause = EVERY_SECONDS if known.is_whole(now) else FILLING_SECONDS
        return replace(known, past=self.past.with_points(points, now), asked_at=now, next_at=now + pause)


_NOTHING = _Known(Past(), 0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class SeasonWatch:
    """What is known by object. Each object is asked about by one thread at a time."""

    known: dict[ObjectKey, _Known] = field(default_factory=dict)

    def season(
        self, reader: object, key: ObjectKey, wanted: DaysWanted | None, metrics: EngineMetrics, now: float, skew: float
    ) -> Season | None:
        """Return the season of an object; None where start-ups are short, or the source does not know the days before.

        Args:
            reader: the source of signals.
            key: the object.
            wanted: what to read; None: nothing.
            metrics: the names that its engine uses.
            now: POSIX seconds.
            skew: how far the source's clock is ahead, in seconds.
        """
        if wanted is None or wanted.startup_seconds < LEAST_STARTUP_SECONDS or not wanted.workloads:
            return None
        if not isinstance(reader, PastReader):
            return None
        known = self.known.get(key, _NOTHING)
        if known.is_due(now):
            known = self.known[key] = self._asked(reader, key, wanted, metrics, known, now, skew)
        return known.season

    @staticmethod
    def _asked(
        reader: PastReader,
        key: ObjectKey,
        wanted: DaysWanted,
        metrics: EngineMetrics,
        known: _Known,
        now: float,
        skew: float,
    ) -> _Known:
        begin, end = known.question(now)
        points = reader.arrivals_before(
            key.namespace, wanted.workloads, metrics, until=end + skew, seconds=max(STEP_SECONDS, end - begin)
        )
        if points is None:
            return replace(known, asked_at=now, next_at=now + PATIENCE_SECONDS)
        shifted = [Point(each.at - skew, each.per_second) for each in points]
        after = known.after(shifted, begin, end, now)
        return replace(after, season=season_of(after.past, now, wanted.startup_seconds, wanted.ahead_seconds))
