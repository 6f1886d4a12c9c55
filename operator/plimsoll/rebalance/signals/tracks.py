"""The metrics of one engine as lines over time, so that engines that are scraped at different moments can be added.

Between two scrapes a value is read from a straight line. An engine begins at zero when its pod begins to serve.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter, le
from typing import Any, TypeVar

from plimsoll.rebalance.signals.metrics import EngineSample

T = TypeVar("T")

Read = Callable[[EngineSample], float | None]
"""One figure of a sample."""

NEW_SECONDS = 180.0
"""A pod whose first sample is at most so much younger than its readiness is counted from zero; others were before."""


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """A figure over time: at least one moment, in order, and the value at each."""

    times: Sequence[float]
    values: Sequence[float]

    def at(self, moment: float) -> float:
        """Return the value at a moment; before and after the line, its first and its last value."""
        if moment >= self.times[-1]:
            return self.values[-1]
        right = bisect_right(self.times, moment)
        if right == 0:
            return self.values[0]
        before, after = self.times[right - 1], self.times[right]
        step = self.values[right] - self.values[right - 1]
        return self.values[right - 1] + step * (moment - before) / (after - before)


@dataclass(frozen=True, slots=True)
class Track:
    """The usable samples of one pod in the order of time, and since when it serves (POSIX seconds; None: unknown)."""

    pod: str
    samples: Sequence[EngineSample]
    ready_since: float | None = None
    _lines: dict[tuple[Read, bool], TimeSeries | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
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

    def grown(self, read: Read, start: float, end: float) -> float | None:
        """Return how much a counter grew; None if it is not reported. A value that fell began again at zero."""
        return self._change(read, start, end, is_counter=True)

    def risen(self, read: Read, start: float, end: float) -> float | None:
        """Return the change of a gauge; None if it is not reported."""
        return self._change(read, start, end, is_counter=False)

    def _change(self, read: Read, start: float, end: float, *, is_counter: bool) -> float | None:
        key = read, is_counter
        if key not in self._lines:
            self._lines[key] = self._line(read, is_counter=is_counter)
        line = self._lines[key]
        return None if line is None else line.at(end) - line.at(start)

    def _line(self, read: Read, *, is_counter: bool) -> TimeSeries | None:
        known = [(sample.at, value) for sample in self.samples if (value := read(sample)) is not None]
        if not known:
            return None
        times, values = [at for at, _ in known], [value for _, value in known]
        if self.is_new and self.begins_at < times[0]:
            times, values = [self.begins_at, *times], [0.0, *values]
        return TimeSeries(times, _without_resets(values) if is_counter else values)


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
