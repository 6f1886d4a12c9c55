"""Changes that are carried out at once, and those that need an approval."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from plimsoll.decision.approving import Offered, approval_of, is_carried_out, is_change, offered_by
from plimsoll.placement.demands.pools import Decision
from plimsoll.placement.transition.hypothesis import WhatIf
from plimsoll.rebalance.decide import LoopResult
from plimsoll.rebalance.inbox import AnsweredProposals, PendingProposals, Posted, Vote, proposal_id
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Keep, Move, Wait
from plimsoll.rebalance.state.policy import Mode
from tests.support.planning import request

REASON = DecisionReason.SUSTAINED_QUEUE
ADD, MOVE, KEEP, WAIT = AddReplica(REASON), Move(REASON), Keep(REASON), Wait(REASON)
NOW, THEN, MADE = (Decision(request(replicas=each), ()) for each in (1, 2, 3))
WHAT_IF = cast("WhatIf", SimpleNamespace(decision=NOW))
PENDING = PendingProposals("uid", 4)
ANSWER = cast("Any", SimpleNamespace(decision=THEN))


def room(change: Any) -> Any:
    """Room that others can make for a change."""
    return SimpleNamespace(change=change, then=MADE)


def result(decision: Any, **changes: Any) -> LoopResult:
    return cast(
        "LoopResult",
        SimpleNamespace(**{"decision": decision, "answer": None, "room": None, "proposal": None} | changes),
    )


@pytest.mark.parametrize(("decision", "expected"), [(ADD, True), (MOVE, True), (KEEP, False), (WAIT, False)])
def test_adding_and_moving_change_something_and_waiting_does_not(decision: Any, *, expected: bool) -> None:
    assert is_change(decision) is expected


@pytest.mark.parametrize(
    ("decided", "mode", "expected"),
    [
        (result(ADD, answer=ANSWER), Mode.AUTO, True),
        (result(ADD, answer=ANSWER), Mode.RECOMMEND, False),
        (result(ADD), Mode.AUTO, False),
        (result(WAIT, answer=ANSWER), Mode.AUTO, False),
    ],
    ids=["it has a place", "people decide", "it has none", "no change"],
)
def test_a_change_with_a_place_is_carried_out_if_the_policy_allows_it(
    decided: LoopResult, mode: Mode, *, expected: bool
) -> None:
    policy = cast("Any", SimpleNamespace(carries_out=lambda _: mode is Mode.AUTO))
    assert is_carried_out(policy, decided) is expected


@pytest.mark.parametrize(
    ("decided", "pending", "then"),
    [
        (result(ADD, answer=ANSWER), PENDING, THEN),
        (result(WAIT, room=room(ADD)), PENDING, MADE),
        (result(WAIT, answer=ANSWER, room=room(ADD)), PENDING, MADE),
        (result(ADD, answer=ANSWER), None, None),
        (result(ADD), PENDING, None),
        (result(KEEP, answer=ANSWER), PENDING, None),
        (result(ADD, room=room(KEEP)), PENDING, None),
    ],
    ids=["a place", "room", "room and a place", "no proposals", "no place", "no change", "room for no change"],
)
def test_what_people_may_decide_has_a_destination(
    decided: LoopResult, pending: PendingProposals | None, then: Decision | None
) -> None:
    found = offered_by(decided, WHAT_IF, pending)
    if then is None:
        assert found is None
        return
    assert found is not None
    assert (found.now, found.then, found.change, found.proposal) == (NOW, then, ADD, None)
    assert found.id == found.basis == proposal_id("uid", 4, ADD, NOW, then)


@pytest.mark.parametrize("by_loop", [False, True])
def test_if_an_approval_changes_others_they_are_part_of_the_id(by_loop: bool) -> None:  # noqa: FBT001 - a column
    proposal = cast("Any", SimpleNamespace(by_loop=by_loop, steps=(), moves=(), ends=(), changes=()))
    found = offered_by(result(WAIT, room=room(ADD), proposal=proposal), WHAT_IF, PENDING)
    assert found is not None
    assert found.basis == proposal_id("uid", 4, ADD, NOW, MADE)
    assert (found.id != found.basis) is by_loop


def test_an_approval_counts_for_what_is_offered_to_somebody() -> None:
    vote = Vote("v", "id", "alex", approves=True, reason="", created=1.0)
    pending = PendingProposals("uid", 1, (Posted("id", 1, 0.0, 100.0),), (vote,))
    offered, answered = Offered("id", NOW, THEN, ADD), AnsweredProposals()
    assert approval_of(offered, pending, answered, 2.0) == vote
    assert approval_of(None, pending, answered, 2.0) is None
    assert approval_of(offered, None, answered, 2.0) is None
