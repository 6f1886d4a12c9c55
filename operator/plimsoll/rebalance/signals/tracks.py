"""The metrics of one engine as lines over time, so that engines that are scraped at different moments can be added.

Between two scrapes a value is read from a straight line. An engine begins at zero when its pod begins to serve.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter, le
from typing import Any, NamedTuple, TypeVar

from plimsoll.rebalance.signals.metrics import EngineSample

T = TypeVar("T")

Read = Callable[[EngineSample], float | None]
"""One figure of a sample."""

NEW_SECONDS = 180.0
"""A pod whose first sample is at most so much younger than its readiness is counted from zero; others were before."""


class TimeSeries(NamedTuple):
    """A figure over time: at least one moment, in order, and the value at each."""

    times: Sequence[float]
    values: Sequence[float]

    def at(self, moment: float) -> float:
        """Return the value at a moment; before and after the line, its first and its last value."""
        times, values = self.times, self.values
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
        if read not in self._counters:
            self._counters[read] = self._line(read, is_counter=True)
        line = self._counters[read]
        return None if line is None else line.at(end) - line.at(start)

    def risen(self, read: Read, start: float, end: float) -> float | None:
        """Return the change of a gauge; None if it is not reported."""
        if read not in self._gauges:
            self._gauges[read] = self._line(read, is_counter=False)
        line = self._gauges[read]
        return None if line is None else line.at(end) - line.at(start)

    def _line(self, read: Read, *, is_counter: bool) -> TimeSeries | None:
        times: Sequence[float] = self.once(_times)
        read_values = [*map(read, self.samples)]
        values = [value for value in read_values if value is not None]
        if len(values) < len(times):
            times = [at for at, value in zip(times, read_values, strict=True) if value is not None]
        if not values:
            return None
        if self.is_new and self.begins_at < times[0]:
            times, values = [self.begins_at, *times], [0.0, *values]
        return TimeSeries(times, _without_resets(values) if is_counter else values)


def _times(track: Track) -> list[float]:
    return [sample.at for sample in track.samples]


def _without_resets(values: Sequence[float]) -> Sequence[float]:
    """Return values that grow as Prometheus' ``increase`` counts it."""
    if all(map(le, values, values[1:])):
        return values
    totals = [0.0]
    for earlier, later in pairwise(values):
        totals.append(totals[-1] + (later - earlier if later >= earlier else later))
    return totals


WAITING = attrgetter("waiting")
RUNNING = attrgetter("running")
PROMPTS = attrgetter("prompt_tokens_total")
OUTPUTS = attrgetter("generation_tokens_total")
PREEMPTIONS = attrgetter("preemptions_total")
FINISHED = attrgetter("finished_total")
FINISHED_PROMPTS = attrgetter("finished_prompt_tokens_total")
FINISHED_OUTPUTS = attrgetter("finished_output_tokens_total")
FIRST_TOKENS = attrgetter("first_tokens_total")
TTFT_SECONDS = attrgetter("ttft_seconds_total")
GAPS = attrgetter("token_gaps_total")
GAP_SECONDS = attrgetter("token_gap_seconds_total")
PREFIX_QUERIES = attrgetter("prefix_queried_tokens_total")
PREFIX_HITS = attrgetter("prefix_hit_tokens_total")
BEHIND_HITS = attrgetter("behind_hit_tokens_total")
