"""The places that a plan leaves to one deployment, and the order to have all of its replicas at one of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.placement.demands.pools import Decision, Place, PoolState, Tenant
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.transition.hypothesis import Market, Plan
from tests.support.planning import A100, H100, L4, L40S, fleet, gpu, node, pool, request, tenant
from tests.support.world_plans import planned

ONE = Split(1)
MODES = ("moves", "moves", "suspended", "mounts alone")


def market(one: Tenant, plan: Plan) -> Market:
    return plan.market(one.request.key)


def room(one: Tenant, plan: Plan, kind: str, replicas: int = 1) -> bool:
    offered = {option.target.place: option for option in market(one, plan).options(one.request)}
    return market(one, plan).has_room(one.request.with_replicas(replicas), offered[kind, ONE])


def sent(one: Tenant, plan: Plan, place: Place, replicas: int) -> Decision:
    wanted = one.request.with_replicas(replicas)
    return plan.ask(replace(one, request=wanted, goes_to=place)).decision


def states(decision: Decision) -> dict[tuple[str, str], int]:
    return {(each.gpu_type, each.state.value): each.replicas for each in decision.pools}


def test_a_place_is_offered_whether_it_is_free_or_not() -> None:
    one = tenant(request(), pool(H100))
    plan = planned([one], fleet(node("h", H100, 2, held=1), node("l", L40S, 2, held=2)))
    assert (room(one, plan, H100), room(one, plan, L40S)) == (True, False)


def test_the_own_share_of_a_plan_counts_as_free_and_that_of_others_does_not() -> None:
    new, other = tenant(request()), tenant(request(name="other"))
    plan = planned([new, other], fleet(node("l", L40S, 2)))
    assert room(new, plan, L40S)
    assert not room(new, plan, L40S, 2)
    assert room(new, planned([new], fleet(node("l", L40S, 2))), L40S, 2)


def test_a_deployment_that_waits_makes_the_market_contended() -> None:
    runs, waits = tenant(request(), pool(L40S)), tenant(request(name="waits", replicas=2))
    assert market(runs, planned([runs, waits], fleet(node("l", L40S, 2, held=1)))).is_contended
    assert not market(runs, planned([runs, waits], fleet(node("l", L40S, 3, held=1)))).is_contended


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (node("l", L40S, 4, held=1), True),
        (node("l", L40S, 4, held=2), False),
        (node("l", gpu(L40S, price="0.99"), 4, held=1), False),
    ],
    ids=["nothing", "a GPU is taken", "a price"],
)
def test_the_digest_changes_with_prices_and_free_gpus(now: GpuNode, *, same: bool) -> None:
    one = tenant(request(), pool(H100))
    first, second = (
        market(one, planned([one], fleet(node("h", H100, 2, held=1), each))).digest
        for each in (node("l", L40S, 4, held=1), now)
    )
    assert (first == second) is same


def test_all_replicas_go_to_one_place_and_the_old_ones_serve_until_then() -> None:
    one = tenant(request(replicas=2), pool(H100, replicas=2))
    plan = planned([one], fleet(node("h", H100, 8, held=2), node("a", A100, 8), node("l", L40S, 8)))
    moved = sent(one, plan, (A100, ONE), 3)
    assert states(moved) == {(A100, "Active"): 3, (H100, "Retiring"): 2}
    assert (moved.missing, moved.change_blocked) == (0, False)


def test_replicas_that_are_there_already_stay() -> None:
    spilled = tenant(request(replicas=3), pool(L40S, replicas=2), pool(H100))
    plan = planned([spilled], fleet(node("h", H100, 1, held=1), node("l", L40S, 3, held=2), node("4", L4, 8)))
    assert states(sent(spilled, plan, (L40S, ONE), 3)) == {(L40S, "Active"): 3, (H100, "Retiring"): 1}


def test_without_room_for_all_nothing_moves() -> None:
    one = tenant(request(replicas=2), pool(H100, replicas=2))
    plan = planned([one], fleet(node("h", H100, 8, held=2), node("a", A100, 1), node("l", L40S, 8)))
    blocked = sent(one, plan, (A100, ONE), 2)
    assert states(blocked) == {(H100, "Active"): 2}
    assert blocked.change_blocked


def test_without_the_order_a_hypothesis_is_as_ever() -> None:
    one = tenant(request(replicas=2), pool(H100, replicas=2))
    plan = planned([one], fleet(node("h", H100, 8, held=2), node("a", A100, 8)))
    assert states(plan.ask(one).decision) == {(H100, "Active"): 2}


def test_a_suspended_deployment_obeys_no_order() -> None:
    still = tenant(request(), pool(H100), suspended=True)
    plan = planned([still], fleet(node("h", H100, 8, held=1), node("a", A100, 8)))
    assert states(sent(still, plan, (A100, ONE), 1)) == {(H100, "Active"): 1}


MARKET = st.fixed_dictionaries({kind: st.integers(0, 3) for kind in (A100, L40S, L4)})


@given(free=MARKET, replicas=st.integers(1, 3), mode=st.sampled_from(MODES))
def test_who_must_leave_goes_to_the_cheapest_place_with_room_for_all(
    free: dict[str, int], replicas: int, mode: str
) -> None:
    """The honest neighbour keeps its pool and its GPUs."""
    asked = request(replicas=replicas, mounts_alone=mode == "mounts alone")
    one = tenant(asked, pool(H100, replicas=replicas), suspended=mode == "suspended")
    other = tenant(request(name="other"), pool(L40S))
    there = [node(kind, kind, count + (kind == L40S), held=int(kind == L40S)) for kind, count in free.items()]
    plan = planned([one, other], fleet(node("h", H100, 8, held=replicas), *there))
    answer = plan.elsewhere(asked.key)
    open_to = [kind for kind in (L4, L40S, A100) if free[kind] >= replicas]
    if not open_to or (mode != "moves"):
        assert answer is None
        return
    assert answer is not None
    assert states(answer.decision) == {(open_to[0], "Active"): replicas, (H100, "Retiring"): replicas}
    left = plan.adopted(answer)
    assert states(left.decisions[other.request.key]) == {(L40S, "Active"): 1}
    assert all(count >= 0 for count in left.left.ledger.free.values())


def test_who_moves_already_is_not_moved_once_more() -> None:
    where = fleet(node("h", H100, 8, held=1), node("a", A100, 8, held=1), node("l", L40S, 8))
    moving = tenant(request(), pool(A100, ready=0), pool(H100, state=PoolState.RETIRING))
    assert planned([moving], where).elsewhere(moving.request.key) is None
    left = Rehoming(L40S, ONE, at=0.0)
    back = tenant(request(), pool(A100), left=(left,))
    where = fleet(node("a", A100, 1, held=1), node("l", L40S, 8))
    assert planned([back], where).elsewhere(back.request.key) is None
