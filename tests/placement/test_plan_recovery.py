"""A pass over what a crash, a lost node or a failed start has left behind."""

from __future__ import annotations

from plimsoll.domain.requests.serving import ServingShape
from plimsoll.placement.demands.pools import Decision, PoolState
from plimsoll.placement.plan import plan
from tests.support.planning import H100, L4, L40S, fleet, node, pool, request, tenant

DECIDED_ONLY = {"bound": 0, "ready": 0, "exists": False}
NOT_SERVING = {"ready": 0}


def pools_of(decision: Decision) -> dict[tuple[str, PoolState], int]:
    return {(each.gpu_type, each.state): each.replicas for each in decision.pools}


def test_a_decision_that_was_never_carried_out_is_carried_out() -> None:
    where = fleet(node("h", H100, 1), node("l", L40S, 1))
    (decision,) = plan([tenant(request(), pool(H100, **DECIDED_ONLY))], where)
    assert pools_of(decision) == {(H100, PoolState.ACTIVE): 1}
    assert not decision.placed_now


def test_a_decision_that_was_never_carried_out_and_lost_its_nodes_is_taken_again() -> None:
    (decision,) = plan([tenant(request(), pool(L4, **DECIDED_ONLY))], fleet(node("h", H100, 1)))
    assert pools_of(decision) == {(H100, PoolState.ACTIVE): 1}
    assert decision.missing == 0


def test_what_runs_on_a_lost_node_is_left_to_the_scheduler() -> None:
    (decision,) = plan([tenant(request(), pool(L4))], fleet(node("h", H100, 1)))
    assert pools_of(decision) == {(L4, PoolState.ACTIVE): 1}


def test_gpus_promised_to_a_deployment_that_cannot_be_planned_now_are_not_given_away() -> None:
    where = fleet(node("h", H100, 2))
    unreadable = pool(H100, replicas=2, bound=1, ready=1)
    [alone] = plan([tenant(request(replicas=2))], where)
    [beside] = plan([tenant(request(replicas=2))], where, (), [unreadable])
    assert pools_of(alone) == {(H100, PoolState.ACTIVE): 2}
    assert pools_of(beside) == {(H100, PoolState.ACTIVE): 1}
    assert beside.missing == 1


def test_pods_that_serve_nobody_give_way_to_the_change_that_cures_them() -> None:
    wider = request(context=65536, concurrency=8)
    where = fleet(node("h", H100, 2, held=2))
    ((failing,), (serving,)) = (
        plan([tenant(wider, pool(H100, replicas=2, **more), generation=2)], where) for more in (NOT_SERVING, {})
    )
    assert failing.pools == ()
    assert not failing.change_blocked
    assert pools_of(serving) == {(H100, PoolState.ACTIVE): 1}
    assert serving.change_blocked


def test_what_cures_them_takes_as_many_gpus_as_there_are() -> None:
    """Two of three replicas have room: the search for all three at once found them, and they are not counted twice."""
    wider = request(context=65536, concurrency=8, replicas=3)
    old = pool(L40S, replicas=3, bound=0, ready=0, exists=False)
    [decision] = plan([tenant(wider, old, generation=2)], fleet(node("h", H100, 4)))
    assert pools_of(decision) == {(H100, PoolState.ACTIVE): 2}
    assert decision.missing == 1


def test_pods_that_serve_nobody_stay_where_giving_way_would_not_help() -> None:
    impossible = request(shape=ServingShape(131072, 4096))
    (decision,) = plan([tenant(impossible, pool(H100, **NOT_SERVING), generation=2)], fleet(node("h", H100, 1, held=1)))
    assert pools_of(decision) == {(H100, PoolState.ACTIVE): 1}
    assert decision.change_blocked


def test_an_old_pool_that_serves_is_kept_when_its_successor_came_to_nothing() -> None:
    old = pool(H100, state=PoolState.RETIRING)
    successor = pool(L4, generation=2, **DECIDED_ONLY)
    wanted = request(replicas=1)
    (decision,) = plan([tenant(wanted, old, successor, generation=2)], fleet(node("h", H100, 1, held=1)))
    assert pools_of(decision) == {(H100, PoolState.RETIRING): 1}
    assert decision.missing == 1


def test_an_old_pool_goes_when_nothing_is_wanted_any_more() -> None:
    old = pool(H100, state=PoolState.RETIRING)
    (decision,) = plan([tenant(request(replicas=0), old)], fleet(node("h", H100, 1, held=1)))
    assert (H100, PoolState.RETIRING) not in pools_of(decision)
