"""The two gauges of a deployment: sums over its pods, ages, and unknown figures that never become 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from plimsoll.console.views.load.live_use import EnginePod, LiveUse, PodLast, SampledFigure, use_of
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.metrics import EngineSample

NOW = 10_000.0
FULL = EngineSample(NOW - 10, kv_usage=0.5, running=8, waiting=3, preemptions_total=7, kv_capacity_tokens=1000)


def pod(name: str, *, places: int | None = 16, tokens: int | None = None) -> EnginePod:
    return EnginePod(ObjectKey("ns", name), places, tokens)


def use(pods: list[EnginePod], samples: Mapping[str, tuple[EngineSample, ...]]) -> LiveUse:
    return use_of(pods, {ObjectKey("ns", name): PodLast.of(some, NOW) for name, some in samples.items()}, NOW)


def value(sample: SampledFigure | None) -> float:
    assert sample is not None
    return sample.value


def test_figures_of_one_pod_are_those_that_its_engine_reports() -> None:
    found = use([pod("a")], {"a": (replace(FULL, at=NOW - 25), FULL)})
    assert found == LiveUse(
        kv=SampledFigure(0.5, NOW - 10),
        kv_tokens=SampledFigure(500, NOW - 10),
        kv_capacity_tokens=1000,
        running=SampledFigure(8, NOW - 10),
        max_sequences=16,
        waiting=SampledFigure(3, NOW - 10),
        pods=1,
        reporting=1,
    )
    assert found.sequence_slots == SampledFigure(0.5, NOW - 10)
    assert not found.is_stale(NOW)


def test_no_sample_is_unknown_and_a_sample_of_zero_is_zero() -> None:
    assert use([pod("a")], {}) == LiveUse(pods=1)
    assert use([pod("a")], {"a": ()}) == LiveUse(pods=1)
    assert use([pod("a")], {}).is_stale(NOW)
    idle = use([pod("a")], {"a": (EngineSample(NOW, kv_usage=0.0, running=0, waiting=0),)})
    assert (idle.kv, idle.running, idle.waiting) == (
        SampledFigure(0, NOW),
        SampledFigure(0, NOW),
        SampledFigure(0, NOW),
    )


def test_caches_of_several_pods_count_by_their_tokens() -> None:
    small = replace(FULL, kv_usage=1.0, kv_capacity_tokens=1000)
    large = replace(FULL, kv_usage=0.2, kv_capacity_tokens=3000)
    found = use([pod("a"), pod("b")], {"a": (small,), "b": (large,)})
    assert value(found.kv) == pytest.approx(0.4)
    assert value(found.kv_tokens) == pytest.approx(1600)
    assert found.kv_capacity_tokens == 4000
    assert (value(found.running), found.max_sequences, value(found.waiting)) == (16, 32, 6)


def test_the_status_gives_the_size_of_a_cache_that_the_engine_does_not_report() -> None:
    silent = {"a": (replace(FULL, kv_capacity_tokens=None),)}
    assert use([pod("a", tokens=2000)], silent).kv_tokens == SampledFigure(1000, NOW - 10)
    assert use([pod("a")], silent).kv_tokens is None
    assert use([pod("a")], silent).kv == SampledFigure(0.5, NOW - 10)


def test_half_of_the_pods_missing_are_counted_and_not_guessed() -> None:
    found = use([pod("a"), pod("b")], {"a": (FULL,)})
    assert (found.reporting, found.pods) == (1, 2)
    assert (value(found.running), found.max_sequences) == (8, 16)
    both = use([pod("a"), pod("b")], {"a": (FULL,), "b": (FULL,)})
    assert (both.reporting, both.pods, value(both.running), both.max_sequences) == (2, 2, 16, 32)


def test_an_old_pod_does_not_hide_among_fresh_ones() -> None:
    old = replace(FULL, at=NOW - 90, running=100, kv_usage=1.0)
    found = use([pod("a"), pod("b")], {"a": (FULL,), "b": (old,)})
    assert (value(found.running), value(found.kv), found.reporting) == (8, 0.5, 1)
    alone = use([pod("b")], {"b": (old,)})
    assert (value(alone.running), alone.reporting) == (100, 0)
    assert alone.is_stale(NOW)
    assert alone.running == SampledFigure(100, NOW - 90)


def test_figures_are_stale_from_60_seconds_on() -> None:
    assert not SampledFigure(1, NOW - 60).is_stale(NOW)
    assert SampledFigure(1, NOW - 60.1).is_stale(NOW)
    assert SampledFigure(1, NOW + 2).age(NOW) == 0


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, -0.1, 1.01])
def test_impossible_samples_leave_the_last_possible_one_with_its_age(odd: float) -> None:
    wrong = replace(FULL, kv_usage=odd, running=-1 if odd < 1 else math.nan, waiting=math.nan)
    found = use([pod("a")], {"a": (replace(FULL, at=NOW - 40), replace(wrong, at=NOW - 5))})
    assert found.kv == SampledFigure(0.5, NOW - 40)
    assert (found.running, found.waiting) == (SampledFigure(8, NOW - 40), SampledFigure(3, NOW - 40))
    assert use([pod("a")], {"a": (wrong,)}).samples == ()
    assert use([pod("a")], {"a": (replace(FULL, kv_usage=1.0),)}).kv == SampledFigure(1.0, NOW - 10)


def test_a_sample_of_the_future_is_no_sample() -> None:
    assert use([pod("a")], {"a": (replace(FULL, at=NOW + 3600),)}).samples == ()
    assert use([pod("a")], {"a": (replace(FULL, at=NOW + 1),)}).running == SampledFigure(8, NOW + 1)


def test_places_are_unknown_while_the_status_does_not_give_them() -> None:
    assert use([pod("a", places=None)], {"a": (FULL,)}).sequence_slots is None
    assert use([pod("a"), pod("b", places=None)], {"a": (FULL,), "b": (FULL,)}).max_sequences is None
