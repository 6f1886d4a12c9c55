"""When one replica less would still do: each condition at its bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.rebalance.history import Ceiling
from plimsoll.rebalance.policy import RebalancePolicy
from plimsoll.rebalance.signals import LoadSummary, SignalState
from plimsoll.rebalance.slack import allows_removal, throughput_allows_removal

NOW = 1_800_000_000.0
POLICY = RebalancePolicy(max_replicas=4, high_percent=80, low_percent=50, ceiling_seconds=3600)
CALM = LoadSummary(
    SignalState.FRESH,
    demanded_peak_tokens=500,
    preemptions=0,
    prompt_tokens_per_second=50.0,
    generation_tokens_per_second=5.0,
)
CEILING = Ceiling(NOW - 60, prompt_tokens_per_second=80.0, generation_tokens_per_second=8.0)
"""A replica at 80 %. One replica at 50 % gets 50 and 5 tokens a second."""


@pytest.mark.parametrize(
    ("changed", "remaining", "allowed"),
    [
        ({}, 1000, True),
        ({"demanded_peak_tokens": 501}, 1000, False),
        ({}, 999, False),
        ({"waiting_peak": 1}, 1000, False),
        ({"preemptions": 1}, 1000, False),
        ({"preemptions": None}, 1000, False),
        ({"demanded_peak_tokens": 0}, 1, True),
        ({"demanded_peak_tokens": 0}, 0, False),
    ],
)
def test_a_removal_leaves_room_for_twice_the_highest_demand(
    changed: dict[str, int | None],
    remaining: int,
    allowed: bool,  # noqa: FBT001 - a table's column
) -> None:
    assert allows_removal(replace(CALM, **changed), remaining, POLICY) is allowed  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "replicas", "allowed"),
    [
        ({}, 1, True),
        ({"prompt_tokens_per_second": 50.1}, 1, False),
        ({"generation_tokens_per_second": 5.1}, 1, False),
        ({"prompt_tokens_per_second": 100.0, "generation_tokens_per_second": 10.0}, 2, True),
        ({"prompt_tokens_per_second": 100.0, "generation_tokens_per_second": 10.1}, 2, False),
        ({"prompt_tokens_per_second": None}, 4, False),
        ({"generation_tokens_per_second": None}, 4, False),
    ],
)
def test_both_rates_stay_below_the_lower_bound_of_the_remaining_replicas(
    changed: dict[str, float | None],
    replicas: int,
    allowed: bool,  # noqa: FBT001 - a table's column
) -> None:
    load = replace(CALM, **changed)  # type: ignore[arg-type]
    assert throughput_allows_removal(load, CEILING, replicas, NOW, POLICY) is allowed


def test_a_ceiling_without_rates_forbids_the_removal() -> None:
    for unknown in (Ceiling(NOW - 60, None, 8.0), Ceiling(NOW - 60, 80.0, None)):
        assert not throughput_allows_removal(CALM, unknown, 4, NOW, POLICY)


def test_a_ceiling_that_is_missing_or_too_old_forbids_nothing() -> None:
    busy = replace(CALM, prompt_tokens_per_second=1e6)
    assert throughput_allows_removal(busy, None, 1, NOW, POLICY)
    assert throughput_allows_removal(busy, replace(CEILING, at=NOW - 3600), 1, NOW, POLICY)
    assert not throughput_allows_removal(busy, replace(CEILING, at=NOW - 3599), 1, NOW, POLICY)
