"""Room at others for one more replica: nothing is promised that planning after the changes would not give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from plimsoll.domain.host import HostNeed, HostRoom
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.outcomes import Split
from plimsoll.domain.priorities import Priority
from plimsoll.domain.proposals import Proposal, ProposalReason
from plimsoll.domain.serving import GpuConstraints, Overrides
from plimsoll.placement.answers import Answer
from plimsoll.placement.hypothesis import Plan
from plimsoll.placement.move_charge import LEAST_SECONDS
from plimsoll.placement.pools import PoolState, Tenant
from plimsoll.placement.proposing import making_room
from plimsoll.placement.proposing.making_room import Neighbours, room_for
from plimsoll.placement.proposing.running import Running
from plimsoll.placement.room import Room
from tests.support.planning import H100, fleet, node, pool, request, tenant
from tests.support.world_plans import planned

GOLD, LOW = ObjectKey("ns", "gold"), ObjectKey("ns", "low")
HIGH = Priority(10, preempts=True)


def deployment(key: ObjectKey, replicas: int, gpus: int = 1, **changes: Any) -> Tenant:
    wanted = request(
        key=key,
        replicas=replicas,
        overrides=Overrides(tensor_parallel=gpus),
        constraints=GpuConstraints(allow=(H100,)),
    )
    return tenant(wanted, pool(H100, gpus, replicas), **changes)


def replica(of: Tenant, where: str, **changes: Any) -> Running:
    [own] = of.pools
    return Running(of.request.key, own.target, where, of.priority.value, price=Decimal(2), **changes)


def one_more(plan: Plan) -> Answer:
    gold = plan.tenants[GOLD]
    return plan.ask(replace(gold, request=gold.request.with_replicas(gold.request.replicas + 1)))


def found(plan: Plan, running: Sequence[Running], **spare: int) -> Room | None:
    return room_for(
        plan, one_more(plan), Neighbours(tuple(running), {ObjectKey("ns", key): n for key, n in spare.items()})
    )


def room(plan: Plan, running: Sequence[Running], **spare: int) -> Room:
    made = found(plan, running, **spare)
    assert made is not None
    return made


FULL = fleet(node("a", H100, 3, held=3))
GOLD_RUNS = deployment(GOLD, 1, priority=HIGH)


def two_of_low(**changes: Any) -> tuple[Plan, list[Running]]:
    low = deployment(LOW, 2, **changes)
    return planned([GOLD_RUNS, low], FULL), [replica(GOLD_RUNS, "a"), replica(low, "a"), replica(low, "a")]


def test_a_replica_of_lower_priority_would_make_room_and_the_plan_after_it_is_given() -> None:
    plan, running = two_of_low()
    made = room(plan, running, low=1)
    assert made.proposal.reason == ProposalReason.PREEMPT_LOWER_PRIORITY
    [change] = made.proposal.changes
    assert (change.owner, change.leaving.replicas, change.to) == (LOW, 1, None)
    assert [(each.replicas, each.state) for each in made.then.pools] == [(2, PoolState.ACTIVE)]
    assert made.then.missing == 0
    assert [(each.target.place, each.replicas) for each in made.proposal.after] == 2 * [((H100, Split(1)), 1)]
    assert one_more(plan).decision.missing == 1, "nothing was changed by the look"


@pytest.mark.parametrize(
    ("priority", "spare", "is_found"),
    [(9, 1, True), (10, 1, False), (11, 1, False), (9, 0, False)],
    ids=["lower", "equal", "higher", "at its floor"],
)
def test_nobody_of_equal_or_higher_priority_and_nobody_at_its_floor_is_asked(
    priority: int, spare: int, *, is_found: bool
) -> None:
    plan, running = two_of_low(priority=Priority(priority))
    assert (found(plan, running, low=spare) is not None) is is_found


def test_without_the_admin_s_word_nobody_ends() -> None:
    low, gold = deployment(LOW, 2), deployment(GOLD, 1, priority=Priority(10))
    plan = planned([gold, low], FULL)
    assert found(plan, [replica(low, "a"), replica(low, "a")], low=2) is None


TWO = fleet(node("a", H100, 8, held=1), node("b", H100, 8, held=2), node("c", H100, 8, held=8))


def whole_nodes() -> tuple[Plan, list[Running]]:
    gold, low, pair = deployment(GOLD, 1, gpus=8), deployment(LOW, 1), deployment(ObjectKey("ns", "pair"), 1, gpus=2)
    plan = planned([gold, low, pair], TWO)
    return plan, [replica(gold, "c"), replica(low, "a", startup_seconds=400.0), replica(pair, "b")]


def test_a_move_makes_room_for_a_whole_node_whatever_the_floors_and_priorities_are() -> None:
    plan, running = whole_nodes()
    made = room(plan, running)
    assert made.proposal.reason == ProposalReason.DEFRAGMENT_NODE
    [change] = made.proposal.changes
    assert (change.owner, change.node, change.to) == (LOW, "a", "b")
    assert [(each.split.gpus, each.replicas) for each in made.then.pools] == [(8, 2)]


def test_a_moved_replica_starts_before_the_old_one_ends_and_both_take_time() -> None:
    plan, running = whole_nodes()
    assert room(plan, running).seconds == 400 + 90
    unknown = [replace(each, startup_seconds=None) for each in running]
    assert room(plan, unknown).seconds == LEAST_SECONDS + 90


def test_the_time_of_running_requests_is_that_of_the_pool() -> None:
    low = deployment(LOW, 2)
    slow = replace(low, pools=(replace(low.pools[0], drain_seconds=330),))
    plan = planned([GOLD_RUNS, slow], FULL)
    assert room(plan, 2 * [replica(slow, "a")], low=1).seconds == 330


def test_a_node_that_lacks_memory_for_the_moved_replica_is_no_way_out() -> None:
    plan, running = whole_nodes()
    needs = [replace(each, need=HostNeed(1000, 10)) if each.owner == LOW else each for each in running]
    assert found(plan, needs) is not None
    small = HostRoom(cpu_millis=0, memory_bytes=0, pods=9)
    nodes = [replace(each, host=small, host_free=small) if each.name == "b" else each for each in TWO.nodes]
    tight = planned(list(plan.tenants.values()), fleet(*nodes))
    assert found(tight, needs) is None


def test_a_proposal_that_makes_no_room_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, running = two_of_low()
    real = room(plan, running, low=1).proposal
    monkeypatch.setattr(making_room, "proposals_for", lambda *_: (real,))
    assert found(plan, running, low=1) is not None
    monkeypatch.setattr(making_room, "proposals_for", lambda *_: (_elsewhere(real), _gone(real)))
    assert found(plan, running, low=1) is None


def _elsewhere(proposal: Proposal) -> Proposal:
    """Return the proposal with a replica that leaves for where it is."""
    return replace(proposal, changes=tuple(replace(each, to=each.node) for each in proposal.changes))


def _gone(proposal: Proposal) -> Proposal:
    """Return the proposal about a node that the fleet does not have."""
    return replace(proposal, changes=tuple(replace(each, node="gone") for each in proposal.changes))
