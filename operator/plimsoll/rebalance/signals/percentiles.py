"""Percentiles of the engines' times, from the buckets of their histograms.

A histogram counts the values up to each of its bounds. The percentile lies in the bucket in which the count reaches it,
and is read from a straight line between the bounds of that bucket, as Prometheus' ``histogram_quantile`` does it
(https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile; ``promql/quantile.go``): the first
bucket begins at 0, and of the last one, which has no upper bound, its lower bound is returned.

What is not known for sure is unknown, and no verdict follows from it: a pod without buckets, a histogram without an
upper bound of +Inf or with counts that cannot be, and fewer values than a percentile needs.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import add, attrgetter, le, sub

from plimsoll.rebalance.signals import tracks
from plimsoll.rebalance.signals.metrics import Buckets, EngineSample
from plimsoll.rebalance.signals.tracks import Read, Track

ReadBuckets = Callable[[EngineSample], Buckets | None]
"""One histogram of a sample."""


@dataclass(frozen=True, slots=True)
class MeasuredTime:
    """A time of requests: its histogram, and the counters of its values and of their sum."""

    buckets: ReadBuckets
    count: Read
    total: Read


FIRST_TOKEN = MeasuredTime(attrgetter("first_token_buckets"), tracks.FIRST_TOKENS, tracks.TTFT_SECONDS)
TOKEN = MeasuredTime(attrgetter("token_gap_buckets"), tracks.GAPS, tracks.GAP_SECONDS)

FEWEST_BEYOND = 3
"""So many values must lie beyond a percentile (60 in all for p95): with fewer, one slow request would be it."""

_WHOLE = 100


@dataclass(frozen=True, slots=True)
class Percentile:
    """A percentile in ``seconds``. ``is_least``: it is more than that, because it is above the last bound.

    ``mean`` is that of the same values in seconds; None: not known.
    """

    seconds: float
    is_least: bool = False
    mean: float | None = None

    def over(self, promised: float) -> float | None:
        """Return the seconds to compare with a promise; None if the buckets end below both."""
        return None if self.is_least and self.seconds <= promised else self.seconds


def buckets_of(counts: Mapping[float, float]) -> Buckets | None:
    """Return the buckets with these counts by upper bound; None if they cannot be one scrape of a histogram."""
    bounds = tuple(sorted(counts))
    values = tuple(counts[bound] for bound in bounds)
    is_whole = len(bounds) > 1 and bounds[-1] == math.inf and not any(map(math.isnan, bounds))
    if not is_whole or not all(map(le, (0.0, *values), (*values, math.inf))) or not math.isfinite(values[-1]):
        return None
    return Buckets(bounds, values)


def quantile(percentile: int, found: Buckets) -> Percentile | None:
    """Return a percentile of counted values; None if there are fewer than it needs.

    Args:
        percentile: 1 to 99.
        found: the counts of the values in question, and not those since the engine began.
    """
    total = found.counts[-1]
    if total * (_WHOLE - percentile) < FEWEST_BEYOND * _WHOLE:
        return None
    rank = total * percentile / _WHOLE
    index = bisect_left(found.counts, rank)
    if index == len(found.bounds) - 1:
        return Percentile(found.bounds[-2], is_least=True)
    begin, below = (found.bounds[index - 1], found.counts[index - 1]) if index else (0.0, 0.0)
    end = found.bounds[index]
    if end <= 0:
        return Percentile(end)
    return Percentile(begin + (end - begin) * (rank - below) / (found.counts[index] - below))


def percentile_of(
    pods: Sequence[Track], time: MeasuredTime, percentile: int, windows: Iterable[float], end: float
) -> Percentile | None:
    """Return a percentile over the shortest of some times in which enough values came; None if it is unknown.

    Args:
        pods: their tracks.
        time: which one. A pod with such times and without buckets makes the percentile unknown.
        percentile: 50, 95 or 99.
        windows: the times in seconds, the shortest first.
        end: the moment up to which is counted, POSIX seconds.
    """
    lines = [(track, _line(track, time.buckets)) for track in pods]
    for seconds in windows:
        begin, parts = end - seconds, list[Buckets]()
        for track, line in lines:
            if line is not None:
                parts.append(line.between(begin, end))
            elif track.grown(time.count, begin, end):
                return None
        found = _added(parts)
        value = None if found is None else quantile(percentile, found)
        if value is not None:
            return replace(value, mean=_mean(pods, time, begin, end))
    return None


def _mean(pods: Sequence[Track], time: MeasuredTime, begin: float, end: float) -> float | None:
    """Return the mean of the pods that count both the times and their sum; None if there is no value."""
    each = [(track.grown(time.total, begin, end), track.grown(time.count, begin, end)) for track in pods]
    known = [(total, count) for total, count in each if total is not None and count is not None]
    count = sum(count for _, count in known)
    return sum(total for total, _ in known) / count if count > 0 else None


@dataclass(frozen=True, slots=True)
class _Line:
    """The counts of one pod's histogram over time, without resets: a row for each moment."""

    times: Sequence[float]
    bounds: tuple[float, ...]
    rows: Sequence[tuple[float, ...]]

    def between(self, begin: float, end: float) -> Buckets:
        """Return the values that came between two moments."""
        pairs = zip(self._at(begin), self._at(end), strict=True)
        return Buckets(self.bounds, tuple(after - before for before, after in pairs))

    def _at(self, moment: float) -> tuple[float, ...]:
        right = bisect_right(self.times, moment)
        if right == 0 or right == len(self.times):
            return self.rows[-1 if right else 0]
        part = (moment - self.times[right - 1]) / (self.times[right] - self.times[right - 1])
        return tuple(
            low + part * (high - low) for low, high in zip(self.rows[right - 1], self.rows[right], strict=True)
        )


def _line(track: Track, read: ReadBuckets) -> _Line | None:
    """Return the line of a pod; None if it has none.

    Only bounds that all of its scrapes have count: their counts are exact whatever other bounds there were. If one
    count fell, the engine began again, and all of its counts began at zero.
    """
    known = [(sample.at, found) for sample in track.samples if (found := read(sample)) is not None]
    bounds = tuple(sorted(set.intersection(*(set(found.bounds) for _, found in known)))) if known else ()
    if len(bounds) < 2:  # noqa: PLR2004 - the last one has no upper bound
        return None
    times, counts = [at for at, _ in known], [_only(bounds, found) for _, found in known]
    if track.is_new and track.begins_at < times[0]:
        times, counts = [track.begins_at, *times], [(0.0,) * len(bounds), *counts]
    rows = [(0.0,) * len(bounds)]
    for earlier, later in pairwise(counts):
        grown = map(sub, later, earlier) if all(map(le, earlier, later)) else later
        rows.append(tuple(map(add, rows[-1], grown)))
    return _Line(times, bounds, rows)


def _only(bounds: tuple[float, ...], found: Buckets) -> tuple[float, ...]:
    if bounds == found.bounds:
        return found.counts
    counts = dict(zip(found.bounds, found.counts, strict=True))
    return tuple(counts[bound] for bound in bounds)


def _added(parts: Sequence[Buckets]) -> Buckets | None:
    """Add histograms up, at the bounds that all of them have; None if that is none but +Inf."""
    bounds = tuple(sorted(set.intersection(*(set(each.bounds) for each in parts)))) if parts else ()
    if len(bounds) < 2:  # noqa: PLR2004 - as above
        return None
    return Buckets(bounds, tuple(map(math.fsum, zip(*(_only(bounds, each) for each in parts), strict=True))))
