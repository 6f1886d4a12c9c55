"""The metrics of one engine as lines over time, so that engines that are scraped at different moments can be added.

Between two scrapes a value is read from a straight line. An engine begins at zero when its pod begins to serve.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from plimsoll.rebalance.signals.metrics import COUNTS, EngineSample, counts_of

T = TypeVar("T")
K = TypeVar("K")

Read = int
"""One figure of a sample: its place among :data:`~plimsoll.rebalance.signals.metrics.COUNTS`."""

NEW_SECONDS = 180.0
"""A pod whose first sample is at most so much younger than its readiness is counted from zero; others were before."""


class TimeSeries(NamedTuple):
    """A figure over time: at least one moment, in order, and the value at each."""

    times: Sequence[float]
    values: Sequence[float]

    def at(self, moment: float) -> float:
        """Return the value at a moment; before and after the line, its first and its last value."""
        times, values = self
        if moment >= times[-1]:
            return values[-1]
        right = bisect_right(times, moment)
        if right == 0:
            return values[0]
        before, low = times[right - 1], values[right - 1]
        return low + (values[right] - low) * (moment - before) / (times[right] - before)


@dataclass(frozen=True, slots=True)
class Track:
    """The usable samples of one pod in the order of time, and since when it serves (POSIX seconds; None: unknown)."""

    pod: str
    samples: Sequence[EngineSample]
    ready_since: float | None = None
    _counters: dict[Read, TimeSeries | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _gauges: dict[Read, TimeSeries | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _found: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, find: Callable[[Track], T]) -> T:
        """Return what a function finds in this track. It looks once."""
        if find not in self._found:
            self._found[find] = find(self)
        found: T = self._found[find]
        return found

    def last(self, find: Callable[[Track, K], T], key: K) -> T:
        """Return what a function finds in this track for a key. It looks once for as long as the key stays the same."""
        known: tuple[K, T] | None = self._found.get(find)
        if known is None or known[0] != key:
            known = self._found[find] = key, find(self, key)
        return known[1]

    @property
    def newest(self) -> EngineSample:
        """The last sample."""
        return self.samples[-1]

    @property
    def is_new(self) -> bool:
        """Whether its whole life is known."""
        return self.ready_since is not None and self.samples[0].at - self.ready_since <= NEW_SECONDS

    @property
    def begins_at(self) -> float:
        """The moment from which it is known."""
        first = self.samples[0].at
        return min(first, self.ready_since) if self.is_new and self.ready_since is not None else first

    def after(self, moment: float) -> Sequence[EngineSample]:
        """Return the samples after a moment, POSIX seconds."""
        return self.samples[bisect_right(self.once(_times), moment) :]

    def grown(self, read: Read, start: float, end: float) -> float | None:
        """Return how much a counter grew; None if it is not reported. A value that fell began again at zero."""
        line = self._counters[read] if read in self._counters else self._counter(read)
        return None if line is None else line.at(end) - line.at(start)

    def grown_within(self, read: Read, times: Sequence[float], end: float) -> list[float] | None:
        """Return the same for each of some times in seconds, all of which end at one moment."""
        line = self._counters[read] if read in self._counters else self._counter(read)
        if line is None:
            return None
        last = line.at(end)
        return [last - line.at(end - seconds) for seconds in times]

    def risen(self, read: Read, start: float, end: float) -> float | None:
        """Return the change of a gauge; None if it is not reported."""
        if read not in self._gauges:
            self._gauges[read] = self._line(read)
        line = self._gauges[read]
        return None if line is None else line.at(end) - line.at(start)

    def _counter(self, read: Read) -> TimeSeries | None:
        line = self._line(read)
        found = self._counters[read] = line and TimeSeries(line.times, _without_resets(line.values))
        return found

    def _line(self, read: Read) -> TimeSeries | None:
        times: Sequence[float] = self.once(_times)
        values: Sequence[Any] = self.once(_columns)[read]
        if None in values:
            known = [(at, value) for at, value in zip(times, values, strict=True) if value is not None]
            if not known:
                return None
            times, values = zip(*known, strict=True)
        if self.is_new and self.begins_at < times[0]:
            times, values = [self.begins_at, *times], [0.0, *values]
        return TimeSeries(times, values)


def _times(track: Track) -> list[float]:
    return [sample.at for sample in track.samples]


def _columns(track: Track) -> list[tuple[float | None, ...]]:
    return [*zip(*map(counts_of, track.samples), strict=True)]


def _without_resets(values: Sequence[float]) -> Sequence[float]:
    """Return values that grow as Prometheus' ``increase`` counts it."""
    if [*values] == sorted(values):
        return values
    totals = [0.0]
    for earlier, later in pairwise(values):
        totals.append(totals[-1] + (later - earlier if later >= earlier else later))
    return totals


WAITING = COUNTS.index("waiting")
RUNNING = COUNTS.index("running")
PROMPTS = COUNTS.index("prompt_tokens_total")
OUTPUTS = COUNTS.index("generation_tokens_total")
PREEMPTIONS = COUNTS.index("preemptions_total")
FINISHED = COUNTS.index("finished_total")
FINISHED_PROMPTS = COUNTS.index("finished_prompt_tokens_total")
FINISHED_OUTPUTS = COUNTS.index("finished_output_tokens_total")
FIRST_TOKENS = COUNTS.index("first_tokens_total")
TTFT_SECONDS = COUNTS.index("ttft_seconds_total")
GAPS = COUNTS.index("token_gaps_total")
GAP_SECONDS = COUNTS.index("token_gap_seconds_total")
PREFIX_QUERIES = COUNTS.index("prefix_queried_tokens_total")
PREFIX_HITS = COUNTS.index("prefix_hit_tokens_total")
BEHIND_HITS = COUNTS.index("behind_hit_tokens_total")
