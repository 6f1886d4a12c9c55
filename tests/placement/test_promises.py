"""GPUs kept for pods that are not there yet: for a while, as far as the quota goes, and never for what cannot come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.requests.serving import Overrides
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.pools import Decision, Pool, PoolState, Tenant
from plimsoll.placement.plan import plan
from tests.support.planning import H100, L40S, fleet, node, pool, request, tenant

NO_PODS: dict[str, Any] = {"bound": 0, "ready": 0, "uncreated": 1}


def first(name: str, *pools: Pool, **more: Any) -> Tenant:
    return tenant(request(name=name, created="1"), *pools, **more)


def honest(replicas: int = 1) -> Tenant:
    return tenant(request(name="honest", created="2", replicas=replicas))


def placed(decisions: tuple[Decision, ...], name: str = "honest") -> int:
    decision = next(each for each in decisions if each.request.key.name == name)
    return sum(each.replicas for each in decision.pools if each.state is PoolState.ACTIVE)


def test_gpus_are_kept_for_pods_that_are_still_to_be_made() -> None:
    where = fleet(node("l", L40S, 1))
    decisions = plan([first("a", pool(L40S, **NO_PODS)), honest()], where)
    assert (placed(decisions, "a"), placed(decisions)) == (1, 0)


def test_a_refusal_does_not_end_the_promise_at_once() -> None:
    decisions = plan([first("a", pool(L40S, refused=True, **NO_PODS)), honest()], fleet(node("l", L40S, 1)))
    assert placed(decisions) == 0


def test_a_promise_that_is_over_gives_the_gpus_to_others_and_leaves_the_pool_as_decided() -> None:
    refused = pool(L40S, refused=True, promise_over=True, **NO_PODS)
    decisions = plan([first("a", refused), honest()], fleet(node("l", L40S, 1)))
    assert placed(decisions) == 1
    assert [(each.name, each.replicas) for each in decisions[0].pools] == [(refused.name, 1)]


def test_pods_that_exist_keep_their_promise_though_others_of_the_pool_are_refused() -> None:
    some = pool(L40S, replicas=3, bound=1, ready=1, uncreated=1, refused=True, promise_over=True)
    who = tenant(request(name="a", created="1", replicas=3), some)
    decisions = plan([who, honest(3)], fleet(node("l", L40S, 4, held=1)))
    assert placed(decisions) == 2  # three are free, and one is kept for the pod that waits for its node


def test_where_the_quota_refuses_pods_no_more_gpus_are_kept_than_it_leaves() -> None:
    refused = pool(L40S, replicas=4, bound=0, ready=0, uncreated=4, refused=True)
    who = tenant(request(name="a", created="1", replicas=4), refused)
    other = tenant(request(name="honest", created="2", replicas=4, key=_elsewhere("honest")))
    decisions = plan([who, other], fleet(node("l", L40S, 4)), quotas={"default": {"nvidia.com/gpu": 1}})
    assert placed(decisions) == 3


def test_without_a_refusal_pods_that_are_being_made_are_trusted_to_be_within_the_quota() -> None:
    """The quota counts a pod before anybody sees it: what is left may be a moment ahead of what is there."""
    coming = pool(L40S, **NO_PODS)
    other = tenant(request(name="honest", created="2", key=_elsewhere("honest")))
    decisions = plan([first("a", coming), other], fleet(node("l", L40S, 1)), quotas={"default": {"nvidia.com/gpu": 0}})
    assert placed(decisions) == 0


def test_pods_that_wait_for_something_else_than_gpus_keep_none() -> None:
    waits = pool(L40S, bound=0, ready=0, stuck=1)
    decisions = plan([first("a", waits), honest(2)], fleet(node("l", L40S, 1), node("h", H100, 1)))
    assert placed(decisions) == 2
    assert [(each.gpu_type, each.replicas) for each in decisions[0].pools] == [(L40S, 1)]
    assert decisions[0].departures == ()


def test_a_pool_on_a_type_that_the_fleet_does_not_have_takes_nothing() -> None:
    unknown = pool(H100, 8, replicas=5, **{**NO_PODS, "uncreated": 5})
    who = tenant(request(name="a", created="1", replicas=5), unknown)
    decisions = plan([who, honest(2)], fleet(node("l", L40S, 2)), unplanned=[unknown])
    assert not any(each.failure for each in decisions)
    assert placed(decisions) == 2


def test_one_replica_is_never_promised_twice_its_gpus() -> None:
    odd = pool(L40S, replicas=1, bound=0, ready=0, uncreated=9)
    decisions = plan([first("a", odd), honest(3)], fleet(node("l", L40S, 4)))
    assert placed(decisions) == 3
    assert odd.split == Split(1)


def _elsewhere(name: str) -> Any:
    return type(request().key)("other-namespace", name)


def test_nothing_is_kept_for_pods_that_found_no_node_there() -> None:
    """The scheduler does not bind them there, whatever is free: somebody else may have it."""
    stranded = first("a", pool(L40S, bound=0, ready=0, stranded=1, obstacle="Taint"))
    decisions = plan([stranded, honest()], fleet(node("l", L40S, 1), node("h", H100, 1)))
    assert (decisions[0].pools[0].gpu_type, decisions[0].pools[0].state) == (H100, PoolState.ACTIVE)
    assert placed(decisions) == 1


def test_nothing_is_kept_for_pods_that_wait_for_something_else_than_gpus() -> None:
    stuck = first("a", pool(L40S, bound=0, ready=0, stuck=1))
    decisions = plan([stuck, honest()], fleet(node("l", L40S, 1)))
    assert placed(decisions) == 1


def test_an_update_that_has_a_pod_more_than_replicas_keeps_no_further_gpu() -> None:
    surging = pool(L40S, replicas=1, bound=2, ready=2)
    decisions = plan([first("a", surging), honest(2)], fleet(node("l", L40S, 4, held=2)))
    assert placed(decisions) == 2


def test_as_many_gpus_are_kept_as_replicas_wait_for_a_node() -> None:
    waits = pool(L40S, replicas=4, bound=1, ready=0, stuck=1)
    who = tenant(request(name="a", created="1", replicas=4), waits)
    decisions = plan([who, honest(4)], fleet(node("l", L40S, 5, held=1)))
    assert placed(decisions) == 2  # four are free, and two are kept


def test_gpus_are_kept_for_created_and_for_uncreated_pods_together() -> None:
    half_created = pool(L40S, replicas=2, bound=0, ready=0, uncreated=1)
    who = tenant(request(name="a", created="1", replicas=2), half_created)
    assert placed(plan([who, honest(3)], fleet(node("l", L40S, 3)))) == 1


def test_every_gpu_of_an_uncreated_pod_is_charged_to_the_quota() -> None:
    pair = pool(H100, 2, bound=0, ready=0, uncreated=1)
    who = tenant(request(name="a", created="1"), pair)
    quotas = {"default": {"nvidia.com/gpu": 3}}
    assert placed(plan([who, honest(3)], fleet(node("h", H100, 8)), quotas=quotas)) == 1


@pytest.mark.parametrize(("refused", "kept"), [(True, 1), (False, 4)])
def test_a_quota_on_memory_bounds_what_is_kept_for_refused_pods(refused: bool, kept: int) -> None:  # noqa: FBT001
    coming = pool(L40S, replicas=4, bound=0, ready=0, uncreated=4, refused=refused)
    who = tenant(request(name="a", created="1", replicas=4), coming)
    other = tenant(request(name="honest", created="2", replicas=4, key=_elsewhere("honest")))
    decisions = plan([who, other], fleet(node("l", L40S, 4)), quotas={"default": {"requests.memory": 8 * GIB}})
    assert placed(decisions) == 4 - kept


def test_the_memory_of_an_uncreated_pod_is_charged_to_the_quota() -> None:
    coming = pool(L40S, replicas=2, bound=0, ready=0, uncreated=1)
    who = tenant(request(name="a", created="1", replicas=2), coming)
    quotas = {"default": {"requests.memory": 24 * GIB}}  # 8 GiB a pod: one for the promise, two for the younger one
    assert placed(plan([who, honest(3)], fleet(node("l", L40S, 8)), quotas=quotas)) == 2


def test_the_largest_replicas_are_promised_first() -> None:
    """The older pod would otherwise be counted on the node that one of the younger replicas needs."""
    older = tenant(request(name="older", created="1"), pool(L40S, bound=0, ready=0))
    large = request(name="large", created="2", replicas=2, overrides=Overrides(tensor_parallel=4))
    pair = tenant(large, pool(L40S, 4, replicas=2, bound=0, ready=0))
    where = fleet(node("a", L40S, 4), node("b", L40S, 5))
    decisions = plan([older, pair, tenant(request(name="honest", created="3"))], where)
    assert (placed(decisions, "older"), placed(decisions, "large"), placed(decisions)) == (1, 2, 0)


def test_a_recorded_pool_without_gpus_keeps_nothing_and_the_next_one_is_kept() -> None:
    """A broken status may name a split of no GPUs. Its deployment cannot be planned, so no refusal reports it."""
    broken = replace(pool(L40S, **NO_PODS), target=replace(pool(L40S).target, split=Split(0)))
    decisions = plan([honest(2)], fleet(node("l", L40S, 2)), unplanned=[broken, pool(L40S, **NO_PODS)])
    assert placed(decisions) == 1
