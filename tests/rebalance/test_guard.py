"""The bounds: each one at its edge, and the order in which they are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.reasons import Numbers
from plimsoll.rebalance.decisions import AddReplica, Change, DecisionReason, Move, RemoveReplica, Wait
from plimsoll.rebalance.guard import held_back, under_way
from plimsoll.rebalance.history import ChangeHistory
from plimsoll.rebalance.policy import RebalancePolicy
from plimsoll.rebalance.signals import LoadSummary, SignalState
from plimsoll.rebalance.situation import DeclaredNeed, PlacementState, Situation

NOW = 1_700_000_000.0
ADD, REMOVE, MOVE = (
    AddReplica(DecisionReason.SUSTAINED_QUEUE),
    RemoveReplica(DecisionReason.SUSTAINED_SLACK),
    Move(DecisionReason.PLACEMENT_TOO_SMALL),
)
EVERY_CHANGE = pytest.mark.parametrize("change", [ADD, REMOVE, MOVE], ids=lambda each: type(each).__name__)
POLICY = RebalancePolicy(min_replicas=1, max_replicas=3, changes_per_hour=2, window_seconds=100, cooldown_seconds=200)
TWO_OF_TWO = PlacementState(replicas=2, ready=2, kv_capacity_tokens=1, budget_bytes_per_gpu=1)


def situation(*ages: float, policy: RebalancePolicy = POLICY, **placement: Any) -> Situation:
    """Two ready replicas, and changes of these ages in seconds."""
    history = ChangeHistory(tuple(NOW - age for age in ages))
    state = replace(TWO_OF_TWO, **placement)
    return Situation(DeclaredNeed(0, 0), state, LoadSummary(SignalState.FRESH), history, NOW, policy)


def held(change: Change, where: Situation) -> tuple[DecisionReason, Numbers] | None:
    wait = held_back(change, where)
    return None if wait is None else (wait.reason, wait.numbers)


@EVERY_CHANGE
def test_within_all_bounds_every_change_is_free(change: Change) -> None:
    assert held_back(change, situation()) is None


def test_a_replica_is_added_up_to_the_maximum_and_not_beyond() -> None:
    assert held(ADD, situation(replicas=3, ready=3)) == (
        DecisionReason.AT_MAX_REPLICAS,
        (("wanted", "SustainedQueue"), ("max", 3)),
    )
    assert held(ADD, situation(replicas=2)) is None
    for other in (REMOVE, MOVE):
        assert held(other, situation(replicas=3, ready=3)) is None


def test_a_replica_is_removed_down_to_the_minimum_and_not_below() -> None:
    assert held(REMOVE, situation(replicas=1, ready=1)) == (
        DecisionReason.AT_MIN_REPLICAS,
        (("wanted", "SustainedSlack"), ("min", 1)),
    )
    assert held(REMOVE, situation(replicas=2)) is None
    for other in (ADD, MOVE):
        assert held(other, situation(replicas=1, ready=1)) is None


@pytest.mark.parametrize("change", [ADD, MOVE], ids=lambda each: type(each).__name__)
def test_replicas_that_do_not_serve_yet_hold_up_what_needs_a_place(change: Change) -> None:
    assert held(change, situation(ready=1)) == (
        DecisionReason.REPLICAS_STARTING,
        (("replicas", 2), ("ready", 1), ("wanted", change.reason.value)),
    )
    assert held(change, situation(ready=3)) is None, "a pod too many, in the middle of an update"


def test_a_replica_that_does_not_start_can_be_given_up() -> None:
    assert held(REMOVE, situation(ready=1)) is None


@pytest.mark.parametrize("change", [ADD, MOVE], ids=lambda each: type(each).__name__)
def test_replicas_that_this_plan_places_or_misses_count_as_starting_whoever_is_ready(change: Change) -> None:
    assert held(change, situation(ready=3, new_replicas=1)) == (
        DecisionReason.REPLICAS_STARTING,
        (("replicas", 2), ("ready", 1), ("wanted", change.reason.value)),
    )
    assert held(REMOVE, situation(ready=3, new_replicas=1)) is None


@EVERY_CHANGE
def test_the_budget_is_for_any_hour_and_ends_with_it(change: Change) -> None:
    assert held(change, situation(3599.0, 300.0)) == (
        DecisionReason.HOURLY_BUDGET_SPENT,
        (("wanted", change.reason.value), ("changes", 2), ("bound", 2)),
    )
    assert held(change, situation(3600.0, 300.0)) is None


@EVERY_CHANGE
def test_the_cooldown_ends_at_its_last_second(change: Change) -> None:
    assert held(change, situation(199.0)) == (
        DecisionReason.COOLING_DOWN,
        (("wanted", change.reason.value), ("seconds", 199), ("bound_seconds", 200)),
    )
    assert held(change, situation(200.0)) is None


@pytest.mark.parametrize(
    ("changed", "seconds"),
    [
        ({"policy": POLICY}, 200),
        ({"startup_seconds": 160.0}, 200),
        ({"startup_seconds": 200.0}, 250),
        ({"policy": replace(POLICY, window_seconds=300)}, 300),
    ],
    ids=str,
)
def test_the_cooldown_is_the_longest_of_setting_startup_and_window(changed: dict[str, Any], seconds: int) -> None:
    assert held_back(ADD, situation(seconds, **changed)) is None
    assert held_back(ADD, situation(seconds - 1, **changed)) is not None


def test_the_bound_that_lasts_longest_is_named() -> None:
    """Setting, then pods, then the hour, then the cool-down."""
    named = [
        held_back(ADD, situation(10.0, 20.0, policy=replace(POLICY, max_replicas=2), ready=1)),
        held_back(ADD, situation(10.0, 20.0, ready=1)),
        held_back(ADD, situation(10.0, 20.0)),
        held_back(ADD, situation(10.0)),
    ]
    assert [wait and wait.reason for wait in named] == [
        DecisionReason.AT_MAX_REPLICAS,
        DecisionReason.REPLICAS_STARTING,
        DecisionReason.HOURLY_BUDGET_SPENT,
        DecisionReason.COOLING_DOWN,
    ]


def test_a_move_under_way_is_waited_for() -> None:
    assert under_way(situation()) is None
    assert under_way(situation(moving=True, ready=3)) == Wait(
        DecisionReason.MOVE_UNDER_WAY, (("replicas", 2), ("ready", 3))
    )
