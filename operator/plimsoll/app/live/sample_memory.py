"""The samples of one object's pods, kept from reading to reading: only what is new is read.

Young samples are kept as they were scraped. Older ones are thinned, because they show a trend and no moment.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from plimsoll.adapters.prometheus.readings import settled
from plimsoll.rebalance.signals.load import (
    CLOCK_TOLERANCE_SECONDS,
    MISSED_SCRAPES,
    OLDEST_SAMPLE_SECONDS,
    USUAL_PERIOD_SECONDS,
)
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.signals.tracks import steady_of

WHOLE_SECONDS = 150
"""Samples up to this age are kept as they were scraped: the usual window of 120 s, and two scrapes of 15 s."""

THINNED_SECONDS = 60.0
"""The longest hole that thinning may make: the longest that a window may have and still be covered."""

SPARE_SECONDS = 40
"""How much longer than the wanted time samples are kept, so that the first one within it has one before it."""

MOST_SAMPLES = 2048
"""The most samples of a pod that are kept, the newest ones: 1440 of a day, and 150 of a scrape each second. A page may
give each of its series a time of its own, and every pass looks at them all."""

OVERLAP_SECONDS = 5
"""How far before a pod's last sample the next reading begins: a reading may have come in the middle of a scrape."""

LATE_SECONDS = 90
"""How late a sample may arrive and still be read, e.g. by remote write. The 60 s of the oldest usable sample, and two
scrapes of 15 s. Without this bound, one pod that is not scraped any more would make every reading long."""

SAME_SCRAPE_SECONDS = 0.5
"""How much the time of one scrape may differ between two readings, because the server's clock is read each time."""


LATE_SHARE = 1 / 15
"""The part of a scrape period after which the next sample is looked for: one second of 15. A scrape takes up to that
long, and its samples have the time at which it began."""


@dataclass(frozen=True, slots=True)
class PodMemory:
    """One pod's samples in the order of their times, and when it was first and last read, in POSIX seconds.

    ``signals`` are those that decide. They are the same object as long as nothing new was read. ``period_seconds`` is
    the time between two scrapes; None if it is not known. One scrape that is lost makes it no longer.
    """

    samples: tuple[EngineSample, ...]
    read_at: float
    known_since: float
    signals: PodSignals = field(compare=False)
    period_seconds: float | None

    @staticmethod
    def of(pod: str, samples: tuple[EngineSample, ...], now: float, before: PodMemory | None) -> PodMemory:
        """Return what is remembered of a pod that was read now."""
        is_same = before is not None and before.samples == samples
        signals = (
            before.signals if before and is_same else _signals(pod, samples, None if before is None else before.signals)
        )
        gaps = [later.at - earlier.at for earlier, later in pairwise(samples[-4:])]
        period = min(OLDEST_SAMPLE_SECONDS, *gaps) if gaps else None
        return PodMemory(samples, now, before.known_since if before else now, signals, period)

    @property
    def due_at(self) -> float:
        """When the next sample should be there. If it is late, the pod is read in every round.

        A pod that reports no more, or never did, is read once a period.
        """
        period = USUAL_PERIOD_SECONDS if self.period_seconds is None else self.period_seconds
        newest = min(self.samples[-1].at, self.read_at) if self.samples else self.known_since
        expected = newest + period * (1 + LATE_SHARE) if self.samples else self.read_at
        is_late = self.read_at - newest <= MISSED_SCRAPES * period
        return expected if expected > self.read_at or is_late else self.read_at + period


MOST_DEPARTED = 32
"""How many pods that are gone are remembered, at least; as many as there are pods now, if these are more."""


Memory = Mapping[str, PodMemory]
"""The pods of one object by name."""


class SampleQuery(NamedTuple):
    """Pods that are read together, and how far back."""

    pods: tuple[str, ...]
    window_seconds: int


def questions(memory: Memory, pods: Collection[str], window_seconds: int, now: float) -> list[SampleQuery]:
    """Return what to read of the pods: all of the window for new ones, and what is new for those that are due."""
    known = {pod: memory[pod] for pod in pods if pod in memory and memory[pod].read_at <= now}
    new = tuple(pod for pod in pods if pod not in known)
    asked = [SampleQuery(new, window_seconds)] if new else []
    due = [pod for pod, each in known.items() if each.due_at <= now]
    if due:
        begin = min(_begin(known[pod]) for pod in due)
        asked.append(SampleQuery(tuple(due), min(window_seconds, math.ceil(now - begin))))
    return asked


