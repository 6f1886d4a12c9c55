"""A whole pass: what runs stays, what is missing is placed, everybody takes from one ledger."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.decisions.observations import Correction
from plimsoll.domain.decisions.outcomes import Placed, Split, Unplaceable
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.public_words import Reason, RemedyKind
from plimsoll.domain.requests.serving import GpuConstraints, ObservedCapacity, Overrides, Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.placement.advice.remedies import only_waits
from plimsoll.placement.demands.pools import Decision, PoolState, Tenant
from plimsoll.placement.places.place import place
from plimsoll.placement.plan import plan
from tests.support.planning import (
    A100,
    H100,
    L4,
    L40S,
    LLAMA_70B_FP8,
    chosen,
    fleet,
    gpu,
    node,
    placed,
    pool,
    refusals,
    request,
    tenant,
)


def decided(who: Tenant, *nodes: GpuNode) -> Decision:
    (decision,) = plan([who], fleet(*nodes))
    return decision


def sizes(decision: Decision) -> dict[str, int]:
    return {each.name: each.replicas for each in decision.pools if each.state is PoolState.ACTIVE}


def retiring(decision: Decision) -> dict[str, int]:
    return {each.name: each.replicas for each in decision.pools if each.state is PoolState.RETIRING}


L40S_TP1, H100_TP1, H100_TP2, L4_TP1 = "l40s-48gb-tp1", "h100-sxm-80gb-tp1", "h100-sxm-80gb-tp2", "l4-24gb-tp1"


class TestFirstPlacement:
    def test_all_replicas_in_one_pool(self) -> None:
        decision = decided(tenant(request(replicas=2)), node("l", L40S, 4))
        assert sizes(decision) == {L40S_TP1: 2}
        assert (decision.missing, decision.placed_now, decision.outgrown) == (0, True, None)

    def test_what_one_type_cannot_take_spills_over_to_the_next(self) -> None:
        decision = decided(tenant(request(replicas=3)), node("l", L40S, 2), node("h", H100, 1))
        assert sizes(decision) == {L40S_TP1: 2, H100_TP1: 1}
        assert decision.missing == 0

    def test_replicas_without_a_place_are_counted_and_the_others_run(self) -> None:
        decision = decided(tenant(request(replicas=3)), node("l", L40S, 2))
        assert (sizes(decision), decision.missing) == ({L40S_TP1: 2}, 1)
        assert {each.reason for each in decision.rejections if each.gpu_type == L40S} >= {Reason.GPUS_TAKEN}

    def test_replicas_spread_over_as_many_types_as_they_need(self) -> None:
        kinds = (L40S, H100, A100, "l40-48gb", "a40-48gb", "rtx-6000-ada-48gb")
        decision = decided(tenant(request(replicas=9)), *(node(kind, kind, 1) for kind in kinds))
        assert (len(decision.pools), decision.missing) == (6, 3)

    def test_nothing_that_fits_leaves_no_pool_and_says_what_would_help(self) -> None:
        (decision,) = plan([tenant(request(LLAMA_70B_FP8))], fleet(node("l4", L4, 1)), [gpu(H100)])
        assert (decision.pools, decision.missing, decision.choice) == ((), 1, None)
        assert [remedy.kind for remedy in decision.remedies] == [RemedyKind.ADD_GPUS]

    def test_zero_replicas_are_decided_too_so_that_the_answer_is_there_before_the_first(self) -> None:
        decision = decided(tenant(request(replicas=0)), node("l", L40S, 4))
        assert sizes(decision) == {L40S_TP1: 0}
        assert chosen(decision.choice) == (L40S, 1)


class TestStickiness:
    def test_what_runs_stays_though_a_cheaper_gpu_has_come(self) -> None:
        decision = decided(tenant(request(), pool(H100)), node("h", H100, 1, held=1), node("l", L40S, 4))
        assert sizes(decision) == {H100_TP1: 1}
        assert decision.placed_now is False

    def test_a_change_that_the_running_placement_still_fits_keeps_it_and_tells_the_alternatives(self) -> None:
        decision = decided(
            tenant(request(concurrency=12), pool(H100), generation=2), node("h", H100, 1, held=1), node("l", L40S, 4)
        )
        assert sizes(decision) == {H100_TP1: 1}
        assert [each.generation for each in decision.pools] == [2]
        assert decision.placed_now
        told = refusals(Unplaceable(decision.rejections))
        assert told[L40S, 1] is Reason.KEPT_TO_AVOID_MOVE

    def test_two_passes_over_the_same_facts_are_the_same(self) -> None:
        who = tenant(request(replicas=2), pool(L40S, replicas=2))
        nodes = (node("l", L40S, 4, held=2), node("h", H100))
        assert decided(who, *nodes) == decided(who, *nodes)

    def test_suspension_leaves_everything_as_it_is(self) -> None:
        who = tenant(request(LLAMA_70B_FP8, replicas=5), pool(L4), generation=9, suspended=True)
        decision = decided(who, node("h", H100))
        assert (sizes(decision), decision.missing, decision.choice) == ({L4_TP1: 1}, 0, None)


class TestNumber:
    def test_growth_goes_where_the_first_replicas_are_if_that_is_best(self) -> None:
        decision = decided(tenant(request(replicas=3), pool(L40S)), node("l", L40S, 4, held=1), node("h", H100))
        assert sizes(decision) == {L40S_TP1: 3}

    def test_growth_spills_over_when_the_first_type_is_full(self) -> None:
        decision = decided(tenant(request(replicas=2), pool(L40S)), node("l", L40S, 1, held=1), node("h", H100))
        assert sizes(decision) == {L40S_TP1: 1, H100_TP1: 1}

    def test_shrinking_takes_the_dearest_first(self) -> None:
        pools = (pool(L40S, replicas=2), pool(H100, replicas=2))
        nodes = (node("l", L40S, 2, held=2), node("h", H100, 2, held=2))
        assert sizes(decided(tenant(request(replicas=3), *pools), *nodes)) == {L40S_TP1: 2, H100_TP1: 1}
        assert sizes(decided(tenant(request(replicas=1), *pools), *nodes)) == {L40S_TP1: 1}

    def test_shrinking_to_zero_keeps_one_pool_for_the_decision(self) -> None:
        decision = decided(tenant(request(replicas=0), pool(L40S)), node("l", L40S, 1, held=1))
        assert sizes(decision) == {L40S_TP1: 0}


class TestChange:
    """The user's change outdates what runs: new before old, all or nothing."""

    bigger = request(context=131_072, concurrency=4)

    def test_the_new_pool_is_opened_and_the_old_one_serves_until_it_is_ready(self) -> None:
        decision = decided(
            tenant(self.bigger, pool(L40S), generation=2), node("l", L40S, 1, held=1), node("h", H100, 2)
        )
        assert (sizes(decision), retiring(decision)) == ({H100_TP2: 1}, {L40S_TP1: 1})
        assert decision.change_blocked is False

    def test_the_old_pool_is_dropped_when_the_new_ones_serve(self) -> None:
        first = decided(tenant(self.bigger, pool(L40S), generation=2), node("l", L40S, 1, held=1), node("h", H100, 2))
        (new,) = (each for each in first.pools if each.state is PoolState.ACTIVE)
        running = pool(H100, new.split.tensor_parallel, generation=2)
        old = pool(L40S, state=PoolState.RETIRING)
        nodes = (node("l", L40S, 1, held=1), node("h", H100, 2, held=new.split.gpus))
        assert retiring(decided(tenant(self.bigger, replace(running, ready=0), old, generation=2), *nodes)) == {
            L40S_TP1: 1
        }
        assert retiring(decided(tenant(self.bigger, running, old, generation=2), *nodes)) == {}

    def test_a_change_without_a_place_is_blocked_and_the_old_placement_serves_on(self) -> None:
        decision = decided(tenant(self.bigger, pool(L40S), generation=2), node("l", L40S, 1, held=1))
        assert decision.change_blocked
        assert (sizes(decision), decision.missing) == ({L40S_TP1: 1}, 0)
        assert [each.generation for each in decision.pools] == [1]
        assert decision.choice is None
        assert decision.rejections

    def test_a_change_is_all_or_nothing(self) -> None:
        two = tenant(replace(self.bigger, replicas=2), pool(L40S, replicas=2), generation=2)
        old = node("l", L40S, 2, held=2)
        half = decided(two, old, node("h", H100, 2))
        assert half.change_blocked
        assert only_waits(half.rejections)  # room for some of them: it waits, nothing was refused for good
        assert (sizes(half), retiring(half)) == ({L40S_TP1: 2}, {})
        whole = decided(two, old, node("h", H100, 4))
        assert (sizes(whole), retiring(whole)) == ({H100_TP2: 2}, {L40S_TP1: 2})

    def test_a_blocked_change_that_is_withdrawn_leaves_things_as_they_were(self) -> None:
        decision = decided(tenant(request(), pool(L40S), generation=3), node("l", L40S, 1, held=1))
        assert (sizes(decision), decision.change_blocked) == ({L40S_TP1: 1}, False)
        assert [each.generation for each in decision.pools] == [3]

    def test_a_blocked_change_takes_nobodys_gpus(self) -> None:
        two = replace(self.bigger, replicas=2, created="1")
        other = request(name="other", created="2", replicas=2)
        where = fleet(node("l", L40S, 2, held=2), node("h", H100, 2))
        first, second = plan([tenant(two, pool(L40S, replicas=2), generation=2), tenant(other)], where)
        assert first.change_blocked
        assert sizes(second) == {H100_TP1: 2}


