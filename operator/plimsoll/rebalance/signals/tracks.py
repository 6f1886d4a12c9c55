"""The metrics of one engine as lines over time, so that engines that are scraped at different moments can be added.

Between two scrapes a value is read from a straight line. An engine begins at zero when its pod begins to serve.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from plimsoll.rebalance.signals.metrics import COUNTS, EngineSample, PodSignals, counts_of

T = TypeVar("T")

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


Row = tuple[float | None, ...]
"""The figures of a pod at a moment, in the order of :data:`~plimsoll.rebalance.signals.metrics.COUNTS`; None: it does
not report this one."""

MOST_MOMENTS = 24
"""The moments of which the figures of a pod are kept: twice those that one turn asks for."""


@dataclass(frozen=True, slots=True)
class Track:
    """The usable samples of one pod in the order of time, and since when it serves (POSIX seconds; None: unknown).

    ``is_steady``: all of them are, as :func:`steady_of` finds. Then a figure at a moment follows from the two samples
    around it.
    """

    pod: str
    samples: Sequence[EngineSample]
    ready_since: float | None = None
    is_steady: bool = field(default=False, compare=False)
    _rows: dict[float, Row] = field(default_factory=dict, init=False, repr=False, compare=False)
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
        return self.samples[bisect_right(self.once(times_of), moment) :]

    def grown(self, read: Read, start: float, end: float) -> float | None:
        """Return how much a counter grew, or a gauge rose; None if it is not reported.

        A counter that fell began again at zero.
        """
        before, after = self.at(start)[read], self.at(end)[read]
        return None if before is None or after is None else after - before

    def at(self, moment: float) -> Row:
        """Return all figures at a moment. A counter is a total without resets: only differences of it count."""
        row = self._rows.get(moment)
        if row is None:
            if len(self._rows) >= MOST_MOMENTS:
                self._rows.clear()
            row = self._rows[moment] = self._between(moment) if self.is_steady else self._on_lines(moment)
        return row

    def _on_lines(self, moment: float) -> Row:
        return tuple([None if line is None else line.at(moment) for line in self.once(_lines)])

    def _between(self, moment: float) -> Row:
        """Return the same from two samples: none of the others changes it where no counter fell and none is missing."""
        times, begin = self.once(times_of), self.begins_at
        low: Row = _ZEROS
        right = bisect_right(times, moment)
        if right == len(times):
            return counts_of(self.samples[-1])
        if right:
            begin, low = times[right - 1], counts_of(self.samples[right - 1])
        elif begin == times[0]:
            return counts_of(self.samples[0])
        part, whole = max(moment, begin) - begin, times[right] - begin
        pairs = zip(low, counts_of(self.samples[right]), strict=True)
        return tuple([None if one is None or two is None else one + (two - one) * part / whole for one, two in pairs])


def times_of(track: Track) -> list[float]:
    """Return the moments of its samples."""
    return [sample.at for sample in track.samples]


def _lines(track: Track) -> list[TimeSeries | None]:
    """Return the line of each figure, whatever is missing and however often the engine began again."""
    return [_line(track, *each) for each in enumerate(zip(*map(counts_of, track.samples), strict=True))]


def _line(track: Track, read: Read, values: Sequence[float | None]) -> TimeSeries | None:
    times = track.once(times_of)
    known = [(at, value) for at, value in zip(times, values, strict=True) if value is not None]
    if track.is_new and known and track.begins_at < known[0][0]:
        known = [(track.begins_at, 0.0), *known]
    if not known:
        return None
    moments, figures = zip(*known, strict=True)
    return TimeSeries(moments, figures if read in _GAUGES else _without_resets(figures))


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

_GAUGES = frozenset((COUNTS.index("kv_usage"), WAITING, RUNNING))
_ZEROS = (0.0,) * len(COUNTS)


def steady_of(samples: Sequence[EngineSample], known: PodSignals | None = None) -> int:
    """Return how many of the newest samples are steady.

    They are as long as each is usable and later than the one before it, reports the same figures, and no counter fell.
    If some of them are left out, the others still are. So samples that are ``known`` to be steady are not looked
    through again; they keep their order.
    """
    before = (
        frozenset(map(id, known.samples[len(known.samples) - known.steady :])) if known is not None else frozenset()
    )
    later, was_known = None, False
    for count, each in enumerate(reversed(samples)):
        is_known = id(each) in before
        is_checked = is_known and was_known
        if not is_checked and not (is_complete(each) and (later is None or _goes_on(each, later))):
            return count
        later, was_known = each, is_known
    return len(samples)


def is_complete(sample: EngineSample) -> bool:
    """Whether use and queue of the engine are known, and all numbers of the sample can be."""
    return sample.kv_usage is not None and sample.waiting is not None and sample.is_possible


def _goes_on(before: EngineSample, after: EngineSample) -> bool:
    pairs = enumerate(zip(counts_of(before), counts_of(after), strict=True))
    return before.at < after.at and all(
        one is two if one is None or two is None else one <= two or read in _GAUGES for read, (one, two) in pairs
    )
