"""The bounds: each one at its edge, and the order in which they are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.units import to_rfc3339
from plimsoll.placement.demands.rehoming import Departure, Rehoming, of_last_hour, remembered
from plimsoll.rebalance.guard import cooldown_seconds, held_back, relief_at, under_way
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.state.allowance import Allowance, Opening, Scope, Spent
from plimsoll.rebalance.state.decisions import (
    AddReplica,
    Change,
    DecisionReason,
    Move,
    RemoveReplica,
    ReplaceReplica,
    Retune,
    Wait,
)
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from plimsoll.rebalance.state.situation import DeclaredNeed, PlacementState, Serving, Situation

STEP_SECONDS = 300.0

NOW = 1_700_000_000.0
ADD, REMOVE, MOVE, RETUNE = (
    AddReplica(DecisionReason.SUSTAINED_QUEUE),
    RemoveReplica(DecisionReason.SUSTAINED_SLACK),
    Move(DecisionReason.PLACEMENT_TOO_SMALL),
    Retune(DecisionReason.BATCH_LIMIT_BINDS),
)


def each_of(*changes: Change) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("change", changes, ids=lambda each: type(each).__name__)


POLICY = RebalancePolicy(
    min_replicas=1, max_replicas=3, changes_per_hour=2, reversals_per_hour=1, window_seconds=100, cooldown_seconds=200
)
TWO_OF_TWO = PlacementState(replicas=2, ready=2, kv_capacity_tokens=1, budget_bytes_per_gpu=1)


def situation(*changes: tuple[float, ChangeKind], policy: RebalancePolicy = POLICY, **placement: Any) -> Situation:
    """Two ready replicas, and changes of these ages in seconds."""
    history = ChangeHistory(tuple(ChangeRecord(NOW - age, kind) for age, kind in changes))
    state = replace(TWO_OF_TWO, **placement)
    return Situation(DeclaredNeed(0, 0), state, LoadSummary(SignalState.FRESH), history, NOW, policy)


def held(change: Change, where: Situation) -> tuple[DecisionReason, Numbers] | None:
    wait = held_back(change, where)
    return None if wait is None else (wait.reason, wait.numbers)


@each_of(ADD, REMOVE, MOVE, RETUNE)
def test_within_all_bounds_every_change_is_free(change: Change) -> None:
    assert held_back(change, situation()) is None


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (replace(POLICY, scales=False), DecisionReason.SCALED_EXTERNALLY),
        (replace(POLICY, contested=True), DecisionReason.SCALE_CONTESTED),
    ],
)
def test_where_the_number_is_anothers_only_the_number_stays(policy: RebalancePolicy, reason: DecisionReason) -> None:
    assert held(ADD, situation(policy=policy)) == (reason, (("wanted", "SustainedQueue"),))
    assert held(REMOVE, situation(policy=policy)) == (reason, (("wanted", "SustainedSlack"),))
    for other in (MOVE, RETUNE):
        assert held(other, situation(policy=policy)) is None


def test_a_replica_is_added_up_to_the_maximum_and_not_beyond() -> None:
    assert held(ADD, situation(replicas=3, ready=3)) == (
        DecisionReason.AT_MAX_REPLICAS,
        (("wanted", "SustainedQueue"), ("max", 3)),
    )
    for other in (REMOVE, MOVE, RETUNE):
        assert held(other, situation(replicas=3, ready=3)) is None


def test_an_addition_waits_for_nothing_but_the_maximum() -> None:
    spent = ((500.0, ChangeKind.REMOVE), (300.0, ChangeKind.ADD), (200.0, ChangeKind.MOVE), (1.0, ChangeKind.REMOVE))
    assert held(ADD, situation(*spent, ready=0, new_replicas=2)) is None


def test_a_replica_is_removed_down_to_the_minimum_and_not_below() -> None:
    assert held(REMOVE, situation(replicas=1, ready=1)) == (
        DecisionReason.AT_MIN_REPLICAS,
        (("wanted", "SustainedSlack"), ("min", 1)),
    )
    for other in (ADD, MOVE, RETUNE):
        assert held(other, situation(replicas=1, ready=1)) is None


@each_of(MOVE, RETUNE)
def test_replicas_that_do_not_serve_yet_hold_up_what_restarts_all(change: Change) -> None:
    starting = DecisionReason.REPLICAS_STARTING, (("replicas", 2), ("ready", 1), ("wanted", change.reason.value))
    assert held(change, situation(ready=1)) == starting
    assert held(change, situation(ready=3, new_replicas=1)) == starting, "the plan has just placed one of them"
    assert held(change, situation(ready=3)) is None, "a pod too many, in the middle of an update"
    assert held(REMOVE, situation(ready=1)) is None, "a replica that does not start can be given up"


def test_while_settings_change_engines_are_not_restarted_again_and_the_number_follows_the_load() -> None:
    for change in (MOVE, RETUNE):
        assert held(change, situation(ready=3, retuning=True)) == (
            DecisionReason.MOVE_UNDER_WAY,
            (("wanted", change.reason.value), ("replicas", 2), ("ready", 3)),
        )
    for other in (ADD, REMOVE):
        assert held(other, situation(retuning=True)) is None


def test_while_a_changed_spec_rolls_out_no_settings_are_changed_and_everything_else_may_be() -> None:
    assert held_back(RETUNE, situation(rolling=True)) is not None
    for change in (ADD, REMOVE, MOVE):
        assert held_back(change, situation(rolling=True)) is None


@each_of(REMOVE, MOVE, RETUNE)
def test_the_budget_is_for_any_hour_and_ends_with_it(change: Change) -> None:
    assert held(change, situation((3599.0, ChangeKind.MOVE), (300.0, ChangeKind.REMOVE))) == (
        DecisionReason.HOURLY_BUDGET_SPENT,
        (("wanted", change.reason.value), ("changes", 2), ("bound", 2)),
    )
    assert held(change, situation((3600.0, ChangeKind.MOVE), (300.0, ChangeKind.REMOVE))) is None
    assert held(change, situation(*((age, ChangeKind.ADD) for age in (900.0, 800.0, 700.0)))) is None


def test_after_as_many_reversals_as_allowed_nothing_is_removed() -> None:
    reversed_once = ((2000.0, ChangeKind.REMOVE), (1000.0, ChangeKind.ADD))
    assert held(REMOVE, situation(*reversed_once)) == (
        DecisionReason.REVERSALS_SPENT,
        (("wanted", "SustainedSlack"), ("reversals", 1), ("bound", 1)),
    )
    assert held(REMOVE, situation(*reversed_once, policy=replace(POLICY, reversals_per_hour=2))) is None
    assert held(REMOVE, situation((4600.0, ChangeKind.REMOVE), (3600.0, ChangeKind.ADD))) is None
    for other in (ADD, MOVE, RETUNE):
        assert held(other, situation(*reversed_once)) is None


@each_of(REMOVE, MOVE, RETUNE)
def test_after_a_roll_back_everything_but_additions_waits_for_half_as_long_again(change: Change) -> None:
    patient = replace(POLICY, reversals_per_hour=5)
    bound = int(POLICY.cooldown_seconds * 1.5)
    assert held(change, situation((bound - 1.0, ChangeKind.ROLL_BACK), policy=patient)) == (
        DecisionReason.COOLING_DOWN,
        (("wanted", change.reason.value), ("seconds", bound - 1), ("bound_seconds", bound)),
    )
    assert held(change, situation((float(bound), ChangeKind.ROLL_BACK), policy=patient)) is None
    assert held(ADD, situation((1.0, ChangeKind.ROLL_BACK), policy=patient)) is None


@each_of(MOVE, RETUNE)
def test_what_restarts_all_waits_after_another_of_its_kind(change: Change) -> None:
    for kind in (ChangeKind.MOVE, ChangeKind.RETUNE):
        assert held(change, situation((199.0, kind))) == (
            DecisionReason.COOLING_DOWN,
            (("wanted", change.reason.value), ("seconds", 199), ("bound_seconds", 200)),
        )
        assert held(change, situation((200.0, kind))) is None
    for kind in (ChangeKind.ADD, ChangeKind.REMOVE):
        assert held(change, situation((1.0, kind))) is None


def test_a_removal_waits_after_everything_but_a_removal() -> None:
    """That fewer replicas were enough for the time is its own condition."""
    for kind in (ChangeKind.ADD, ChangeKind.MOVE, ChangeKind.RETUNE):
        assert held_back(REMOVE, situation((199.0, kind))) is not None
        assert held_back(REMOVE, situation((200.0, kind))) is None


def test_a_removal_waits_until_the_load_of_the_last_removal_is_seen_on_the_others() -> None:
    assert held_back(REMOVE, situation((99.0, ChangeKind.REMOVE))) is not None
    assert held_back(REMOVE, situation((100.0, ChangeKind.REMOVE))) is None


def test_a_reversal_makes_the_wait_longer() -> None:
    policy = replace(POLICY, reversals_per_hour=9, changes_per_hour=9)
    calm = situation(policy=policy)
    once = situation((2000.0, ChangeKind.REMOVE), (1900.0, ChangeKind.ADD), policy=policy)
    twice = situation(
        (2000.0, ChangeKind.REMOVE),
        (1900.0, ChangeKind.ADD),
        (1500.0, ChangeKind.REMOVE),
        (1400.0, ChangeKind.ADD),
        policy=policy,
    )
    assert cooldown_seconds(calm) == 200
    assert cooldown_seconds(calm) < cooldown_seconds(once) < cooldown_seconds(twice)


def test_a_clock_set_back_neither_skips_the_cooldown_nor_makes_it_endless() -> None:
    ahead = situation((-3600.0, ChangeKind.ADD))
    assert held_back(REMOVE, ahead) is not None
    noticed = ahead.history.clamped(NOW)
    assert held_back(REMOVE, replace(ahead, history=noticed, now=NOW + 200)) is None


def test_the_users_bounds_are_carried_out_at_once() -> None:
    spent = ((500.0, ChangeKind.REMOVE), (300.0, ChangeKind.ADD), (200.0, ChangeKind.MOVE), (1.0, ChangeKind.ADD))
    too_many = RemoveReplica(DecisionReason.ABOVE_MAX_REPLICAS)
    assert held(too_many, situation(*spent, replicas=4, ready=4)) is None
    assert held(REMOVE, situation(*spent)) is not None


@pytest.mark.parametrize(("added", "count", "is_held"), [(0, 1, False), (1, 1, False), (2, 1, True), (1, 2, True)])
def test_additions_of_an_hour_are_counted_by_replicas(added: int, count: int, *, is_held: bool) -> None:
    """The bound is two, and so many were added before."""
    change = ADD if count == 1 else replace(ADD, count=count)
    history = ChangeHistory((ChangeRecord(NOW - 3000, ChangeKind.ADD, added=added),) if added else ())
    where = replace(situation(policy=replace(POLICY, max_replicas=9, additions_per_hour=2)), history=history)
    found = held(change, where)
    assert (found is not None) is is_held
    assert found is None or found[0] is DecisionReason.ADDITIONS_PER_HOUR_SPENT


DAY = 86_400.0


@pytest.mark.parametrize(("age", "counts"), [(None, False), (0.0, True), (DAY - 1, True), (DAY, False)])
def test_what_was_tried_within_a_day_is_not_tried_again(age: float | None, *, counts: bool) -> None:
    """A replica against an uneven load, and a replacement that was taken back, or that made the slow one itself."""

    def after(kind: ChangeKind, reason: DecisionReason) -> Situation:
        changes = () if age is None else (ChangeRecord(NOW - age, kind, reason.value),)
        return replace(situation(serving=(Serving("p", "n", NOW),)), history=ChangeHistory(changes))

    slow = ReplaceReplica(DecisionReason.REPLICA_SLOW, pod="p", node="n")
    relief = relief_at(after(ChangeKind.ADD, DecisionReason.LOAD_IMBALANCED))
    assert relief == (None if age is None or not counts else NOW - age)
    for kind in (ChangeKind.ROLL_BACK, ChangeKind.REPLACE):
        made_it = counts and (kind is ChangeKind.ROLL_BACK or age != 0)  # it serves since now
        found = held(slow, after(kind, DecisionReason.REPLICA_SLOW))
        assert (found is not None and found[0] is DecisionReason.REPLACING_DOES_NOT_HELP) is made_it
        assert relief_at(after(kind, DecisionReason.LOAD_IMBALANCED)) is None


@pytest.mark.parametrize("reason", [DecisionReason.REPLICA_SLOW, DecisionReason.REPLICA_SILENT])
def test_a_new_replica_on_a_node_that_was_left_is_no_sign_that_replacing_does_not_help(reason: DecisionReason) -> None:
    """Kubernetes may put it there. On another node it is such a sign."""
    made = ChangeHistory((ChangeRecord(NOW - 600, ChangeKind.REPLACE, reason.value),))
    left = (Rehoming("l4-24gb", Split(1), reason.value, "bad", at=NOW - 600),)
    where = replace(situation(policy=replace(POLICY, changes_per_hour=6)), history=made, left=left)
    for node, is_held in (("bad", False), ("other", True)):
        placement = replace(where.placement, serving=(Serving("p", node, NOW - 300),))
        found = held(ReplaceReplica(reason, pod="p", node=node), replace(where, placement=placement))
        assert (found is not None and found[0] is DecisionReason.REPLACING_DOES_NOT_HELP) is is_held


@given(
    st.lists(
        st.tuples(
            st.floats(-4000, 4000), st.sampled_from([DecisionReason.REPLICA_SLOW, DecisionReason.REPLICA_SILENT])
        ),
        max_size=40,
    )
)
@example([(1.0, DecisionReason.REPLICA_SLOW)] * 9)
def test_in_any_hour_at_most_four_replicas_are_replaced_and_four_nodes_left(
    steps: list[tuple[float, DecisionReason]],
) -> None:
    """Also if the clock is set back. With fewer replacements in the hour, the next one is free."""
    where, left, now = situation(policy=replace(POLICY, changes_per_hour=120)), tuple[Rehoming, ...](), NOW
    made: list[float] = []
    for number, (seconds, reason) in enumerate(steps):
        now += seconds
        made = [min(at, now) for at in made]
        where = replace(where, now=now, history=where.history.clamped(now), left=of_last_hour(left, now))
        change = ReplaceReplica(reason, pod=f"p{number}", node=f"n{number}")
        leaves = [Departure("l4-24gb", Split(1), reason.value, change.node)]
        lately = sum(now - at < 3600 for at in made)
        found = held(change, where)
        if found is None:
            made.append(now)
            where = replace(where, history=where.history.recorded(ChangeRecord(now, ChangeKind.REPLACE, reason.value)))
        else:
            assert found[0] is DecisionReason.HOURLY_BUDGET_SPENT
            assert dict(found[1])["bound"] == 4
        assert (found is None) is (lately < 4)
        left = remembered(left, leaves if found is None else (), now)
        assert len(of_last_hour(left, now)) <= 4


def test_the_bound_that_lasts_longest_is_named() -> None:
    """Setting, then the hour, then the reversals, then the cool-down."""
    reversal = ((500.0, ChangeKind.REMOVE), (100.0, ChangeKind.ADD))
    named = [
        held_back(REMOVE, situation(*reversal, (90.0, ChangeKind.MOVE), policy=replace(POLICY, min_replicas=2))),
        held_back(REMOVE, situation(*reversal, (90.0, ChangeKind.MOVE))),
        held_back(REMOVE, situation(*reversal)),
        held_back(REMOVE, situation((100.0, ChangeKind.ADD))),
    ]
    assert [wait and wait.reason for wait in named] == [
        DecisionReason.AT_MIN_REPLICAS,
        DecisionReason.HOURLY_BUDGET_SPENT,
        DecisionReason.REVERSALS_SPENT,
        DecisionReason.COOLING_DOWN,
    ]


def test_a_move_under_way_is_waited_for() -> None:
    assert under_way(situation()) is None
    assert under_way(situation(moving=True, ready=3)) == Wait(
        DecisionReason.MOVE_UNDER_WAY, (("replicas", 2), ("ready", 3))
    )


# -- what the hour and the rest of the cluster forbid ------------------------------------------------------------------

AUTO, ASKS = replace(POLICY, mode=Mode.AUTO), replace(POLICY, mode=Mode.AUTO, asks_before_moves=True)
CLOSED = Allowance(opening=Opening(is_open=False, opens_at=NOW + 90.0))
SPENT = Allowance(spent=Spent(Scope.CLUSTER, 12, 12))


def allowed(allowance: Allowance, policy: RebalancePolicy = AUTO, **placement: Any) -> Situation:
    return replace(situation(policy=policy, **placement), allowance=allowance)


@each_of(MOVE, RETUNE)
def test_outside_every_window_what_restarts_engines_waits_for_the_next_one(change: Change) -> None:
    opens: Numbers = (("opens", to_rfc3339(NOW + 90)), ("minutes", 2))
    expected = DecisionReason.OUTSIDE_MAINTENANCE_WINDOW, (("wanted", change.reason.value), *opens)
    assert held(change, allowed(CLOSED)) == expected
    assert held(change, allowed(CLOSED, ready=1)) == expected, "the window is waited for the longest"
    assert held(change, allowed(Allowance(opening=Opening(is_open=True)))) is None


@each_of(MOVE, RETUNE)
def test_without_a_move_left_in_the_fleet_what_restarts_engines_waits(change: Change) -> None:
    figures: Numbers = (("moves", 12), ("bound", 12), ("scope", "cluster"))
    expected = DecisionReason.FLEET_BUDGET_SPENT, (("wanted", change.reason.value), *figures)
    assert held(change, allowed(SPENT)) == expected
    assert held(change, allowed(Allowance())) is None


@each_of(ADD, REMOVE)
@pytest.mark.parametrize("allowance", [CLOSED, SPENT], ids=["no window", "no move left"])
def test_replicas_are_added_and_removed_at_any_time(change: Change, allowance: Allowance) -> None:
    assert held_back(change, allowed(allowance)) is None


@pytest.mark.parametrize("allowance", [CLOSED, SPENT], ids=["no window", "no move left"])
def test_what_people_are_asked_about_is_proposed_at_any_time(allowance: Allowance) -> None:
    for change in (MOVE, RETUNE):
        assert held_back(change, allowed(allowance, replace(POLICY, mode=Mode.RECOMMEND))) is None
    assert held_back(MOVE, allowed(allowance, ASKS)) is None
    assert held_back(RETUNE, allowed(allowance, ASKS)) is not None, "it is carried out without an approval"


def forecast_added(age: float, *others: ChangeRecord) -> Situation:
    """Two ready replicas, of which a forecast added one so many seconds ago; a start-up takes 50 s."""
    mark = ChangeRecord(NOW - age, ChangeKind.ADD, DecisionReason.RISE_EXPECTED.value)
    where = situation(policy=replace(POLICY, cooldown_seconds=2000))
    return replace(where, history=ChangeHistory((*others, mark)), memory=LoopMemory(startup_seconds=50.0))


def test_what_a_forecast_added_goes_once_its_arrivals_should_have_come() -> None:
    bound = 50 + int(STEP_SECONDS)
    found = (("wanted", "SustainedSlack"), ("seconds", bound - 1), ("bound_seconds", bound))
    assert held(REMOVE, forecast_added(bound - 1)) == (DecisionReason.COOLING_DOWN, found)
    assert held(REMOVE, forecast_added(bound)) is None


def test_what_arrivals_added_cools_down_as_ever_next_to_a_forecast() -> None:
    usual = ChangeRecord(NOW - 1999, ChangeKind.ADD, DecisionReason.ARRIVALS_EXCEED_CAPACITY.value)
    found = (("wanted", "SustainedSlack"), ("seconds", 1999), ("bound_seconds", 2000))
    assert held(REMOVE, forecast_added(1500, usual)) == (DecisionReason.COOLING_DOWN, found)


def test_a_forecast_never_waits_longer_than_a_cool_down() -> None:
    where = forecast_added(200)
    assert held(REMOVE, replace(where, policy=POLICY)) is None


@pytest.mark.parametrize(("least", "replicas", "stays"), [(0, 1, True), (0, 2, False), (2, 2, True), (2, 3, False)])
def test_the_last_replica_gives_way_to_nobody_even_if_none_has_to_run(
    least: int, replicas: int, *, stays: bool
) -> None:
    where = situation(policy=replace(POLICY, min_replicas=least), replicas=replicas, ready=replicas)
    wait = held_back(RemoveReplica(DecisionReason.GIVES_WAY), where)
    assert (wait is not None and wait.reason is DecisionReason.AT_MIN_REPLICAS) is stays
