"""The GPUs and the start-up of a proposal: what a change takes, what it frees, and how long it takes to serve."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.api.v1alpha1.inbox import ProposalContent
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import GpuConstraints, Overrides
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, LoopDecision, Move, RemoveReplica
from plimsoll.render.placement_proposals import LONGEST_STARTUP, Found, Owner, placement_proposal
from tests.render.workloads import decision
from tests.support.planning import H100, L40S, fleet, node, request

FLEET = fleet(node("h", H100, 8, held=2), node("h2", H100, 8), node("l", L40S, 4, held=4))
ONE = decision(where=fleet(node("l", L40S, 4)))
TWO_GPUS = decision(
    request(replicas=2, overrides=Overrides(tensor_parallel=2), constraints=GpuConstraints(allow=(H100,))), FLEET
)
ADDS = AddReplica(DecisionReason.BELOW_MIN_REPLICAS, (("replicas", 1), ("min", 2)))
MOVES = Move(DecisionReason.PLACEMENT_TOO_SMALL, (("held_tokens", 1000), ("needed_tokens", 2000)))
LEAVES = RemoveReplica(DecisionReason.ABOVE_MAX_REPLICAS, (("replicas", 3), ("max", 2)))


def content(change: LoopDecision, startup: float | None, where: Fleet = FLEET) -> dict[str, Any]:
    """The content of a proposal from one L40S to two replicas on two H100 each, as the API takes it."""
    body = placement_proposal(
        Owner(ObjectKey("ml", "llama"), "u", 1), Found("0" * 12, change, ONE, TWO_GPUS, None, startup), where, 0.0
    )
    found = {name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata")}
    ProposalContent.model_validate(found, strict=True, by_alias=True, by_name=False)
    return found


def test_a_move_says_for_each_gpu_type_what_it_takes_what_it_frees_and_what_is_free_now() -> None:
    assert content(MOVES, None)["gpus"] == [
        {"gpuType": H100, "before": 0, "after": 4, "free": 14},
        {"gpuType": L40S, "before": 1, "after": 0, "free": 0},
    ]


def test_a_type_whose_nodes_are_gone_has_no_free_gpus() -> None:
    assert [each["free"] for each in content(MOVES, None, fleet(node("h", H100, 8)))["gpus"]] == [8, 0]


@pytest.mark.parametrize(
    ("change", "seen", "shown"),
    [
        (ADDS, 94.4, 94),
        (MOVES, 94.6, 95),
        (ADDS, None, None),
        (LEAVES, 94.4, None),
        (ADDS, 10.0**9, LONGEST_STARTUP),
    ],
)
def test_the_longest_start_up_that_was_seen_is_given_where_a_replica_starts(
    change: LoopDecision, seen: float | None, shown: int | None
) -> None:
    assert content(change, seen).get("startupSeconds") == shown