class TestOutgrown:
    """The need outgrew what runs without a change of the user's: told, and left only on the live loop's order."""

    seen = request(observed=(ObservedCapacity(L40S, Split(1), 100),))

    def test_it_is_kept_and_told(self) -> None:
        decision = decided(tenant(self.seen, pool(L40S)), node("l", L40S, 1, held=1), node("h", H100))
        assert sizes(decision) == {L40S_TP1: 1}
        assert decision.outgrown is not None
        assert decision.outgrown.reason is Reason.OBSERVED_TOO_SMALL

    def test_on_the_order_to_move_it_is_left(self) -> None:
        decision = decided(
            tenant(self.seen, pool(L40S), accepts_move=True), node("l", L40S, 1, held=1), node("h", H100)
        )
        assert (sizes(decision), retiring(decision)) == ({H100_TP1: 1}, {L40S_TP1: 1})

    def test_nodes_that_went_away_do_not_make_it_wrong_sized(self) -> None:
        decision = decided(tenant(request(), pool(L40S)), node("h", H100))
        assert sizes(decision) == {L40S_TP1: 1}
        assert decision.outgrown is None


class TestStranded:
    def test_replicas_that_the_scheduler_cannot_bind_go_elsewhere(self) -> None:
        stuck = pool(L40S, replicas=2, bound=1, ready=1, stranded=1)
        decision = decided(tenant(request(replicas=2), stuck), node("l", L40S, 4, held=1), node("h", H100, 1))
        assert sizes(decision) == {L40S_TP1: 1, H100_TP1: 1}
        left = {each.reason for each in decision.rejections if (each.gpu_type, each.split) == (L40S, Split(1))}
        assert left == {Reason.LEFT_RECENTLY}
        assert [each.place for each in decision.departures] == [(L40S, Split(1))]

    def test_without_an_elsewhere_they_keep_waiting_and_no_wish_of_the_user_is_blamed(self) -> None:
        stuck = pool(L40S, bound=0, ready=0, stranded=1)
        decision = decided(tenant(request(), stuck), node("l", L40S, 4))
        assert (sizes(decision), decision.missing) == ({L40S_TP1: 1}, 0)
        assert (decision.rejections, decision.remedies, decision.placed_now) == ((), (), False)


