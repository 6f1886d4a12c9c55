"""The figures of one turn that metrics show: KV cache in use and sequence slots, in tokens and requests."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily

from plimsoll.adapters.series import OF_FIGURES, ObjectSeries
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import to_milliseconds, to_nanoseconds, to_per_minute, to_percent
from plimsoll.rebalance.decide import decide
from plimsoll.rebalance.figures import LiveFigures, live_figures
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.state.situation import Situation
from tests.support.engine_loads import replica_model
from tests.support.hypotheses import room_for_all
from tests.support.live_situations import EASY, situation

CHAT = ObjectKey("ns", "chat")


def figures_of(facts: Situation) -> LiveFigures:
    return live_figures(facts, decide(facts, room_for_all(2)), 2)


def shown(figures: LiveFigures) -> dict[str, float]:
    """The values of the page, by the names of their metrics without the prefix."""
    registry, series = CollectorRegistry(), ObjectSeries(OF_FIGURES)
    registry.register(series)
    series.objects = {CHAT: figures}
    families = [each for each in registry.collect() if isinstance(each, GaugeMetricFamily)]
    samples = [sample for family in families for sample in family.samples]
    return {each.name.removeprefix("plimsoll_live_"): each.value for each in samples}


def test_kv_cache_and_sequence_slots_are_shown_in_tokens_and_requests() -> None:
    facts = situation(EASY, EASY)
    facts = replace(facts, placement=replace(facts.placement, model=replica_model(max_sequences=32)))
    traffic, page = facts.load.traffic, shown(figures_of(facts))
    assert traffic is not None
    assert page["kv_cache_used_tokens"] == traffic.used_tokens > 0
    assert page["kv_cache_tokens"] == facts.load.held_tokens > page["kv_cache_used_tokens"]
    assert page["kv_cache_use_ratio"] == page["kv_cache_used_tokens"] / page["kv_cache_tokens"]
    assert page["batch_slots"] == 2 * 32


def test_a_limit_that_is_not_known_is_not_shown_and_the_rest_is() -> None:
    facts = situation(EASY, EASY)
    page = shown(figures_of(replace(facts, placement=replace(facts.placement, model=None))))
    assert "batch_slots" not in page
    assert page["kv_cache_tokens"] > 0


def test_of_pods_that_do_not_report_nothing_is_shown() -> None:
    facts = situation(EASY, EASY)
    page = shown(figures_of(replace(facts, load=LoadSummary(SignalState.UNAVAILABLE))))
    assert page.keys().isdisjoint({"kv_cache_used_tokens", "kv_cache_tokens", "batch_slots", "kv_cache_use_ratio"})
    assert page["target_replicas"] == 2


@pytest.mark.parametrize(("needed", "target", "pressure"), [(3, 2, 1.5), (1, 2, 0.5), (None, 2, None), (3, 0, None)])
def test_pressure_is_what_is_needed_over_what_is_wanted(
    needed: int | None, target: int, pressure: float | None
) -> None:
    assert replace(figures_of(situation(EASY, EASY)), needed=needed, target=target).pressure == pressure


@pytest.mark.parametrize(("share", "percent"), [(0.0, 0), (0.004, 0), (0.256, 26), (1.0, 100), (12.5, 1250)])
def test_figures_for_people_are_whole_numbers(share: float, percent: int) -> None:
    assert (to_percent(share), to_percent(Decimal(str(share)))) == (percent, percent)
    assert to_milliseconds(share / 10) == percent
    assert to_nanoseconds(share / 1e7) == percent
    assert to_nanoseconds(8 * share) == 8 * round(1000 * share) * 10**6, "seconds as well"
    assert to_per_minute(share / 0.6) == percent
