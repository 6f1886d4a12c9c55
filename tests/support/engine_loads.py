"""Samples of engines under a given load, and the model of a replica: the input of the live loop without a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.performance.slo import INTERACTIVE
from plimsoll.rebalance.law.capacity import ReplicaModel, model_of, times_of
from plimsoll.rebalance.signals.load import LoadSummary, summarize
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.signals.tracks import Track
from plimsoll.rebalance.signals.traffic import Lengths, Traffic
from tests.support.planning import H100, gpu, request

NOW = 1_700_000_000.0
LONG_AGO = NOW - 7200
KV_TOKENS = 400_000
PERIOD = 15
LENGTHS = Lengths(prompt=1000.0, output=200.0, cached=0.0, in_cache=1100.0)


@dataclass(frozen=True)
class Serves:
    """The load of one engine: requests a second with these mean tokens, and what it holds now.

    ``cached`` is the part of the prompts that was in the prefix cache.
    """

    rate: float = 2.0
    prompt: float = 1000.0
    output: float = 200.0
    cached: float = 0.0
    token_seconds: float = 0.02
    first_token_seconds: float = 0.2
    waiting: float = 0.0
    running: float = 8.0
    kv_usage: float = 0.03
    capacity: int | None = KV_TOKENS

    def sample(self, at: float, came: float | None = None) -> EngineSample:
        """Return a scrape. ``came`` are the requests since the engine started; None: at a steady rate."""
        served = self.rate * (at - LONG_AGO) if came is None else came
        return EngineSample(
            at=at,
            kv_usage=self.kv_usage,
            waiting=self.waiting,
            running=self.running,
            preemptions_total=0.0,
            kv_capacity_tokens=self.capacity,
            prompt_tokens_total=served * self.prompt,
            generation_tokens_total=served * self.output,
            finished_total=served,
            finished_prompt_tokens_total=served * self.prompt,
            finished_output_tokens_total=served * self.output,
            ttft_seconds_total=served * self.first_token_seconds,
            first_tokens_total=served,
            token_gap_seconds_total=served * (self.output - 1) * self.token_seconds,
            token_gaps_total=served * (self.output - 1),
            prefix_queried_tokens_total=served * self.prompt,
            prefix_hit_tokens_total=served * self.prompt * self.cached,
        )


def moments(seconds: float = 900, every: float = PERIOD, phase: float = 0.0, end: float = NOW) -> list[float]:
    """Return the times of the scrapes until ``end``, the last one ``phase`` seconds before it."""
    count = int((seconds - phase) // every)
    return [end - phase - every * index for index in range(count, -1, -1)]


def track(
    load: Serves,
    times: Iterable[float] | None = None,
    *,
    came: Callable[[float], float] | None = None,
    pod: str = "a",
    ready_since: float | None = LONG_AGO,
) -> Track:
    """Return one pod. ``came`` are the requests until a moment, where they are not steady."""
    scrapes = moments() if times is None else times
    return Track(pod, [load.sample(at, None if came is None else came(at)) for at in scrapes], ready_since)


def pod(
    name: str, load: Serves, times: Iterable[float] | None = None, *, came: Callable[[float], float] | None = None
) -> PodSignals:
    """Return the samples of one pod as they are read."""
    return PodSignals(name, tuple(track(load, times, came=came, pod=name).samples))


def summary(
    *pods: PodSignals,
    expected: Iterable[str] | None = None,
    now: float = NOW,
    window: float = 120,
    ready_since: Mapping[str, float] | None = None,
    removed_at: float | None = None,
    capacity: int = KV_TOKENS,
    available: bool = True,
) -> LoadSummary:
    """Return the load of these pods, of which all serve for long unless ``ready_since`` says more."""
    names = [each.pod for each in pods] if expected is None else list(expected)
    return summarize(
        pods,
        names,
        now,
        window_seconds=window,
        capacity_tokens=capacity,
        ready_since=dict.fromkeys(names, LONG_AGO) if ready_since is None else ready_since,
        removed_at=removed_at,
        available=available,
    )


def traffic(*loads: Serves, now: float = NOW) -> Traffic:
    """Return the traffic of one pod for each load."""
    found = summary(*(pod(f"pod-{index}", load, moments(end=now)) for index, load in enumerate(loads)), now=now).traffic
    assert found is not None
    return found


@cache
def replica_model(kv_tokens: int = KV_TOKENS, max_sequences: int = 256) -> ReplicaModel:
    """Return an 8B model on one H100 with the usual promises."""
    found = model_of(request(slo=INTERACTIVE), gpu(H100), Split(1), kv_tokens)
    assert found is not None
    return found.limited(StepLimits(sequences=max_sequences))


@cache
def alone(rate: float, ratio: float = 1.0) -> Serves:
    """The steady load of a replica that is ``ratio`` times slower and gets so many requests a second.

    More run at the same time in a slower one (Little's law), and what it cannot serve waits.
    """
    model = replica_model()
    running, seconds = 1.0, 0.0
    for _ in range(40):
        times = times_of(model, LENGTHS, running)
        seconds = ratio * (times.first_token + 199 * times.token)
        running = min(200.0, 0.5 * running + 0.5 * max(1.0, rate * seconds))
    token = ratio * times_of(model, LENGTHS, running).token
    served = min(rate, running / seconds)
    kv_usage = min(0.99, running * LENGTHS.in_cache / KV_TOKENS)
    return Serves(served, token_seconds=token, running=running, kv_usage=kv_usage, waiting=60.0 * (rate - served))
