"""Hints: a scheduled minimum, and what is not as the spec expects it, in whole sentences; nothing where all is well."""

from __future__ import annotations

import pytest

from plimsoll.decision.turns import hints_of
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.allowance import Opening
from plimsoll.rebalance.state.policy import RebalancePolicy, ScheduledMinimum


def test_days_before_that_are_not_known_are_said_with_the_reason() -> None:
    reading = Reading(season_error="Prometheus has 1 of them, and 2 are needed")
    said = "Nothing is expected from the days before: Prometheus has 1 of them, and 2 are needed."
    assert hints_of(reading, RebalancePolicy(), contested=False) == (said,)


FAULT = "there is no InferencePool chat in namespace ns: create it, or correct the name."
SAID = f"Requests that wait at the gateway are not counted (spec.rebalancing.gateway): {FAULT}"


@pytest.mark.parametrize(
    ("state", "queue", "said"),
    [
        (SignalState.UNAVAILABLE, None, SAID),
        (SignalState.FRESH, GatewayQueue(SignalState.MISSING, error="no series"), SAID),
        (SignalState.FRESH, GatewayQueue(SignalState.FRESH), None),
    ],
)
def test_the_fault_of_a_pool_is_said_whatever_prometheus_answers_unless_its_queue_is_known(
    state: SignalState, queue: GatewayQueue | None, said: str | None
) -> None:
    found = hints_of(Reading(state=state, gateway=queue), RebalancePolicy(), contested=False, pool_fault=FAULT)
    assert found == (() if said is None else (said,))


def test_where_nothing_is_wrong_nothing_is_said() -> None:
    assert hints_of(Reading(), RebalancePolicy(), contested=False) == ()


def test_the_minimum_of_a_schedule_is_said_now_and_before_it_begins() -> None:
    for opening, when in (
        (Opening(), "now"),
        (Opening(is_open=False, opens_at=1_795_300_080.0), "from 2026-11-21T22:28:00Z on"),
    ):
        policy = RebalancePolicy(max_replicas=3).with_schedule((ScheduledMinimum(9, opening),), 1_795_300_000.0, 30.0)
        said = hints_of(Reading(), policy, contested=False)
        assert said == (f"spec.rebalancing.schedule asks for 3 ready replicas {when}.",)
