"""Orders to make room: how long each counts, and why it does not any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from plimsoll.api.v1alpha1 import MovesMode, RebalancingMode
from plimsoll.decision.deployment import Deployment
from plimsoll.decision.room_orders import RoomOrders, is_willing
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.inbox import Vote
from plimsoll.rebalance.state.history import ChangeHistory
from plimsoll.rebalance.state.room import Leaving, RoomOrder, RoomProgress, sealed
from tests.support.engine_loads import NOW

ENDS = Leaving("p1", "n", ends=True)
MOVES = Leaving("p1", "n", ends=False)
LONGEST_SECONDS = 7200.0


def deployment(name: str, **changes: Any) -> Deployment:
    """A deployment that the live loop may move, with one pod and one place."""
    given = {
        "mode": RebalancingMode.AUTO, "moves": MovesMode.AUTO, "suspend": False, "spec": True, "request": True,
        "alone": False, "pools": 1, "history": ChangeHistory(), "room": None, "replacing": None, "generation": 3,
        "votes": (), "pending": True, "preempts": True, "priority": 0, "ready": True, "namespace": "default",
    } | changes  # fmt: skip
    rebalancing = SimpleNamespace(mode=given["mode"], moves=given["moves"])
    pod = SimpleNamespace(uid=f"p{name}", name=f"pod-{name}", node="n", ready=given["ready"])
    key = ObjectKey(str(given["namespace"]), name)
    return cast(
        "Deployment",
        SimpleNamespace(
            key=key,
            identity=SimpleNamespace(key=key, generation=given["generation"]),
            spec=SimpleNamespace(suspend=given["suspend"], rebalancing=rebalancing) if given["spec"] else None,
            asked=SimpleNamespace(
                request=SimpleNamespace(mounts_alone=given["alone"]) if given["request"] else None,
                priority=SimpleNamespace(preempts=given["preempts"], value=given["priority"]),
            ),
            placed=SimpleNamespace(
                pools=("pool",) * int(str(given["pools"])), around=SimpleNamespace(pods={"pool": (pod,)})
            ),
            record=SimpleNamespace(history=given["history"], room=given["room"], replacing=given["replacing"]),
            people=SimpleNamespace(pending=SimpleNamespace(votes=given["votes"]) if given["pending"] else None),
        ),
    )


@pytest.mark.parametrize(
    ("changes", "willing"),
    [
        ({}, True),
        ({"moves": MovesMode.RECOMMEND}, False),
        ({"mode": RebalancingMode.RECOMMEND}, False),
        ({"mode": RebalancingMode.OFF}, False),
        ({"suspend": True}, False),
        ({"spec": False}, False),
        ({"request": False}, False),
        ({"alone": True}, False),
        ({"pools": 0}, False),
        ({"pools": 2}, False),
    ],
    ids=str,
)
def test_whoever_may_be_moved_without_a_question_is_willing(changes: dict[str, Any], *, willing: bool) -> None:
    assert is_willing(deployment("1", **changes), NOW) is willing


def order(*leaving: Leaving, began: float = NOW - 10.0) -> RoomOrder:
    return RoomOrder(sealed("basis", leaving), "basis", "vote", 3, began, leaving)


def vote(proposal: str, **changes: Any) -> Vote:
    given = {"uid": "vote", "proposal": proposal, "by": "alex", "approves": True, "reason": "", "created": NOW - 20}
    return Vote(**cast("Any", given | changes))


def progress(leaving: Leaving = ENDS, *, began: float = NOW - 10.0, owner: Any = None, **changes: Any) -> RoomProgress:
    made = order(leaving, began=began)
    usual = {"room": made, "votes": (vote(made.proposal),), "priority": 5}
    needs = deployment("0", **usual | changes)
    found = RoomOrders.of([needs, deployment("1", **(owner or {}))], NOW).about(needs)[1]
    assert found is not None
    return found


OFF = "the live loop is off"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"spec": False}, OFF),
        ({"suspend": True}, OFF),
        ({"mode": RebalancingMode.OFF}, OFF),
        ({"mode": RebalancingMode.RECOMMEND}, ""),
        ({"generation": 4}, "the spec has changed"),
        ({"votes": ()}, "its approval is gone"),
        ({"pending": False}, "its approval is gone"),
        ({"votes": (vote("another"),)}, "its approval is gone"),
        ({"votes": (vote(order(ENDS).proposal, uid="other"),)}, "its approval is gone"),
        ({"votes": (vote(order(ENDS).proposal, approves=False),)}, "its approval is gone"),
        ({"began": NOW - LONGEST_SECONDS + 1}, ""),
        ({"began": NOW - LONGEST_SECONDS}, "it took too long"),
        ({"began": NOW + 99}, ""),
        ({"priority": 0}, "its priority does not let it take the place of others any more"),
        ({"preempts": False}, "its priority does not let it take the place of others any more"),
        ({"priority": 0, "leaving": MOVES}, ""),
        (
            {"owner": {"suspend": True}},
            "a replica of another deployment did not move, or its owner does not let it any more",
        ),
    ],
    ids=str,
)
def test_an_order_counts_as_long_as_everything_that_was_approved_holds(changes: dict[str, Any], why: str) -> None:
    assert progress(**changes) == RoomProgress(1, why)


def test_pods_that_have_gone_hold_nothing_back() -> None:
    gone = Leaving("p9", "n", ends=True)
    assert progress(gone, priority=0) == RoomProgress(0, "")


def test_the_owner_of_a_pod_is_asked_for_it_while_the_order_counts() -> None:
    made = order(ENDS)
    needs = deployment("0", room=made, votes=(vote(made.proposal),), priority=5)
    owner = deployment("1")
    asked, own = RoomOrders.of([needs, owner], NOW).about(owner)
    assert asked is not None
    assert (asked.pod, asked.node, asked.whom, asked.ends, own) == ("pod-1", "n", "0", True, None)
    elsewhere = deployment("1", namespace="other")
    asked, _ = RoomOrders.of([needs, elsewhere], NOW).about(elsewhere)
    assert asked is not None
    assert asked.whom == "another deployment"
    for there in (deployment("1", ready=False), deployment("2")):
        assert RoomOrders.of([needs, there], NOW).about(there)[0] is None
    late = deployment("0", room=made, votes=(), priority=5)
    assert RoomOrders.of([late, owner], NOW).about(owner)[0] is None
    assert RoomOrders.of([owner], NOW) == RoomOrders()
