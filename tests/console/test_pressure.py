"""The Pressure view: worst first, since when, pages that stay small, and unknown figures that stay unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from plimsoll.console.drawing.heat_map import LoadStep
from plimsoll.console.views.load.live_use import (
    EnginePod,
    LiveReading,
    LiveState,
    LiveUse,
    PastUse,
    PodLast,
    PodPast,
    SampledFigure,
    uses_of,
)
from plimsoll.console.views.load.pressure import SPANS, PressureRow, asked_of, pressure_row, worst_first
from plimsoll.console.views.paging import PAGE_SIZE
from plimsoll.console.views.rows import DeploymentRow, PoolRow
from plimsoll.console.views.world import PodRow
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.metrics import EngineSample
from tests.support.work import counted_calls

NOW = 1_700_000_000.0
SPAN = SPANS["1h"]
KEY = ObjectKey("chat", "llama")
POD = EnginePod(ObjectKey("chat", "llama-0"), 10, 1000)
OTHER = EnginePod(ObjectKey("chat", "llama-1"), 30, 3000)


def values(*last: float) -> dict[float, float]:
    """Values of the last columns, the newest last."""
    return {NOW - SPAN.step * back: value for back, value in enumerate(reversed(last))}


def past(pods: Mapping[EnginePod, PodPast]) -> PastUse:
    return PastUse(NOW, SPAN, {pod.key: each for pod, each in pods.items()})


def row(use: LiveUse, known: PastUse | None, *pods: EnginePod) -> PressureRow:
    return pressure_row(KEY, pods or (POD,), use, known, NOW)


def holding(share: float, *, at: float = NOW - 5) -> LiveUse:
    return LiveUse(kv=SampledFigure(share, at), pods=1, reporting=1)


def test_the_spans_have_about_60_columns() -> None:
    assert {span.columns for span in SPANS.values()} == {60}
    assert (SPANS["15m"].seconds, SPANS["24h"].seconds) == (900, 86_400)


def test_a_row_has_two_gauges_with_their_figures_and_a_mark_for_each_queue() -> None:
    use = LiveUse(
        kv=SampledFigure(0.5, NOW - 5),
        kv_tokens=SampledFigure(500, NOW - 5),
        kv_capacity_tokens=1000,
        running=SampledFigure(9, NOW - 5),
        max_sequences=10,
        waiting=SampledFigure(4, NOW - 5),
        pods=1,
        reporting=1,
    )
    known = past({POD: PodPast(values(0.2, 0.5), values(3, 9), values(0, 4), 2.2)})
    found = row(use, known)
    assert (found.kv_cache_in_use.now, found.kv_cache_in_use.figures, found.kv_cache_in_use.step) == (
        "50 %",
        "500 of 1,000 tokens",
        LoadStep.BELOW_70,
    )
    assert (found.sequence_slots.now, found.sequence_slots.figures) == ("90 %", "9 of 10 requests")
    assert found.kv_cache_in_use.steps[-3:] == (LoadStep.UNKNOWN, LoadStep.BELOW_30, LoadStep.BELOW_70)
    assert found.sequence_slots.steps[-2:] == (LoadStep.BELOW_50, LoadStep.BELOW_FULL)
    assert found.sequence_slots.queued[-2:] == (False, True)
    assert len(found.kv_cache_in_use.steps) == len(found.sequence_slots.queued) == 60
    assert (found.waiting, found.preemptions, found.pods) == ("4", "2", "1 of 1 pods report")


def test_no_prometheus_is_unknown_everywhere_and_never_0() -> None:
    found = row(LiveUse(pods=1), None)
    assert (found.kv_cache_in_use.now, found.sequence_slots.now, found.waiting, found.preemptions) == ("unknown",) * 4
    assert found.kv_cache_in_use.step is LoadStep.UNKNOWN
    assert found.kv_cache_in_use.is_stale
    assert (found.kv_cache_in_use.age, found.sequence_slots.age) == ("", "")
    idle = row(LiveUse(kv=SampledFigure(0, NOW), waiting=SampledFigure(0, NOW), pods=1), None)
    assert (idle.kv_cache_in_use.now, idle.waiting, idle.kv_cache_in_use.is_stale) == ("0 %", "0", False)
    assert idle.kv_cache_in_use.age


def test_an_old_value_stays_with_its_age_and_loses_its_colour() -> None:
    old = row(holding(0.95, at=NOW - 300), None)
    assert (
        old.kv_cache_in_use.now,
        old.kv_cache_in_use.age,
        old.kv_cache_in_use.step,
        old.kv_cache_in_use.is_stale,
    ) == ("95 %", "5 min", LoadStep.UNKNOWN, True)
    assert old.kv_cache_in_use.too_much == ""
    young = row(holding(0.95), None)
    assert (young.kv_cache_in_use.age, young.kv_cache_in_use.step, young.kv_cache_in_use.is_stale) == (
        "5 s",
        LoadStep.BELOW_FULL,
        False,
    )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ((0.9, 0.5, 0.8, 0.9, 0.95), "over 80 % for 3 min"),
        ((0.5, 0.9), "over 80 % for 1 min"),
        ((0.9, 0.5), "over 80 % now"),
        ((0.9,) * 60, "over 80 % for more than 1 h"),
    ],
)
def test_since_when_goes_back_to_the_first_lower_column(columns: tuple[float, ...], words: str) -> None:
    found = row(holding(0.9), past({POD: PodPast(values(*columns), {}, {})}))
    assert found.kv_cache_in_use.too_much == words
    assert row(holding(0.79), past({POD: PodPast(values(*columns), {}, {})})).kv_cache_in_use.too_much == ""


def test_a_column_without_samples_ends_the_time_over_80_percent() -> None:
    gap = {at: value for at, value in values(0.9, 0.9, 0.9, 0.9).items() if at != NOW - SPAN.step}
    assert row(holding(0.9), past({POD: PodPast(gap, {}, {})})).kv_cache_in_use.too_much == "over 80 % for 1 min"


@pytest.mark.parametrize("odd", [math.nan, math.inf, -1.0, 1.5])
def test_impossible_values_of_the_past_are_no_samples(odd: float) -> None:
    known = past({POD: PodPast(values(0.5, odd), values(2, -1), values(0, math.nan))})
    found = row(holding(0.5), known)
    assert found.kv_cache_in_use.steps[-2:] == (LoadStep.BELOW_70, LoadStep.UNKNOWN)
    assert found.sequence_slots.steps[-2:] == (LoadStep.BELOW_30, LoadStep.UNKNOWN)
    assert found.sequence_slots.queued[-2:] == (False, False)


def test_pods_count_by_the_size_of_their_caches_and_only_where_they_have_samples() -> None:
    known = past({POD: PodPast(values(1.0, 1.0), {}, {}), OTHER: PodPast(values(0.0), {}, {})})
    found = row(holding(0.25), known, POD, OTHER)
    assert found.kv_cache_in_use.steps[-2:] == (LoadStep.FULL, LoadStep.BELOW_30)


def test_values_outside_of_the_time_belong_to_no_column() -> None:
    known = past({POD: PodPast({NOW - SPAN.seconds - 5 * SPAN.step: 1.0, NOW + 2 * SPAN.step: 1.0}, {}, {})})
    assert set(row(holding(0.5), known).kv_cache_in_use.steps) == {LoadStep.UNKNOWN}


def test_the_fuller_gauge_decides_the_order_and_unknown_ones_come_last() -> None:
    fresh = NOW - 5
    uses = {
        ObjectKey("a", "queue"): LiveUse(
            kv=SampledFigure(0.2, fresh), running=SampledFigure(8, fresh), max_sequences=8, pods=1
        ),
        ObjectKey("a", "cache"): LiveUse(
            kv=SampledFigure(0.9, fresh), running=SampledFigure(1, fresh), max_sequences=8, pods=1
        ),
        ObjectKey("a", "idle"): LiveUse(kv=SampledFigure(0, fresh), pods=1),
        ObjectKey("a", "stale"): LiveUse(kv=SampledFigure(1, NOW - 100), pods=1),
        ObjectKey("a", "unknown"): LiveUse(pods=1),
    }
    assert [key.name for key in worst_first(uses, NOW)] == ["queue", "cache", "idle", "stale", "unknown"]


def a_row(key: ObjectKey, *pools: PoolRow, places: int | None = None) -> DeploymentRow:
    return DeploymentRow(key, "uid", "1", "model", is_behind=False, pools=pools, max_sequences=places)


def test_only_the_pods_of_deployments_that_the_person_sees_are_asked_for() -> None:
    pool = PoolRow("l4-tp1-dp2", "l4-24gb", Split(1, data_parallel=2), 1, 1, max_sequences=8, kv_tokens_reported=500)
    mine = PodRow(ObjectKey("chat", "llama-0"), "n", (), "Running", deployment="llama", pool="l4-tp1-dp2")
    bare = PodRow(ObjectKey("chat", "llama-1"), "n", (), "Running", deployment="llama", pool="gone")
    hidden = PodRow(ObjectKey("secret", "other-0"), "n", (), "Running", deployment="other")
    strange = PodRow(ObjectKey("chat", "train-0"), "n", (("nvidia.com/gpu", 1),), "Running")
    found = asked_of([a_row(KEY, pool, places=99)], [mine, bare, hidden, strange])
    assert found == {KEY: (EnginePod(mine.key, 16, 500), EnginePod(bare.key, 99, None))}


def test_5000_deployments_are_ranked_and_only_a_page_of_100_is_drawn() -> None:
    keys = [ObjectKey(f"ns-{number % 500}", f"model-{number}") for number in range(5000)]
    asked = {key: (EnginePod(ObjectKey(key.namespace, f"{key.name}-0"), 16, 1000),) for key in keys}
    samples = tuple(EngineSample(NOW - 15 * back, kv_usage=0.5, running=3, waiting=0) for back in range(8))
    lasts = {pods[0].key: PodLast.of(samples, NOW) for pods in asked.values()}
    line = PodPast(values(*[0.5] * 60), values(*[3] * 60), values(*[0] * 60), 0.0)
    known = PastUse(NOW, SPAN, {pods[0].key: line for pods in asked.values()})

    def built() -> list[PressureRow]:
        uses = uses_of(asked, LiveReading(LiveState.ANSWERS, lasts), NOW)
        page = worst_first(uses, NOW)[:PAGE_SIZE]
        drawn = [pressure_row(key, asked[key], uses[key], known, NOW) for key in page]
        assert all(each.kv_cache_in_use.strip.bands and each.sequence_slots.strip.bands for each in drawn)
        return drawn

    with counted_calls() as calls:
        assert len(built()) == 100
    assert calls.amount < 2_000_000