class TestOneLedger:
    def test_the_older_deployment_is_served_first_whatever_the_order_of_the_list(self) -> None:
        old, new = request(name="old", created="2026-01-01"), request(name="new", created="2026-01-02")
        where = fleet(node("l", L40S, 1))
        for tenants in ([tenant(old), tenant(new)], [tenant(new), tenant(old)]):
            decisions = {each.request.key.name: each for each in plan(tenants, where)}
            assert (decisions["old"].missing, decisions["new"].missing) == (0, 1)

    def test_names_break_ties(self) -> None:
        where = fleet(node("l", L40S, 1))
        first, second = plan([tenant(request(name="b")), tenant(request(name="a"))], where)
        assert (first.request.key.name, first.missing, second.missing) == ("a", 0, 1)

    def test_gpus_promised_earlier_to_pods_without_a_node_are_not_given_away(self) -> None:
        waiting = tenant(request(name="new", created="2"), pool(L40S, bound=0, ready=0))
        first, second = plan([tenant(request(name="old", created="1")), waiting], fleet(node("l", L40S, 1)))
        assert first.missing == 1
        assert sizes(second) == {L40S_TP1: 1}

    def test_two_deployments_share_a_node_without_overcommitting_it(self) -> None:
        where = fleet(node("h", H100, 4))
        wanted = [request(LLAMA_70B_FP8, name=name, replicas=2) for name in ("a", "b")]
        decisions = plan([tenant(each) for each in wanted], where)
        assert [(sum(sizes(each).values()), each.missing) for each in decisions] == [(2, 0), (0, 2)]

    def test_an_unplaceable_neighbour_changes_nothing(self) -> None:
        where = fleet(node("l", L40S, 1))
        alone = plan([tenant(request(name="b"))], where)
        huge = replace(request(name="a"), shape=ServingShape(1_000_000, 1000))
        assert plan([tenant(huge), tenant(request(name="b"))], where)[1] == alone[0]


