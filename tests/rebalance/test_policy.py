"""The bounds of the live loop: which are refused, and how replicas are kept within them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.decision.turns import policy_of
from plimsoll.domain.errors import InvalidInput
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Move, RemoveReplica, Retune
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from tests.support.tables import every_case


def test_without_a_word_of_the_user_nothing_is_carried_out() -> None:
    assert RebalancePolicy().mode is Mode.RECOMMEND


@every_case(
    ("least", "below", "field"),
    [
        ({"min_replicas": 0}, {"min_replicas": -1}, "minReplicas"),
        ({"min_replicas": 3, "max_replicas": 3}, {"min_replicas": 3, "max_replicas": 2}, "maxReplicas"),
        ({"changes_per_hour": 0}, {"changes_per_hour": -1}, "changesPerHour"),
        ({"reversals_per_hour": 0}, {"reversals_per_hour": -1}, "reversalsPerHour"),
        ({"window_seconds": 1}, {"window_seconds": 0}, "windowSeconds"),
        ({"cooldown_seconds": 0}, {"cooldown_seconds": -1}, "cooldownSeconds"),
        ({"additions_per_hour": 1}, {"additions_per_hour": 0}, r"limits\.additionsPerHour"),
    ],
)
def test_the_least_value_of_a_bound_is_allowed_and_one_less_is_refused_by_name(
    least: dict[str, Any], below: dict[str, Any], field: str
) -> None:
    RebalancePolicy(**least)
    with pytest.raises(InvalidInput, match=rf"rebalance\.{field}: -?\d+ cannot be used. Use \d+ or more"):
        RebalancePolicy(**below)


@pytest.mark.parametrize(
    ("policy", "moves", "others"),
    [
        (RebalancePolicy(mode=Mode.OFF), False, False),
        (RebalancePolicy(mode=Mode.RECOMMEND), False, False),
        (RebalancePolicy(mode=Mode.AUTO, asks_before_moves=True), False, True),
        (RebalancePolicy(mode=Mode.AUTO), True, True),
    ],
    ids=["off", "recommend", "moves are proposed", "auto"],
)
def test_only_auto_carries_changes_out_and_moves_can_be_left_to_people(
    policy: RebalancePolicy, *, moves: bool, others: bool
) -> None:
    assert policy.carries_out(Move(DecisionReason.PLACEMENT_TOO_SMALL)) is moves
    for change in (AddReplica, RemoveReplica, Retune):
        assert policy.carries_out(change(DecisionReason.SUSTAINED_QUEUE)) is others


def test_a_spec_that_says_nothing_gives_the_policy_s_own_defaults() -> None:
    bounds = ("mode", "min_replicas", "changes_per_hour", "reversals_per_hour", "window_seconds", "cooldown_seconds")
    silent = {"model": {"name": "Qwen/Qwen2.5-7B-Instruct"}, "contextLength": 4096, "concurrency": 16}
    plain, given = RebalancePolicy(), policy_of(InferenceDeploymentSpec.model_validate(silent))
    assert [getattr(given, bound) for bound in bounds] == [getattr(plain, bound) for bound in bounds]


def test_the_defaults_are_those_that_the_documentation_states() -> None:
    assert asdict(RebalancePolicy()) == {
        "mode": Mode.RECOMMEND,
        "min_replicas": 1,
        "max_replicas": 1,
        "changes_per_hour": 6,
        "reversals_per_hour": 2,
        "window_seconds": 120,
        "cooldown_seconds": 1800,
        "asks_before_moves": False,
        "idle_seconds": None,
        "wakes": False,
        "cut_off": False,
        "scales": True,
        "contested": False,
        "scheduled": None,
        "additions_per_hour": None,
        "dollars_per_hour": None,
    }


@every_case(
    ("least", "wakes", "kept"),
    [(0, True, (1, True)), (0, False, (0, False)), (1, True, (1, False)), (2, False, (2, False))],
)
def test_a_replica_is_kept_awake_where_a_request_would_start_the_first_one(
    least: int,
    wakes: bool,  # noqa: FBT001 - a column
    kept: tuple[int, bool],
) -> None:
    awake = RebalancePolicy(min_replicas=least, max_replicas=4, wakes=wakes).awake
    assert (awake.min_replicas, awake.cut_off) == kept
