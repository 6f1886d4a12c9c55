"""Figures that several policies read from the pods' samples.

A sample with an impossible number counts as no sample, and a pod without a recent sample is unknown. Each policy says
what it does then, as its project does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from plimsoll.simulation.peers.view import PodView, View
from plimsoll.simulation.values import Sample

FRESH_SECONDS = 60.0
"""The largest age of a known pod's newest sample, in seconds. It is the shortest window of the peers' queries."""

Read = Callable[[Sample], float]
"""One figure of a sample."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean lengths of requests, in tokens."""

    prompt: float
    output: float

    @property
    def in_cache(self) -> float:
        """The mean KV tokens of a request over its life: its prompt and half of its output."""
        return self.prompt + self.output / 2


def serving(view: View) -> tuple[PodView, ...]:
    """Return the pods that are ready."""
    return tuple(pod for pod in view.pods if pod.ready_since is not None)


def known(view: View) -> tuple[PodView, ...]:
    """Return the ready pods with a recent sample; none while Prometheus does not answer."""
    if not view.has_metrics:
        return ()
    return tuple(pod for pod in serving(view) if recent(pod, view.now, FRESH_SECONDS))


def recent(pod: PodView, now: float, seconds: float) -> list[Sample]:
    """Return the possible samples of the last seconds, the oldest first."""
    found: list[Sample] = []
    for sample in reversed(pod.samples):
        if sample.at <= now - seconds:
            break
        if is_possible(sample):
            found.append(sample)
    found.reverse()
    return found


def is_possible(sample: Sample) -> bool:
    """Whether all numbers are finite, the gauges are not negative, and no more than the whole KV cache is in use."""
    numbers = (
        sample.preemptions_total,
        sample.prompt_tokens_total,
        sample.generation_tokens_total,
        sample.finished_total,
        sample.finished_prompt_tokens_total,
        sample.finished_output_tokens_total,
        sample.ttft_seconds_total,
        sample.first_tokens_total,
        sample.token_gap_seconds_total,
        sample.token_gaps_total,
        sample.queue_seconds_total,
        sample.dequeued_total,
        sample.prefix_queried_tokens_total,
        sample.prefix_hit_tokens_total,
    )
    gauges = 0 <= sample.kv_usage <= 1 and 0 <= sample.waiting < math.inf and 0 <= sample.running < math.inf
    return gauges and math.isfinite(sum(numbers))


def newest(pod: PodView, now: float) -> Sample:
    """Return the newest possible sample of a known pod."""
    return recent(pod, now, FRESH_SECONDS)[-1]


def highest(pod: PodView, now: float, seconds: float, read: Read) -> float:
    """Return the largest value in the window, as ``max_over_time`` does. The pod must be known."""
    return max(read(sample) for sample in recent(pod, now, seconds))


def total_of(pods: Iterable[PodView], now: float, read: Read) -> float:
    """Return the sum of the newest values of known pods."""
    return sum(read(newest(pod, now)) for pod in pods)


def increase(pod: PodView, now: float, seconds: float, read: Read) -> float:
    """Return how much a value has grown between the first and the last sample of the window; 0 with fewer than two."""
    samples = recent(pod, now, seconds)
    return read(samples[-1]) - read(samples[0]) if samples else 0.0


def rate(pod: PodView, now: float, seconds: float, read: Read) -> float:
    """Return the increase a second between the first and the last sample of the window; 0 with fewer than two."""
    samples = recent(pod, now, seconds)
    span = samples[-1].at - samples[0].at if samples else 0.0
    return (read(samples[-1]) - read(samples[0])) / span if span > 0 else 0.0


def lengths(pods: Sequence[PodView], now: float, seconds: float) -> Lengths | None:
    """Return the mean lengths of the requests that finished in the window; None where none did."""
    finished = sum(increase(pod, now, seconds, lambda sample: sample.finished_total) for pod in pods)
    if finished <= 0:
        return None
    prompts = sum(increase(pod, now, seconds, lambda sample: sample.finished_prompt_tokens_total) for pod in pods)
    outputs = sum(increase(pod, now, seconds, lambda sample: sample.finished_output_tokens_total) for pod in pods)
    return Lengths(prompts / finished, outputs / finished)


def mean_prompt(pods: Sequence[PodView], now: float, seconds: float) -> float:
    """Return the mean prompt in tokens: of finished requests, or else of those with a first token; 0 without any."""
    found = lengths(pods, now, seconds)
    if found is not None:
        return found.prompt
    started = total_of(pods, now, lambda sample: sample.first_tokens_total)
    return total_of(pods, now, lambda sample: sample.prompt_tokens_total) / started if started else 0.0


def arrivals(pod: PodView, now: float, seconds: float) -> float:
    """Return the requests a second that arrived at a pod: those that finished, and the change of those inside.

    A request whose client gave up meanwhile is not counted.
    """
    return max(0.0, rate(pod, now, seconds, lambda sample: sample.finished_total + sample.running + sample.waiting))


def clamped(wanted: int, view: View) -> int:
    """Return the number within the user's bounds."""
    return max(view.min_replicas, min(wanted, view.max_replicas))