class TestSurge:
    def test_an_update_starts_first_where_there_is_room_for_one_more(self) -> None:
        assert decided(tenant(request()), node("l", L40S, 2)).pools[0].surge
        assert not decided(tenant(request()), node("l", L40S, 1)).pools[0].surge

    def test_an_update_under_way_keeps_its_surge(self) -> None:
        updating = pool(L40S, replicas=1, bound=2)
        assert decided(tenant(request(), updating), node("l", L40S, 2, held=2)).pools[0].surge


def test_another_number_of_replicas_is_no_order_to_leave_an_outgrown_place() -> None:
    """An autoscaler writes ``spec.replicas`` many times a day. Whether to move is asked by the live loop."""
    seen = (ObservedCapacity(L40S, Split(1), 499),)
    nodes = (node("l", L40S, 2, held=1), node("h", H100, 2))
    scaled = tenant(request(observed=seen), pool(L40S, spec="same"), generation=2, spec="same")
    decision = decided(scaled, *nodes)
    assert (sizes(decision), retiring(decision)) == ({L40S_TP1: 1}, {})
    assert decision.outgrown is not None
    assert [each.generation for each in decision.pools] == [2]
    other = replace(scaled, spec="other")
    assert (sizes(decided(other, *nodes)), retiring(decided(other, *nodes))) == ({H100_TP1: 1}, {L40S_TP1: 1})


def test_a_forbidden_type_is_left_when_the_user_says_so() -> None:
    denied = request(constraints=GpuConstraints(deny=(L40S,)))
    decision = decided(tenant(denied, pool(L40S), generation=2), node("l", L40S, 1, held=1), node("h", H100, 1))
    assert (sizes(decision), retiring(decision)) == ({H100_TP1: 1}, {L40S_TP1: 1})


def test_warnings_of_an_override_stay_with_a_kept_placement() -> None:
    forced = request(overrides=Overrides(gpu_type=L40S))
    assert isinstance(place(forced, fleet(node("l", L40S))), Placed)
    decision = decided(tenant(forced, pool(L40S)), node("l", L40S, 1, held=1))
    assert len(decision.warnings) == 1