def next_due(memory: Memory, pods: Collection[str], now: float) -> float:
    """Return when the pods are to be read next, in POSIX seconds; all together twice a period at most.

    Pods are scraped at different moments, and each reading with a new sample makes a turn. So the first one that is due
    waits for those that are due within half a period. Without pods there is still a gateway to be read.
    """
    known = [memory[pod] for pod in pods if pod in memory]
    least = min((each.period_seconds or 0.0 for each in known), default=0.0) / 2
    due = [each.due_at for each in known] or [now + USUAL_PERIOD_SECONDS]
    return max(now + least, *(at for at in due if at <= min(due) + least))


def _begin(known: PodMemory) -> float:
    latest = min(known.samples[-1].at, known.read_at) if known.samples else 0.0
    return max(latest, known.read_at - LATE_SECONDS) - OVERLAP_SECONDS


def remembered(
    memory: Memory,
    read: Mapping[str, PodSignals],
    pods: Collection[str],
    window_seconds: int,
    now: float,
    asked: Collection[str] | None = None,
) -> dict[str, PodMemory]:
    """Return the memory after a reading of those pods that were asked about; None: of all of them.

    Pods that are not among ``pods`` are remembered as long as their samples are young enough: their requests still show
    how long requests are.
    """
    oldest = now - window_seconds - SPARE_SECONDS
    kept = _departed(memory, pods, oldest)
    for pod in pods:
        before = memory.get(pod)
        if before is not None and asked is not None and pod not in asked:
            kept[pod] = before
            continue
        merged = _merged(before.samples if before else (), read[pod].samples if pod in read else (), now)
        samples = _thinned([each for each in merged if each.at >= oldest], now - WHOLE_SECONDS)
        kept[pod] = PodMemory.of(pod, samples, now, before)
    return kept


def _departed(memory: Memory, pods: Collection[str], oldest: float) -> dict[str, PodMemory]:
    """Return the pods that are gone, those that left last first, with the samples that are not too old."""
    gone = {}
    for pod in memory.keys() - set(pods):
        young = tuple(each for each in memory[pod].samples if each.at >= oldest)
        if young:
            known = memory[pod]
            is_same = len(young) == len(known.samples)
            gone[pod] = known if is_same else replace(known, samples=young, signals=_signals(pod, young, known.signals))
    latest = sorted(gone, key=lambda pod: gone[pod].samples[-1].at, reverse=True)
    return {pod: gone[pod] for pod in latest[: max(MOST_DEPARTED, len(pods))]}


def signals_of(memory: Memory) -> dict[str, PodSignals]:
    """Return the remembered samples of each pod that has any. A lone impossible number is left out."""
    return {pod: known.signals for pod, known in memory.items() if known.samples}


def _signals(pod: str, samples: Sequence[EngineSample], before: PodSignals | None) -> PodSignals:
    """Return the samples that decide: of the ``before`` known ones some may be gone, and what is new follows them."""
    found = settled(samples)
    return PodSignals(pod, found, steady_of(found, before))


def _merged(before: Sequence[EngineSample], read: Sequence[EngineSample], now: float) -> list[EngineSample]:
    """Return both in order. What was read again replaces what was known.

    A known sample from the future shows that our own clock was set back: its time means nothing any more.
    """
    newest = sorted(read, key=lambda sample: sample.at)
    end = newest[0].at - SAME_SCRAPE_SECONDS if newest else math.inf
    return [*(each for each in before if each.at < end and each.at <= now + CLOCK_TOLERANCE_SECONDS), *newest]


def _thinned(ordered: Sequence[EngineSample], until: float) -> tuple[EngineSample, ...]:
    """Return the samples, with no more of those before ``until`` than are needed to keep holes short."""
    kept: list[EngineSample] = []
    for index, sample in enumerate(ordered):
        following = ordered[index + 1].at if index + 1 < len(ordered) else math.inf
        if not kept or sample.at >= until or following - kept[-1].at > THINNED_SECONDS:
            kept.append(sample)
    return tuple(kept[-MOST_SAMPLES:])
