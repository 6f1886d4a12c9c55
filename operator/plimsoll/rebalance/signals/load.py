"""The load of a deployment from the samples of its pods, and which of the pods are known."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

from plimsoll.rebalance.signals.forecast import Season
from plimsoll.rebalance.signals.gateway import GatewayQueue, with_queue
from plimsoll.rebalance.signals.idle import Quiet, quiet_of
from plimsoll.rebalance.signals.metrics import (
    EngineSample,
    GpuActivity,
    PodSignals,
    PodState,
    SignalState,
    worst,
)
from plimsoll.rebalance.signals.tracks import NEW_SECONDS, Track, is_complete, times_of
from plimsoll.rebalance.signals.traffic import Traffic, traffic_of

OLDEST_SAMPLE_SECONDS = 60.0
"""No older sample decides anything, unless scrapes are further apart."""

MISSED_SCRAPES = 2.5
"""A pod is known until so many scrape periods after its newest sample: one scrape may be lost."""

USUAL_PERIOD_SECONDS = 15.0
"""The time between two scrapes that is assumed of a pod with one sample."""

ERRORS_IN_A_ROW = 3
"""Scrapes with an impossible number, the newest of all, after which the numbers of a pod count as invalid."""

LEAST_RECENT_SECONDS = 30.0
"""The shortest time over which recent arrivals are counted; at least two scrapes."""

CLOCK_TOLERANCE_SECONDS = 5.0
"""The largest time in the future that a sample may have. Clocks kept by NTP differ by far less. Beyond this limit, the
age of a sample means nothing."""


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """The load of one deployment.

    Attributes:
        state: the worst state of a pod.
        pods: the state of every pod that should report.
        traffic: what the known pods serve; None if none is known. What the others serve is unknown, not zero.
        held_tokens: the KV cache of the known pods.
        smallest_capacity_tokens: the smallest KV cache that a pod reports, known or not; None if none does.
        period_seconds: the time between two scrapes; None if no pod has two samples.
        new_pods: pods that are not known yet, because they have just begun to serve.
        gpus: how busy the pods' GPUs are; None: not known.
        gateway: the queue of the gateway; None if the deployment names none.
        quiet: when a request came last, of the known pods; None if they do not say.
        season: the usual course of the arrivals; None if the days before are not known, or say nothing.
        quiet_before: when a request came last before this process began; None if nothing shows it.
        tracks: the samples of the known pods.
        counted_from: POSIX seconds from which on all of them are known, and no pod ended or began again.
    """

    state: SignalState
    pods: tuple[PodState, ...] = ()
    traffic: Traffic | None = None
    held_tokens: int = 0
    smallest_capacity_tokens: int | None = None
    period_seconds: float | None = None
    new_pods: int = 0
    gpus: GpuActivity | None = None
    gateway: GatewayQueue | None = None
    quiet: Quiet | None = None
    season: Season | None = None
    quiet_before: Quiet | None = None
    tracks: tuple[Track, ...] = field(default=(), compare=False, repr=False)
    counted_from: float = field(default=0.0, compare=False, repr=False)

    @property
    def fresh_pods(self) -> int:
        """The number of pods that are known."""
        return sum(1 for pod in self.pods if pod.state is SignalState.FRESH)

    def without(self, pods: Collection[str]) -> LoadSummary:
        """Return the load as if these pods were not expected to report."""
        if not pods:
            return self
        rest = tuple(each for each in self.pods if each.pod not in pods)
        return replace(self, pods=rest, state=worst(tuple(each.state for each in rest)))

    @property
    def worst_pod(self) -> PodState | None:
        """The pod with the least reliable numbers; the first by name among equals."""
        return next((pod for pod in self.pods if pod.state is self.state), None)


def summarize(
    pods: Sequence[PodSignals],
    expected_pods: Sequence[str],
    now: float,
    *,
    window_seconds: float,
    capacity_tokens: int,
    ready_since: Mapping[str, float] | None = None,
    removed_at: float | None = None,
    available: bool = True,
    gateway: GatewayQueue | None = None,
    percentile: int | None = None,
) -> LoadSummary:
    """Summarize the engines' metrics.

    Args:
        pods: the samples read. Of pods that are not in ``expected_pods``, only the lengths of requests count.
        expected_pods: the ready pods, which report metrics. One without samples is MISSING.
        now: POSIX seconds.
        window_seconds: the time over which arrivals are counted; two scrapes at least.
        capacity_tokens: the KV cache of a pod whose engine does not report its size, as predicted.
        ready_since: POSIX seconds since when each pod serves. Older samples belong to another pod of the same name or
            to a start-up, and are ignored.
        removed_at: POSIX seconds of the last removal of a replica; None: none is known.
        available: False when Prometheus gave no answer; then nothing else is read.
        gateway: the queue of the gateway; None if there is none. What is unknown of it is not counted.
        percentile: the promised one of the measured times; None: their mean is.
    """
    expected = sorted(set(expected_pods))
    if not available:
        states = tuple(PodState(pod, SignalState.UNAVAILABLE) for pod in expected)
        return LoadSummary(SignalState.UNAVAILABLE, states, gateway=gateway)
    since, read = ready_since or {}, {signals.pod: signals for signals in pods}
    judged = [_Judged.of(read.get(pod) or PodSignals(pod), since.get(pod), now) for pod in expected]
    known = [each.track for each in judged if each.state.state is SignalState.FRESH and each.track is not None]
    others = [read[pod] for pod in sorted(read.keys() - set(expected))]
    departed = [_Judged.of(each, None, now).track for each in others]
    ended = [_Found.of(each, None, now).track for each in others]
    period = _period(known)
    recent = max(LEAST_RECENT_SECONDS, 2 * (period or USUAL_PERIOD_SECONDS))
    queue = gateway or GatewayQueue()
    return LoadSummary(
        state=worst(tuple(each.state.state for each in judged)),
        pods=tuple(each.state for each in judged),
        traffic=with_queue(
            traffic_of(
                known,
                window_seconds=max(window_seconds, recent),
                recent_seconds=recent,
                since=removed_at or 0.0,
                capacity_tokens=capacity_tokens,
                departed=[track for track in departed if track is not None],
                until=queue.known_until,
                percentile=percentile,
            ),
            queue,
        )
        if known
        else None,
        held_tokens=sum(_capacity(track.samples) or capacity_tokens for track in known),
        smallest_capacity_tokens=min((each.capacity for each in judged if each.capacity is not None), default=None),
        period_seconds=period,
        new_pods=sum(
            each.track is None and now - since.get(each.state.pod, -math.inf) <= NEW_SECONDS for each in judged
        ),
        gateway=gateway,
        quiet=quiet_of(known),
        tracks=tuple(known),
        counted_from=max([removed_at or 0.0, *_unseen_until(known, ended, read)]),
    )


def _unseen_until(
    known: Sequence[Track], ended: Sequence[Track | None], read: Mapping[str, PodSignals]
) -> Iterator[float]:
    """Yield the moments before which work was done that is in no count of the known pods.

    It is that of pods that were not seen from their beginning, of those that began again, and of those that ended.
    """
    for track in known:
        if not track.is_new or (track.ready_since is not None and read[track.pod].samples[0].at < track.ready_since):
            yield track.begins_at
    last = (each.newest for each in ended if each is not None)
    yield from (each.at for each in last if each.prompt_tokens_total or each.finished_total)


@dataclass(frozen=True, slots=True)
class _Judged:
    """One pod: its state, its usable samples if there are any, and the KV cache that it reports."""

    state: PodState
    track: Track | None = None
    capacity: int | None = None

    @staticmethod
    def of(signals: PodSignals, ready_since: float | None, now: float) -> _Judged:
        found, pod = _Found.of(signals, ready_since, now), signals.pod
        if found.is_invalid or found.track is None:
            state = SignalState.INVALID if found.is_invalid else SignalState.MISSING
            return _Judged(PodState(pod, state, None if found.newest_at is None else max(0.0, now - found.newest_at)))
        age = max(0.0, now - found.track.newest.at)
        if age > max(OLDEST_SAMPLE_SECONDS, MISSED_SCRAPES * (found.period or USUAL_PERIOD_SECONDS)):
            return _Judged(PodState(pod, SignalState.STALE, age))
        is_cold = len(found.track.samples) == 1 and not found.track.is_new
        state = SignalState.COLD if is_cold else SignalState.FRESH
        return _Judged(PodState(pod, state, age), found.track, found.capacity)


@dataclass(frozen=True, slots=True)
class _Found:
    """The figures of one pod by its samples, whatever the time is, once none of them is from the future.

    ``newest_at`` is None if there is no sample, or its time is no number. ``latest`` is the latest time of all.
    """

    latest: float
    newest_at: float | None = None
    is_invalid: bool = False
    track: Track | None = None
    period: float | None = None
    capacity: int | None = None

    @staticmethod
    def of(signals: PodSignals, ready_since: float | None, now: float) -> _Found:
        """Return what is known of the same samples and readiness, or look through them."""
        known: _Found | None = signals.known.get(ready_since)
        if known is None or known.latest > now + CLOCK_TOLERANCE_SECONDS:
            known = _Found._read(signals, ready_since, now)
            signals.known.clear()
            if known.latest <= now + CLOCK_TOLERANCE_SECONDS:
                signals.known[ready_since] = known
        return known

    @staticmethod
    def _read(signals: PodSignals, ready_since: float | None, now: float) -> _Found:
        samples = signals.samples
        if samples and signals.steady == len(samples) and samples[-1].at <= now + CLOCK_TOLERANCE_SECONDS:
            return _Found._of_steady(signals, ready_since)
        mine = sorted(
            (each for each in signals.samples if ready_since is None or not each.at < ready_since), key=_moment
        )
        latest = max((each.at for each in mine if math.isfinite(each.at)), default=-math.inf)
        newest_at = mine[-1].at if mine and math.isfinite(mine[-1].at) else None
        usable = list({each.at: each for each in mine if is_usable(each, now)}.values())  # the last one of a moment
        if mine and not any(is_possible(each, now) for each in mine[-ERRORS_IN_A_ROW:]):
            return _Found(latest, newest_at, is_invalid=True)
        if not usable:
            return _Found(latest, newest_at)
        return _Found._of(latest, newest_at, Track(signals.pod, usable, ready_since))

    @staticmethod
    def _of_steady(signals: PodSignals, ready_since: float | None) -> _Found:
        """Return the same of samples that are usable, and in the order of time."""
        mine: Sequence[EngineSample] = signals.samples
        if ready_since is not None:
            mine = mine[bisect_left(mine, ready_since, key=_moment) :]
        if not mine:
            return _Found(-math.inf)
        newest = mine[-1].at
        return _Found._of(newest, newest, Track(signals.pod, mine, ready_since, is_steady=True))

    @staticmethod
    def _of(latest: float, newest_at: float | None, track: Track) -> _Found:
        return _Found(latest, newest_at, track=track, period=_period([track]), capacity=_capacity(track.samples))


def _moment(sample: EngineSample) -> float:
    """Return the time to sort by. One that is no number would leave the others in disorder, so it comes first."""
    return -math.inf if math.isnan(sample.at) else sample.at


def is_usable(sample: EngineSample, now: float) -> bool:
    """Whether a sample can decide something: all of its numbers are possible, and use and queue of the engine known."""
    return is_complete(sample) and sample.at <= now + CLOCK_TOLERANCE_SECONDS


def is_possible(sample: EngineSample, now: float) -> bool:
    """Whether all numbers of a sample can be. A lone impossible one is left out when the sample is read."""
    return sample.is_possible and sample.at <= now + CLOCK_TOLERANCE_SECONDS


def _capacity(samples: Sequence[EngineSample]) -> int | None:
    return next((each.kv_capacity_tokens for each in reversed(samples) if each.kv_capacity_tokens is not None), None)


def _period(known: Sequence[Track]) -> float | None:
    gaps = [gap for track in known for gap in track.once(_gaps)]
    return median(gaps) if gaps else None


def _gaps(track: Track) -> list[float]:
    """Return the seconds between its last scrapes."""
    return [later - earlier for earlier, later in pairwise(track.once(times_of)[-8:])]
