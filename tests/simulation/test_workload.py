"""The requests of a simulation: how many come when, how long they are, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, pstdev

import pytest

from plimsoll.domain.errors import InvalidInput
from plimsoll.simulation.workload import MOST_REQUESTS, PRESETS, Workload, arrivals, preset
from tests.support.tables import every_case

STEADY = Workload(5.0, 1000, 200, minutes=30)
ROOM = 1_000_000


def test_as_many_requests_come_as_the_rate_says() -> None:
    found = arrivals(STEADY, ROOM, seed=1)
    assert len(found) == pytest.approx(STEADY.requests, rel=0.03)
    assert [each.at for each in found] == sorted(each.at for each in found)
    assert 0 < found[0].at < found[-1].at < STEADY.seconds


def test_lengths_have_the_mean_and_the_spread() -> None:
    found = arrivals(STEADY, ROOM, seed=1)
    prompts, outputs = [each.prompt_tokens for each in found], [each.output_tokens for each in found]
    assert (fmean(prompts), fmean(outputs)) == pytest.approx((1000, 200), rel=0.03)
    assert pstdev(prompts) / fmean(prompts) == pytest.approx(0.5, abs=0.03)
    same = arrivals(replace(STEADY, spread=0), ROOM, seed=1)
    assert {(each.prompt_tokens, each.output_tokens) for each in same} == {(1000, 200)}


def test_no_request_is_longer_than_the_room_and_none_is_empty() -> None:
    found = arrivals(replace(STEADY, spread=2.0), 1300, seed=1)
    assert max(each.prompt_tokens + each.output_tokens for each in found) == 1300
    assert min(each.output_tokens for each in found) >= 1


def test_bursts_come_at_their_times_and_have_their_factor() -> None:
    bursts = replace(STEADY, burst_factor=4.0, burst_seconds=120, burst_every_seconds=600)
    assert list(bursts.phases()) == [(0, 600, 5), (600, 720, 20), (720, 1200, 5), (1200, 1320, 20), (1320, 1800, 5)]
    found = arrivals(bursts, ROOM, seed=1)
    inside = sum(600 <= each.at < 720 or 1200 <= each.at < 1320 for each in found)
    assert inside == pytest.approx(240 * 20, rel=0.05)
    assert len(found) - inside == pytest.approx(1560 * 5, rel=0.05)


def test_the_shared_prefix_is_part_of_every_prompt_and_never_all_of_it() -> None:
    found = arrivals(replace(STEADY, shared_prefix_tokens=900), ROOM, seed=1)
    assert all(each.cached_tokens == min(900, each.prompt_tokens - 1) for each in found)
    assert any(each.cached_tokens < 900 for each in found)


@every_case(
    ("field", "changes"),
    [
        ("prompt", {"prompt_tokens": 0}),
        ("output", {"output_tokens": 0}),
        ("spread", {"spread": -0.1}),
        ("spread", {"spread": float("nan")}),
        ("shared-prefix", {"shared_prefix_tokens": 1000}),
        ("minutes", {"minutes": 0.5}),
        ("minutes", {"minutes": 500}),
        ("burst", {"burst_factor": 0.5}),
        ("burst-seconds", {"burst_seconds": 901}),
        ("requests-per-second", {"requests_per_second": 0}),
        ("requests-per-second", {"requests_per_second": float("inf")}),
        ("requests-per-second", {"requests_per_second": float("nan")}),
        ("requests-per-second", {"requests_per_second": 20}),
    ],
)
def test_a_figure_out_of_its_range_is_refused_by_name(field: str, changes: dict[str, float]) -> None:
    with pytest.raises(InvalidInput) as refused:
        replace(STEADY, **changes)  # type: ignore[arg-type]
    assert refused.value.field == field


def test_too_many_requests_are_refused_with_a_rate_that_is_taken() -> None:
    with pytest.raises(InvalidInput, match=r"36,000 requests would come, and 20,000 .* Use 11\.11 or less") as refused:
        replace(STEADY, requests_per_second=20.0)
    assert refused.value.value == 20.0
    assert replace(STEADY, requests_per_second=11.11).requests <= MOST_REQUESTS


def test_every_preset_is_a_workload_with_a_word_on_its_figures() -> None:
    assert [each.name for each in PRESETS] == ["chat", "retrieval", "agents", "batch"]
    for each in PRESETS:
        assert preset(each.name) is each
        assert each.source.endswith(".")
        assert arrivals(each.workload, ROOM, seed=1)
    assert preset("poetry") is None
