"""The samples of one pod: whether a decision can rely on them, and the figures that follow from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from plimsoll.rebalance.signals import EngineSample, SignalState

CLOCK_TOLERANCE_SECONDS = 5.0
"""The largest time in the future that a sample may have. Clocks kept by NTP differ by far less. Beyond this limit, the
age of a sample means nothing."""

LARGEST_COUNT = 2**53
"""The largest count that a float holds exactly (IEEE 754 doubles, the only number type of Prometheus)."""


@dataclass(frozen=True, slots=True)
class DemandPoint:
    """One pod at one scrape, in whole tokens and requests. Demand is rounded up."""

    at: float
    used_tokens: int
    demanded_tokens: int
    waiting: int


@dataclass(frozen=True, slots=True)
class PodWindow:
    """One pod's window: its state and its figures. The figures are valid only when the state is FRESH."""

    pod: str
    state: SignalState
    age_seconds: float | None = None
    capacity_tokens: int | None = None
    points: tuple[DemandPoint, ...] = ()
    preemptions: float | None = None
    prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None


def judge_pod(
    pod: str,
    samples: Sequence[EngineSample],
    *,
    now: float,
    window_seconds: float,
    max_age_seconds: float,
    request_tokens: int,
) -> PodWindow:
    """Judge one pod's samples within ``(now - window, now]``.

    Args:
        pod: its name.
        samples: its samples, in any order; those before the window are ignored.
        now: POSIX seconds.
        window_seconds: length of the window.
        max_age_seconds: largest age of the newest sample, and longest part of the window without a sample.
        request_tokens: KV tokens of one request where the engine runs no request from which to take a mean.
    """
    ordered = sorted(samples, key=lambda sample: sample.at)
    recent = [sample for sample in ordered if not sample.at <= now - window_seconds]
    if any(not _is_plausible(sample, now) for sample in recent):
        return PodWindow(pod, SignalState.INVALID, _age(recent, now))
    complete = [sample for sample in recent if sample.kv_usage is not None and sample.waiting is not None]
    capacity = next((s.kv_capacity_tokens for s in reversed(recent) if s.kv_capacity_tokens is not None), None)
    if not complete or capacity is None:
        return _unusable(pod, ordered, recent, now)
    age = _age(complete, now) or 0.0
    if age > max_age_seconds:
        return PodWindow(pod, SignalState.STALE, age)
    covered = _is_covered([sample.at for sample in complete], now - window_seconds, max_age_seconds)
    return PodWindow(
        pod,
        SignalState.FRESH if covered else SignalState.COLD,
        age,
        capacity_tokens=capacity,
        points=tuple(_point(sample, capacity, request_tokens) for sample in complete),
        preemptions=counter_increase([s.preemptions_total for s in recent]),
        prompt_tokens_per_second=_rate(recent, [s.prompt_tokens_total for s in recent]),
        generation_tokens_per_second=_rate(recent, [s.generation_tokens_total for s in recent]),
    )


def counter_increase(values: Sequence[float | None]) -> float | None:
    """Return the increase of a counter, including resets. After a drop, the counter has started at 0 again.

    The same rule as Prometheus' ``increase``, without its extrapolation. None where fewer than two values are known.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:  # noqa: PLR2004 - a difference takes two
        return None
    return sum(later - earlier if later >= earlier else later for earlier, later in pairwise(known))


def _unusable(pod: str, ordered: Sequence[EngineSample], recent: Sequence[EngineSample], now: float) -> PodWindow:
    """Return a window without figures: STALE if the last sample is older than the window, else MISSING."""
    state = SignalState.STALE if ordered and not recent else SignalState.MISSING
    return PodWindow(pod, state, _age(ordered, now))


def _age(samples: Sequence[EngineSample], now: float) -> float | None:
    """Return the age of the newest of the ordered samples. None where its time is not finite; never below 0."""
    if not samples or not math.isfinite(samples[-1].at):
        return None
    return max(0.0, now - samples[-1].at)


def _is_plausible(sample: EngineSample, now: float) -> bool:
    counts = (
        sample.kv_usage,
        sample.waiting,
        sample.running,
        sample.preemptions_total,
        sample.prompt_tokens_total,
        sample.generation_tokens_total,
    )
    return (
        math.isfinite(sample.at)
        and sample.at <= now + CLOCK_TOLERANCE_SECONDS
        and all(count is None or 0 <= count <= LARGEST_COUNT for count in counts)
        and (sample.kv_usage is None or sample.kv_usage <= 1)
        and (sample.kv_capacity_tokens is None or 0 < sample.kv_capacity_tokens <= LARGEST_COUNT)
    )


def _is_covered(times: Sequence[float], start: float, longest_hole: float) -> bool:
    return all(later - earlier <= longest_hole for earlier, later in pairwise([start, *times]))


def _point(sample: EngineSample, capacity: int, request_tokens: int) -> DemandPoint:
    """Return the pod's demand: tokens in use, plus the mean of the running requests for each waiting request.

    A running request holds the tokens that it has reached so far. A waiting request will start with fewer and end with
    more. So the mean over the running requests is a fair estimate. Where none runs, ``request_tokens`` is used.
    """
    used = math.ceil((sample.kv_usage or 0.0) * capacity)
    waiting = math.ceil(sample.waiting or 0.0)
    mean = used / sample.running if sample.running is not None and sample.running >= 1 and used else request_tokens
    return DemandPoint(sample.at, used, used + math.ceil(waiting * mean), waiting)


def _rate(samples: Sequence[EngineSample], totals: Sequence[float | None]) -> float | None:
    times = [sample.at for sample, total in zip(samples, totals, strict=True) if total is not None]
    increase = counter_increase(totals)
    if increase is None or times[-1] <= times[0]:
        return None
    return increase / (times[-1] - times[0])
