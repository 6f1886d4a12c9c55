"""Pods and views that are made by hand, for tests of the policies of the benchmark of rebalancing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from benchmarks.rebalance.values import EngineSpec, Scenario
from plimsoll.simulation.peers.hpa import Behavior, Rules
from plimsoll.simulation.peers.view import Order, PodView, Policy, View
from plimsoll.simulation.values import Sample

NOW = 1500.0
ENGINE = EngineSpec("Qwen/Qwen3-32B", "h100-sxm-80gb", 2, 100_000, 256, 8192, 13.76)
SCENARIO = Scenario("by hand", ENGINE, 3600, lambda _: (), start_replicas=2)
AT_ONCE = Behavior(Rules(), Rules())
NO_NUMBERS = {each.name: math.nan for each in fields(Sample) if each.name != "at"}


def sample(
    at: float,
    kv: float = 0.3,
    waiting: float = 0,
    running: float = 4,
    *,
    per_second: float = 2,
    prompt: float = 1000,
    output: float = 500,
    preemptions: float = 0,
) -> Sample:
    """One scrape of an engine that has served ``per_second`` requests of these lengths since the start."""
    done = per_second * at
    return Sample(
        at=at,
        kv_usage=kv,
        waiting=waiting,
        running=running,
        preemptions_total=preemptions,
        prompt_tokens_total=done * prompt,
        generation_tokens_total=done * output,
        finished_total=done,
        finished_prompt_tokens_total=done * prompt,
        finished_output_tokens_total=done * output,
        ttft_seconds_total=done / 2,
        first_tokens_total=done,
        token_gap_seconds_total=running * at,
        token_gaps_total=done * output,
        queue_seconds_total=done / 10,
        dequeued_total=done,
        prefix_queried_tokens_total=done * prompt,
        prefix_hit_tokens_total=done * prompt / 4,
    )


def pod(name: str = "a", *, now: float = NOW, ready: float = 0, created: float = -100, **load: float) -> PodView:
    """A pod with a steady load, scraped every 15 s of the last ten minutes."""
    times = [15.0 * index for index in range(1, int(now // 15) + 1)]
    scrapes = tuple(sample(at, **load) for at in times if at > now - 600 and at >= ready)
    return PodView(name, created, ready, scrapes)


def starting(name: str = "new", created: float = NOW - 10) -> PodView:
    return PodView(name, created, None)


def stale(name: str = "old") -> PodView:
    """A pod that serves, and whose samples stopped two minutes ago."""
    whole = pod(name)
    return replace(whole, samples=tuple(each for each in whole.samples if each.at < NOW - 120))


def nan(name: str = "bad") -> PodView:
    """A pod that has reported no numbers for two minutes."""
    whole = pod(name)
    return replace(
        whole, samples=tuple(replace(each, **NO_NUMBERS) if each.at > NOW - 120 else each for each in whole.samples)
    )


def view(*pods: PodView, wanted: int | None = None, now: float = NOW, has_metrics: bool = True) -> View:
    return View(
        now=now,
        wanted=len(pods) if wanted is None else wanted,
        pods=pods,
        has_metrics=has_metrics,
        engine=ENGINE,
        min_replicas=1,
        max_replicas=10,
        declared_concurrency=16,
        ttft_seconds=2.0,
        tpot_seconds=0.1,
    )


def pods(count: int, *, now: float = NOW, **load: float) -> tuple[PodView, ...]:
    return tuple(pod(f"p{index}", now=now, **load) for index in range(count))


def over_time(policy: Policy, seconds: int, look: Callable[[float], View], every: int = 15) -> list[int]:
    """The answers of a policy while nothing that it asks for is carried out."""
    return [wanted_by(policy, look(NOW + at)) for at in range(0, seconds + 1, every)]


def wanted_by(policy: Policy, look: View) -> int:
    """The replicas that a policy asks for."""
    answer = policy(look)
    return answer.replicas if isinstance(answer, Order) else answer


def near(value: float | tuple[float, ...]) -> Any:
    """Numbers that may differ by rounding."""
    return pytest.approx(value)
