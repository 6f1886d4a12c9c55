"""From the pools of now to the planned ones: what shrinks first, how long old pools serve, when an update may surge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.decisions.observations import Correction
from plimsoll.domain.decisions.outcomes import Split, Target
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.public_words import RemedyKind
from plimsoll.domain.requests.serving import GpuConstraints, ObservedCapacity
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.pools import Decision, Pool, PoolState, Tenant, pool_name
from plimsoll.placement.plan import plan
from tests.support.planning import A100, ENGINE, H100, L4, L40S, fleet, gpu, node, pool, request, tenant

NOT_L40S = GpuConstraints(deny=(L40S,))
RETIRING = PoolState.RETIRING


def decided(who: Tenant, *nodes: GpuNode) -> Decision:
    (decision,) = plan([who], fleet(*nodes))
    return decision


def in_state(decision: Decision, state: PoolState) -> dict[str, int]:
    return {each.gpu_type: each.replicas for each in decision.pools if each.state is state}


def active(decision: Decision) -> dict[str, int]:
    return in_state(decision, PoolState.ACTIVE)


def retiring(decision: Decision) -> dict[str, int]:
    return in_state(decision, RETIRING)


class TestShrinking:
    def test_of_two_pools_at_one_price_the_one_with_more_gpus_goes_first(self) -> None:
        nodes = (node("a", gpu(A100, price="1"), 2, held=2), node("h", gpu(H100, price="2"), 1, held=1))
        decision = decided(tenant(request(objective=Objective.BATCH), pool(A100, 2), pool(H100)), *nodes)
        assert active(decision) == {H100: 1}

    def test_of_two_equal_pools_the_later_name_goes_first(self) -> None:
        nodes = (node("a", gpu(A100, price="1"), 1, held=1), node("h", gpu(H100, price="1"), 1, held=1))
        assert active(decided(tenant(request(objective=Objective.BATCH), pool(H100), pool(A100)), *nodes)) == {A100: 1}

    def test_a_pool_that_no_longer_fits_goes_before_a_dearer_one_that_does(self) -> None:
        wanted = request(observed=(ObservedCapacity(L40S, Split(1), 100),))
        nodes = (node("l", L40S, 1, held=1), node("h", H100, 1, held=1))
        assert active(decided(tenant(wanted, pool(L40S), pool(H100)), *nodes)) == {H100: 1}

    def test_two_surplus_replicas_come_from_the_dearest_pool_and_then_from_the_next(self) -> None:
        nodes = (node("l", L40S, 2, held=2), node("h", H100, 1, held=1))
        who = tenant(request(), pool(L40S, replicas=2), pool(H100))
        assert active(decided(who, *nodes)) == {L40S: 1}

    def test_of_several_pools_one_stays_when_no_replica_is_wanted(self) -> None:
        nodes = (node("l", L40S, 1, held=1), node("h", H100, 1, held=1))
        assert active(decided(tenant(request(replicas=0), pool(L40S), pool(H100)), *nodes)) == {L40S: 0}

    def test_more_kept_replicas_than_wanted_are_none_missing_though_another_pool_is_outdated(self) -> None:
        nodes = (node("h", H100, 3, held=3), node("l", L40S, 1, held=1), node("a", A100, 1))
        who = tenant(request(constraints=NOT_L40S), pool(H100, replicas=3), pool(L40S), generation=2)
        decision = decided(who, *nodes)
        assert (decision.missing, decision.change_blocked) == (0, False)
        assert all(each.replicas >= 0 for each in decision.pools)


class TestOldPools:
    """A change leaves the L40S: its pool serves until the active pools do."""

    def decision(self, *active_pools: Pool, old: Pool | None = None, replicas: int = 2) -> Decision:
        left = old or pool(L40S, replicas=2, state=RETIRING)
        wanted = request(replicas=replicas, constraints=NOT_L40S)
        nodes = (node("h", H100, 8, held=8), node("a", A100, 8, held=8), node("l", L40S, 8, held=8))
        return decided(tenant(wanted, left, *active_pools, generation=1), *nodes)

    @pytest.mark.parametrize(("ready", "kept"), [(0, {L40S: 2}), (1, {L40S: 2}), (2, {})])
    def test_it_serves_until_every_wanted_replica_is_ready(self, ready: int, kept: dict[str, int]) -> None:
        decision = self.decision(pool(H100, replicas=2, ready=ready))
        assert (active(decision), retiring(decision)) == ({H100: 2}, kept)

    def test_more_ready_pods_than_replicas_of_one_pool_stand_for_no_other_pool(self) -> None:
        updating, starting = pool(H100, bound=2, ready=2), pool(A100, ready=0)
        assert retiring(self.decision(updating, starting)) == {L40S: 2}

    def test_where_fewer_are_placed_than_wanted_those_are_enough(self) -> None:
        decision = self.decision(pool(H100, replicas=1), replicas=3)
        assert (decision.missing, retiring(decision)) == (2, {})

    def test_an_old_pool_without_replicas_or_without_pods_is_not_kept(self) -> None:
        starting = pool(H100, replicas=2, ready=0)
        for old in (
            pool(L40S, replicas=0, state=RETIRING),
            pool(L40S, replicas=1, state=RETIRING, exists=False),
            pool(L40S, replicas=1, state=RETIRING, too_large=True),
        ):
            assert retiring(self.decision(starting, old=old)) == {}
        assert retiring(self.decision(starting, old=pool(L40S, replicas=1, state=RETIRING))) == {L40S: 1}

    @pytest.mark.parametrize(("bound", "kept"), [(2, {L40S: 2}), (1, {L40S: 1}), (0, {}), (3, {L40S: 2})])
    def test_of_an_old_pool_only_replicas_with_a_node_stay(self, bound: int, kept: dict[str, int]) -> None:
        old = pool(L40S, replicas=2, bound=bound, ready=0, state=RETIRING)
        assert retiring(self.decision(pool(H100, replicas=2, ready=0), old=old)) == kept

    def test_a_pod_that_its_kubelet_may_reject_ends_with_the_place_that_is_left(self) -> None:
        """It has a node, and no service: a kubelet there has rejected its predecessors."""
        rejected = pool(L40S, bound=1, ready=0, stranded=1, obstacle="PodsRejected")
        decision = decided(tenant(request(), rejected), node("l", L40S, 1, held=1), node("h", H100, 1))
        assert (active(decision), retiring(decision)) == ({H100: 1}, {})

    @pytest.mark.parametrize(("ready", "kept"), [(1, {L40S: 2}), (0, {})])
    def test_where_nothing_is_placed_it_stays_only_if_it_serves(self, ready: int, kept: dict[str, int]) -> None:
        decision = self.decision(old=pool(L40S, replicas=2, ready=ready, state=RETIRING))
        assert (active(decision), retiring(decision), decision.missing) == ({}, kept, 2)


class TestSurge:
    def surge(self, *, quota: int | None = None, free: int = 1, **now: int) -> bool:
        held = pool(H100, 1, **now)
        where = fleet(node("h", H100, held.bound + free, held=held.bound))
        quotas = None if quota is None else {"default": {"nvidia.com/gpu": quota}}
        (decision,) = plan([tenant(request(replicas=held.replicas), held)], where, quotas=quotas)
        (planned,) = decision.pools
        return planned.surge

    def test_it_needs_the_gpus_of_one_replica_in_the_fleet_and_in_the_quota(self) -> None:
        assert [self.surge(free=0), self.surge(free=1)] == [False, True]
        assert [self.surge(quota=0), self.surge(quota=1)] == [False, True]

    def test_where_a_queue_has_admitted_no_pod_none_is_made_next_to_the_one_that_waits(self) -> None:
        assert self.surge(free=2, bound=0, gated=1) is False
        assert self.surge(free=2, bound=0) is True
        assert self.surge(free=2, replicas=2, bound=1, gated=1) is True, "what serves ends after its successor serves"
        assert self.surge(bound=1, gated=1) is True
        assert pool(H100).gated == 0

    def test_an_update_in_progress_keeps_it_only_while_there_is_a_pod_more_than_replicas(self) -> None:
        assert self.surge(free=0, replicas=2, bound=2) is False
        assert self.surge(free=0, replicas=2, bound=3) is True

    def test_a_suspended_deployment_gets_none(self) -> None:
        decision = decided(tenant(request(), pool(H100), suspended=True), node("h", H100, 8, held=1))
        assert [each.surge for each in decision.pools] == [False]


class TestExplanations:
    nodes = (node("h", H100, 2, held=1), node("l", L40S, 1))

    def test_the_alternatives_are_given_in_the_pass_that_reads_a_change(self) -> None:
        changed = decided(tenant(request(), pool(H100), generation=2), *self.nodes)
        assert changed.placed_now
        assert (L40S, Split(1)) in {(each.gpu_type, each.split) for each in changed.rejections}

    def test_they_are_not_given_again_while_nothing_changes(self) -> None:
        same = decided(tenant(request(), pool(H100)), *self.nodes)
        assert (same.placed_now, same.rejections) == (False, ())

    def test_the_kept_place_is_no_alternative_to_itself_though_the_wanted_step_would_not_fit_there(self) -> None:
        """Its engines run with a smaller step and keep it. The old pool shows that the spec has changed."""
        learned = Correction(request().engine_kind(H100, Split(1)), rest_bytes=52 * GIB)
        wanted = request(corrections=(learned,), engine=replace(ENGINE, max_batched_tokens=16_384))
        kept, old = pool(H100, limits=StepLimits(2048), generation=2), pool(L40S, state=RETIRING)
        decision = decided(tenant(wanted, kept, old, generation=2), *self.nodes)
        assert (active(decision), decision.pools[0].step_tokens) == ({H100: 1}, 2048)
        others = {(each.gpu_type, each.split.gpus) for each in decision.rejections}
        assert (H100, 1) not in others
        assert {(H100, 2), (L40S, 1)} <= others


def test_the_choice_of_a_decision_is_that_of_the_first_pool_that_still_fits() -> None:
    wanted = request(replicas=2, observed=(ObservedCapacity(L40S, Split(1), 100),))
    decision = decided(tenant(wanted, pool(L40S), pool(H100)), node("l", L40S, 1, held=1), node("h", H100, 1, held=1))
    assert [each.choice is None for each in decision.pools] == [True, False]
    assert decision.choice is decision.pools[1].choice


def test_placed_replicas_join_the_pool_of_their_type_and_leave_the_other_alone() -> None:
    nodes = (node("h", H100, 1, held=1), node("l", L40S, 4, held=1))
    decision = decided(tenant(request(replicas=4), pool(H100), pool(L40S)), *nodes)
    assert active(decision) == {H100: 1, L40S: 3}


def test_a_pool_that_is_only_recorded_has_no_pods_and_its_gpus_are_kept_for_it() -> None:
    """Everything else of a pool is optional: then none of its pods is bound, ready or waits for something else."""
    there = node("h", H100, 3)
    recorded = Pool(
        name=pool_name(H100, Split(1)),
        target=Target(H100, Split(1), there.selector, there.resource),
        state=PoolState.ACTIVE,
        generation=1,
        replicas=2,
    )
    assert not recorded.served, "no engine has served there"
    first = tenant(request(name="a", created="1", replicas=2), recorded)
    second = tenant(request(name="b", created="2", replicas=2))
    kept, other = plan([first, second], fleet(there))
    assert (active(kept), kept.missing) == ({H100: 2}, 0)
    assert (active(other), other.missing) == ({H100: 1}, 1)
    quotas = {"default": {there.resource: 1}}
    _, other = plan([first, second], fleet(there), quotas=quotas)
    assert (active(other), other.missing) == ({H100: 1}, 1)


def test_an_old_pool_of_the_smallest_card_is_kept_beside_an_unready_new_one_of_it() -> None:
    """The same type at two degrees is two pools."""
    old, new = pool(L4, 1, replicas=1, state=RETIRING), pool(L4, 2, replicas=1, ready=0)
    wanted = request(context=16_384, concurrency=8)
    decision = decided(tenant(wanted, old, new), node("l4", L4, 4, held=3))
    assert [(each.name, each.state) for each in decision.pools] == [
        ("l4-24gb-tp2", PoolState.ACTIVE),
        ("l4-24gb-tp1", RETIRING),
    ]


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_who_adds_the_nodes_that_a_change_waits_for_gets_the_change(replicas: int) -> None:
    """All replicas need a new place before the old pool goes, so one node more than none is not enough for two."""
    who = Tenant(request(replicas=replicas, constraints=NOT_L40S), 2, (pool(L40S, replicas=replicas, generation=1),))
    nodes = [node("l", L40S, 4, held=replicas), node("h", H100, 1, held=1)]
    group = NodeGroup("more", gpu(H100), "nvidia.com/gpu", 1)
    (waits,) = plan([who], fleet(*nodes), groups=[group])
    assert (active(waits), waits.missing, waits.change_blocked) == ({L40S: replicas}, 0, True)
    (told,) = (dict(each.numbers) for each in waits.remedies if each.kind is RemedyKind.ADD_NODES)
    assert (told["nodes"], told["replicas"], told["missing"]) == (replicas, replicas, replicas)
    for added, changes in ((replicas, True), (replicas - 1, False)):
        after = decided(who, *nodes, *(node(f"new-{index}", H100, 1) for index in range(added)))
        assert (active(after), after.change_blocked) == ({H100 if changes else L40S: replicas}, not changes)
