"""The bounds of the live loop: which are refused, and how long a cool-down lasts."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.domain.errors import InvalidInput
from plimsoll.rebalance.policy import Mode, RebalancePolicy


def test_the_defaults_are_those_of_the_docs() -> None:
    assert RebalancePolicy() == RebalancePolicy(
        mode=Mode.RECOMMEND,
        min_replicas=1,
        max_replicas=1,
        changes_per_hour=6,
        window_seconds=120,
        cooldown_seconds=300,
        max_age_seconds=60,
        high_percent=80,
        low_percent=50,
        queue_per_replica=5,
        ceiling_seconds=86_400,
    )


@pytest.mark.parametrize(
    ("least", "below", "field"),
    [
        ({"min_replicas": 1}, {"min_replicas": 0}, "minReplicas"),
        ({"min_replicas": 3, "max_replicas": 3}, {"min_replicas": 3, "max_replicas": 2}, "maxReplicas"),
        ({"changes_per_hour": 0}, {"changes_per_hour": -1}, "changesPerHour"),
        ({"max_age_seconds": 1}, {"max_age_seconds": 0}, "maxAgeSeconds"),
        (
            {"window_seconds": 60, "max_age_seconds": 60},
            {"window_seconds": 59, "max_age_seconds": 60},
            "windowSeconds",
        ),
        ({"cooldown_seconds": 0}, {"cooldown_seconds": -1}, "cooldownSeconds"),
        ({"low_percent": 1}, {"low_percent": 0}, "lowPercent"),
        ({"high_percent": 51, "low_percent": 50}, {"high_percent": 50, "low_percent": 50}, "highPercent"),
        ({"queue_per_replica": 1}, {"queue_per_replica": 0}, "queuePerReplica"),
        ({"ceiling_seconds": 0}, {"ceiling_seconds": -1}, "ceilingSeconds"),
    ],
)
def test_the_least_value_of_a_bound_is_allowed_and_one_less_is_refused_by_name(
    least: dict[str, Any], below: dict[str, Any], field: str
) -> None:
    RebalancePolicy(**least)
    with pytest.raises(InvalidInput, match=f"rebalance.{field}"):
        RebalancePolicy(**below)


@pytest.mark.parametrize(
    ("cooldown", "window", "startup", "expected"),
    [
        (300, 120, None, 300.0),
        (300, 120, 100.0, 300.0),
        (300, 120, 400.0, 500.0),
        (60, 120, None, 120.0),
        (60, 120, 80.0, 120.0),
        (0, 60, 100.0, 125.0),
    ],
)
def test_a_cool_down_is_the_longest_of_its_own_time_the_window_and_a_start_with_a_quarter_more(
    cooldown: int, window: int, startup: float | None, expected: float
) -> None:
    policy = RebalancePolicy(cooldown_seconds=cooldown, window_seconds=window)
    assert policy.effective_cooldown_seconds(startup) == expected
