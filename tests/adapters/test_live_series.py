"""The live loop's figures as metrics: tokens and seats next to ratios, and nothing where a figure is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from plimsoll.adapters.series import OF_FIGURES, ObjectSeries
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.figures import LiveFigures

DOCS = Path(__file__).resolve().parents[2] / "docs" / "rebalancing.md"
CHAT = ObjectKey("ns", "chat")
KNOWN = LiveFigures(
    decision="Keep",
    reason="WithinBand",
    diagnosis="NothingToChange",
    target=2,
    startup_seconds=90.0,
    slowness=1.0,
    running=24.0,
    waiting=7.0,
    kv_use=0.25,
    slots=24,
    used_tokens=100_000.0,
    held_tokens=400_000,
    preempted_share=0.125,
)


def scraped(figures: LiveFigures) -> dict[str, float]:
    """The samples of one deployment by the metric's name."""
    series, registry = ObjectSeries(OF_FIGURES), CollectorRegistry()
    registry.register(series)
    series.objects = {CHAT: figures}
    lines = generate_latest(registry).decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if 'namespace="ns"' in line)
    return {name.partition("{")[0].removeprefix("plimsoll_live_"): float(value) for name, _, value in samples}


def test_seats_and_tokens_are_shown_with_what_is_taken_of_them() -> None:
    """All seats are taken and requests wait, although three quarters of the cache are free."""
    shown = scraped(KNOWN)
    assert (shown["running_requests"], shown["batch_slots"], shown["waiting_requests"]) == (24, 24, 7)
    assert (shown["kv_cache_used_tokens"], shown["kv_cache_tokens"], shown["kv_cache_use_ratio"]) == (
        100_000,
        400_000,
        0.25,
    )
    assert shown["preempted_ratio"] == 0.125


def test_a_figure_that_is_not_known_has_no_sample_and_the_others_have_theirs() -> None:
    unknown = replace(KNOWN, slots=None, used_tokens=None, held_tokens=None, preempted_share=None)
    gone = {"batch_slots", "kv_cache_used_tokens", "kv_cache_tokens", "preempted_ratio"}
    assert scraped(KNOWN).keys() - scraped(unknown).keys() == gone
    assert scraped(unknown)["running_requests"] == 24


def test_the_documentation_names_every_live_metric() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert [each.name for each in OF_FIGURES if not any(f"`{each.name}{end}" in text for end in "`{")] == []
