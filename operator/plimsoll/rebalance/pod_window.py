"""May the samples of one pod be decided by, and what do they say?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from plimsoll.rebalance.signals import EngineSample, SignalState

CLOCK_TOLERANCE_SECONDS = 5.0
"""How far in the future a sample may lie. Clocks kept by NTP differ by far less; more means that ages mean nothing."""

LARGEST_COUNT = 2**53
"""Up to here a float tells one request or token from the next (IEEE 754 doubles, Prometheus' only number)."""


@dataclass(frozen=True, slots=True)
class DemandPoint:
    """One pod at one scrape, in whole tokens and requests, rounded up where it is a need."""

    at: float
    used_tokens: int
    demanded_tokens: int
    waiting: int


@dataclass(frozen=True, slots=True)
class PodWindow:
    """One pod's window: the verdict, and the figures, which only count when the verdict is FRESH."""

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
        samples: what is known of it, in any order; older ones are left out.
        now: POSIX seconds.
        window_seconds: length of the window.
        max_age_seconds: oldest newest sample, and longest stretch of the window without one.
        request_tokens: KV tokens of one request where the engine runs none to take a mean of.
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
    """How much a counter grew, across resets: after a drop it has grown by what it shows, having started at 0 again.

    The same rule as Prometheus' ``increase``, without its extrapolation. None where fewer than two values are known.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:  # noqa: PLR2004 - a difference takes two
        return None
    return sum(later - earlier if later >= earlier else later for earlier, later in pairwise(known))


def _unusable(pod: str, ordered: Sequence[EngineSample], recent: Sequence[EngineSample], now: float) -> PodWindow:
    """Nothing to go by: either the pod fell silent before the window, or what it reports is not what is needed."""
    state = SignalState.STALE if ordered and not recent else SignalState.MISSING
    return PodWindow(pod, state, _age(ordered, now))


def _age(samples: Sequence[EngineSample], now: float) -> float | None:
    """Age of the newest of the ordered samples; None where it is not a time, 0 for one within the clock's tolerance."""
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
    """What the pod needs: tokens in use, plus for each waiting request the mean of the running ones.

    A running request holds what it has got to by now, somewhere in its answer; a waiting one will start with less and
    end with more. So the mean over the running ones is the fair guess, and ``request_tokens`` where none runs.
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