class TestEnginesThatFailForMemory:
    """An observation has corrected the estimate, or it has not: what serves nobody is left at once."""

    def test_the_pool_is_replaced_and_gone_in_the_same_pass(self) -> None:
        failing = pool(L4, ready=0, too_large=True)
        who = tenant(learned(L4), failing)
        decision = decided(who, node("l4", L4, 2, held=1), node("h", H100, 1))
        assert sizes(decision) == {H100_TP1: 1}
        assert retiring(decision) == {}

    def test_a_failure_without_figures_counts_for_that_type_and_split_alone(self) -> None:
        failed = replace(request(), failed_starts=((L4, Split(1)),))
        who = tenant(failed, pool(L4, ready=0, too_large=True))
        decision = decided(who, node("l4", L4, 2, held=1), node("h", H100, 1))
        assert sizes(decision) == {H100_TP1: 1}
        told = {(each.gpu_type, each.split): each.reason for each in decision.rejections}
        assert told[L4, Split(1)] is Reason.START_FAILED
        assert told.get((L4, Split(2))) is not Reason.START_FAILED

    def test_whoever_forces_the_size_is_not_told_of_failures(self) -> None:
        sure = replace(request(overrides=Overrides(memory_per_gpu_bytes=18 * GIB)), failed_starts=((L4, Split(1)),))
        assert sizes(decided(tenant(sure), node("l4", L4, 1))) == {L4_TP1: 1}

    def test_one_that_serves_stays_and_is_called_outgrown(self) -> None:
        decision = decided(tenant(learned(L4), pool(L4)), node("l4", L4, 2, held=1), node("h", H100, 1))
        assert sizes(decision) == {L4_TP1: 1}
        assert decision.outgrown is not None
        assert decision.outgrown.reason is Reason.TOO_LITTLE_VRAM

    def test_without_another_place_it_goes_on_trying(self) -> None:
        decision = decided(tenant(learned(L4), pool(L4, ready=0, too_large=True)), node("l4", L4, 1, held=1))
        assert sizes(decision) == {L4_TP1: 1}
        assert decision.change_blocked

    def test_a_failure_whose_cause_a_smaller_step_cures_gets_the_smaller_step(self) -> None:
        usual = placed(request(), fleet(node("h", H100))).choice
        assert usual.settings.max_num_batched_tokens == 8192
        spared = usual.estimate.computed_bytes - usual.estimate.budget_bytes
        lesson = correction(H100, missing=1 - spared)
        who = tenant(replace(request(), corrections=(lesson,)), pool(H100, ready=0, too_large=True))
        decision = decided(who, node("h", H100, 2, held=1))
        assert sizes(decision) == {H100_TP1: 1}
        assert decision.choice is not None
        assert decision.choice.settings.max_num_batched_tokens == 2048


class TestWhatEnginesTeachRestartsNobody:
    def test_the_step_of_a_running_pool_stays_whichever_would_be_chosen_now(self) -> None:
        running = pool(H100, limits=StepLimits(2048))
        decision = decided(tenant(request(), running), node("h", H100, 2, held=1))
        assert decision.choice is not None
        assert decision.choice.settings.max_num_batched_tokens == 2048

    def test_it_is_judged_anew_when_the_spec_changes(self) -> None:
        running = pool(H100, limits=StepLimits(2048))
        decision = decided(tenant(request(), running, generation=2), node("h", H100, 2, held=1))
        assert decision.choice is not None
        assert decision.choice.settings.max_num_batched_tokens == 8192

    def test_what_is_left_as_it_is_keeps_its_step_on_record(self) -> None:
        running = pool(H100, limits=StepLimits(2048))
        decision = decided(tenant(request(), running, suspended=True), node("h", H100, 2, held=1))
        assert [each.step_tokens for each in decision.pools] == [2048]


def correction(kind: str, missing: int = 0) -> Correction:
    return Correction(request().engine_kind(kind, Split(1)), rest_bytes=missing)


def learned(kind: str) -> Request:
    """The usual request, after an engine on one GPU of ``kind`` told that it got 30 GiB less than foretold."""
    return replace(request(), corrections=(correction(kind, missing=30 * GIB),))
