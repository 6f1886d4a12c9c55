"""Hints: what is not as the spec expects it, in whole sentences, and nothing where all is well."""

from __future__ import annotations

from plimsoll.api.v1alpha1 import RebalancingSpec
from plimsoll.decision.turns import hints_of
from plimsoll.rebalance.signals.reading import Reading


def test_days_before_that_are_not_known_are_said_with_the_reason() -> None:
    reading = Reading(season_error="Prometheus has 1 of them, and 2 are needed")
    said = "Nothing is expected from the days before: Prometheus has 1 of them, and 2 are needed."
    assert hints_of(RebalancingSpec(), reading, contested=False) == (said,)


def test_where_nothing_is_wrong_nothing_is_said() -> None:
    assert hints_of(RebalancingSpec(), Reading(), contested=False) == ()
