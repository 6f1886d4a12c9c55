"""The live use of deployments: two gauges, KV cache and batch places, each figure with the time of its samples.

A figure without a sample is None, which is not 0. A figure that is older than :data:`STALE_SECONDS` is stale: it is
shown with its age, and it decides nothing.

The past use of pods, in columns: the values that a map is drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from plimsoll.adapters.prometheus.readings import is_count, is_share
from plimsoll.console.views.words import age, clock
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.metrics import EngineSample

STALE_SECONDS = 60.0
"""Age from which a figure is stale: four scrapes of the usual 15 s."""

FUTURE_SECONDS = 5.0
"""How far the time of a sample may be ahead of the clock, which never agrees to the millisecond."""


@dataclass(frozen=True, slots=True)
class SampledFigure:
    """A figure and the POSIX time of its oldest sample. ``pods`` is the number of pods that it is the sum of."""

    value: float
    at: float
    pods: int = 1

    def age(self, now: float) -> float:
        """Return the age in seconds."""
        return max(0.0, now - self.at)

    def is_stale(self, now: float) -> bool:
        """Whether the figure is too old to count as live."""
        return self.age(now) > STALE_SECONDS


@dataclass(frozen=True, slots=True)
class EnginePod:
    """A pod whose engine is asked.

    ``max_sequences`` are the requests that it serves at the same time, and ``kv_tokens`` the size of its KV cache, as
    the status of its deployment gives them; None if the status does not.
    """

    key: ObjectKey
    max_sequences: int | None = None
    kv_tokens: int | None = None


Asked = Mapping[ObjectKey, Sequence[EnginePod]]
"""The pods of each deployment that a person may list."""


@dataclass(frozen=True, slots=True)
class LiveUse:
    """The figures that the engines of one deployment report. None stands for a figure without a sample.

    Attributes:
        kv: the share of all its KV caches together that requests hold, 0 to 1.
        kv_tokens: tokens that requests hold in ``kv_capacity_tokens``; None while a size of a cache is not known.
        kv_capacity_tokens: the size of the caches that ``kv`` is about.
        running: requests in the batches.
        max_sequences: requests that the same pods serve at the same time.
        waiting: requests in the queues.
        found_share: the share of the prompt tokens of the samples' time that were in a prefix cache, 0 to 1; None if
            none were looked up.
        pods: pods that the deployment has.
        reporting: pods with a sample that is not stale.
    """

    kv: SampledFigure | None = None
    kv_tokens: SampledFigure | None = None
    kv_capacity_tokens: int | None = None
    running: SampledFigure | None = None
    max_sequences: int | None = None
    waiting: SampledFigure | None = None
    found_share: float | None = None
    pods: int = 0
    reporting: int = 0

    @property
    def sequence_slots(self) -> SampledFigure | None:
        """The share of the batch places that are taken, 0 to 1; more if the engines run more than the status says.

        None if either number is not known.
        """
        if self.running is None or not self.max_sequences:
            return None
        return SampledFigure(self.running.value / self.max_sequences, self.running.at, self.running.pods)

    def share_now(self, now: float) -> float | None:
        """Return the used share of the KV cache, 0 to 1; None if it is not known now."""
        return None if self.kv is None or self.kv.is_stale(now) else self.kv.value

    @property
    def samples(self) -> tuple[SampledFigure, ...]:
        """The gauges that have a sample."""
        return tuple(each for each in (self.kv, self.running, self.waiting) if each is not None)

    def is_stale(self, now: float) -> bool:
        """Whether no gauge is live."""
        return all(each.is_stale(now) for each in self.samples)


@dataclass(frozen=True, slots=True)
class PodLast:
    """The newest possible figures of one pod; None if it has none. ``capacity`` is the KV cache in tokens.

    ``newest`` is the POSIX time of the newest sample; None without one. ``asked_tokens`` of prompts were looked up in
    the prefix cache between the oldest and the newest sample, and ``found_tokens`` of them were there.
    """

    kv: SampledFigure | None = None
    capacity: int | None = None
    running: SampledFigure | None = None
    waiting: SampledFigure | None = None
    newest: float | None = None
    asked_tokens: float = 0.0
    found_tokens: float = 0.0

    @staticmethod
    def of(samples: Iterable[EngineSample], now: float) -> PodLast:
        """Return the figures of a pod from its samples. Samples from the future are left out."""
        newest_first = sorted((each for each in samples if each.at <= now + FUTURE_SECONDS), key=lambda each: -each.at)
        capacity = _newest(newest_first, lambda each: each.kv_capacity_tokens, _is_size)
        return PodLast(
            kv=_newest(newest_first, lambda each: each.kv_usage, is_share),
            capacity=None if capacity is None else int(capacity.value),
            running=_newest(newest_first, lambda each: each.running, is_count),
            waiting=_newest(newest_first, lambda each: each.waiting, is_count),
            newest=newest_first[0].at if newest_first else None,
            asked_tokens=_grown(newest_first, lambda each: each.prefix_queried_tokens_total),
            found_tokens=_grown(newest_first, lambda each: each.prefix_hit_tokens_total),
        )

    def is_fresh(self, now: float) -> bool:
        """Whether a gauge is live."""
        return any(each is not None and not each.is_stale(now) for each in (self.kv, self.running, self.waiting))


class LiveState(StrEnum):
    """Whether Prometheus answers."""

    ABSENT = "Absent"
    """None is configured: there are no live figures, and everything else works."""
    READING = "Reading"
    """The first answer is not there yet."""
    ANSWERS = "Answers"
    SILENT = "Silent"
    """It does not answer: the last figures are shown with their age."""


@dataclass(frozen=True, slots=True)
class LiveReading:
    """The last figures of pods, and the state of the source.

    Attributes:
        state: whether Prometheus answers.
        pods: the last figures by pod, also those of earlier readings.
        since: POSIX time since which it does not answer; None while it does.
        error: why not, as text for people.
        window_seconds: the span of the samples.
    """

    state: LiveState = LiveState.ABSENT
    pods: Mapping[ObjectKey, PodLast] = field(default_factory=lambda: MappingProxyType({}))
    since: float | None = None
    error: str = ""
    window_seconds: int = 0


def uses_of(asked: Asked, reading: LiveReading, now: float) -> dict[ObjectKey, LiveUse]:
    """Return the live use of every deployment that was asked for, by its key."""
    return {key: use_of(pods, reading.pods, now) for key, pods in asked.items()}


def use_of(pods: Sequence[EnginePod], known: Mapping[ObjectKey, PodLast], now: float) -> LiveUse:
    """Return the live use of one deployment from the figures of its pods.

    If some pods report now, only those count: an old figure of another pod would hide that it is old.
    """
    lasts = [(pod, last) for pod in pods if (last := known.get(pod.key)) is not None]
    fresh = [(pod, last) for pod, last in lasts if last.is_fresh(now)]
    counted = fresh or lasts
    held = _Held.of([(last.kv, last.capacity or pod.kv_tokens) for pod, last in counted if last.kv is not None])
    return LiveUse(
        kv=held.share,
        kv_tokens=held.tokens,
        kv_capacity_tokens=held.capacity,
        running=_sum(last.running for _, last in counted),
        max_sequences=_places([pod for pod, last in counted if last.running is not None]),
        waiting=_sum(last.waiting for _, last in counted),
        found_share=_found_share([last for _, last in fresh]),
        pods=len(pods),
        reporting=len(fresh),
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """The use of several KV caches together."""

    share: SampledFigure | None = None
    tokens: SampledFigure | None = None
    capacity: int | None = None

    @staticmethod
    def of(caches: Sequence[tuple[SampledFigure, int | None]]) -> _Held:
        """Return it from the share and the size of each cache. Without all sizes, the caches count as equal."""
        if not caches:
            return _Held()
        at, pods = min(share.at for share, _ in caches), len(caches)
        sizes = [size for _, size in caches if size]
        if len(sizes) < pods:
            return _Held(SampledFigure(sum(share.value for share, _ in caches) / pods, at, pods))
        used = sum(share.value * size for (share, _), size in zip(caches, sizes, strict=True))
        return _Held(SampledFigure(used / sum(sizes), at, pods), SampledFigure(used, at, pods), sum(sizes))


def _is_size(value: float) -> bool:
    return is_count(value) and value > 0


def _newest(
    newest_first: Sequence[EngineSample],
    figure: Callable[[EngineSample], float | None],
    is_possible: Callable[[float], bool],
) -> SampledFigure | None:
    """Return the newest possible value. NaN and the like are left out, so an older good value counts with its age."""
    values = ((figure(each), each.at) for each in newest_first)
    return next((SampledFigure(value, at) for value, at in values if value is not None and is_possible(value)), None)


def _sum(samples: Iterable[SampledFigure | None]) -> SampledFigure | None:
    known = [each for each in samples if each is not None]
    if not known:
        return None
    return SampledFigure(sum(each.value for each in known), min(each.at for each in known), len(known))


def _grown(newest_first: Sequence[EngineSample], counter: Callable[[EngineSample], float | None]) -> float:
    """Return how far a counter has grown. It begins at 0 again with its engine, and then what follows counts."""
    values = [value for each in reversed(newest_first) if (value := counter(each)) is not None and is_count(value)]
    return sum(max(0.0, later - earlier) for earlier, later in pairwise(values))


def _found_share(lasts: Sequence[PodLast]) -> float | None:
    asked = sum(last.asked_tokens for last in lasts)
    return min(1.0, sum(last.found_tokens for last in lasts) / asked) if asked else None


def _places(pods: Sequence[EnginePod]) -> int | None:
    """Return the requests that pods serve at the same time; None if that is not known of each."""
    places = [pod.max_sequences for pod in pods]
    return sum(each for each in places if each) if places and all(places) else None


def notice_of(reading: LiveReading, now: float) -> str:
    """Return what a page says about its live figures; empty while Prometheus answers."""
    match reading.state:
        case LiveState.ABSENT:
            return "No Prometheus is configured, so there are no live figures. Give its address with --prometheus-url."
        case LiveState.READING:
            return "Live use is being read."
        case LiveState.SILENT:
            since = f"No Prometheus since {clock(reading.since)}, {age(now - (reading.since or now))} ago"
            return f"{since}: figures are the last known ones, each with its age. {reading.error}."
        case LiveState.ANSWERS:
            return ""


class MapSpan(NamedTuple):
    """A time that a map shows: ``seconds`` back from now, in columns of ``step`` seconds."""

    seconds: int
    step: int

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.seconds // self.step


class PodPast(NamedTuple):
    """The highest values of one pod in each column, by the POSIX time of the column's end.

    ``kv`` is the share of its fullest KV cache. ``preemptions`` is how often requests lost their KV cache in the whole
    time; None if that is not known.
    """

    kv: Mapping[float, float]
    running: Mapping[float, float]
    waiting: Mapping[float, float]
    preemptions: float | None = None


class PastUse(NamedTuple):
    """The use of pods in a time that ended at ``until``, in POSIX seconds."""

    until: float
    span: MapSpan
    pods: Mapping[ObjectKey, PodPast] = MappingProxyType({})

    def column_of(self, at: float) -> int | None:
        """Return the number of the column that ends at a time, 0 for the oldest; None outside of the time."""
        column = self.span.columns - 1 - round((self.until - at) / self.span.step)
        return column if 0 <= column < self.span.columns else None

    def start_of(self, column: int) -> float:
        """Return the POSIX time at which a column begins."""
        return self.until - (self.span.columns - column) * self.span.step
