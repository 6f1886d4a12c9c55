"""What is remembered of places that pods could not be bound in, and for how long."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.fleet import Taint
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import Overrides
from plimsoll.placement.demands.pools import Decision, Pool, PoolState
from plimsoll.placement.demands.rehoming import Departure, Rehoming, is_closed, is_spent, of_last_hour, remembered
from plimsoll.placement.plan import plan
from tests.support.planning import A100, H100, L4, L40S, fleet, node, pool, request, tenant
from tests.support.status_schema import most_items

MAX_REHOMINGS_PER_HOUR = 4
MOST_REMEMBERED = 20
REMEMBERED_SECONDS = 3600

NOW = 1_800_000_000.0
ONE = Split(1)


def left(*kinds: str, at: float = NOW - 60) -> tuple[Rehoming, ...]:
    return tuple(Rehoming(kind, ONE, "InsufficientGpus", at=at) for kind in kinds)


def stranded(kind: str, replicas: int = 1) -> Pool:
    return pool(kind, replicas=replicas, bound=0, ready=0, stranded=replicas, obstacle="InsufficientGpus")


def places(decision: Decision) -> dict[str, int]:
    return {each.gpu_type: each.replicas for each in decision.pools if each.state.value == "Active"}


class TestMemory:
    def test_entries_are_in_the_order_of_their_times_and_then_of_their_places(self) -> None:
        entries = (*left(L40S, H100), *left(A100, at=NOW - 90))
        assert [each.gpu_type for each in of_last_hour(entries, NOW)] == [A100, H100, L40S]
        assert [each.gpu_type for each in remembered(entries, (), NOW)] == [A100, H100, L40S]

    def test_an_hour_later_it_is_forgotten(self) -> None:
        assert of_last_hour(left(L4, at=NOW - REMEMBERED_SECONDS + 1), NOW) != ()
        assert of_last_hour(left(L4, at=NOW - REMEMBERED_SECONDS), NOW) == ()

    def test_a_time_to_come_counts_from_now_and_is_forgotten_in_an_hour_too(self) -> None:
        told = remembered(left(L4, at=NOW + 10**9), (), NOW)
        assert [each.at for each in told] == [NOW]

    def test_one_entry_a_place_with_its_last_departure(self) -> None:
        told = remembered(left(L4, L40S), [Departure(L4, ONE, "NodesUnavailable")], NOW)
        assert [(each.gpu_type, each.at) for each in told] == [(L40S, NOW - 60), (L4, NOW)]
        assert told[-1].reason == "NodesUnavailable"

    def test_no_more_is_kept_than_a_status_holds_and_the_latest_stay(self) -> None:
        many = [Rehoming(f"gpu-{index}", ONE, at=NOW - index) for index in range(MOST_REMEMBERED + 5)]
        told = remembered(many, (), NOW)
        assert len(told) == MOST_REMEMBERED == most_items("rehomings")
        assert told[-1].gpu_type == "gpu-0"

    def test_replicas_that_follow_others_out_are_no_further_move(self) -> None:
        enough = left(*(f"gpu-{index}" for index in range(MAX_REHOMINGS_PER_HOUR)))
        assert is_spent(enough, (L4, ONE))
        assert not is_spent(enough, ("gpu-0", ONE))
        assert not is_spent(enough[1:], (L4, ONE))

    def test_larger_replicas_are_not_tried_where_smaller_ones_found_no_node(self) -> None:
        closed = [(L4, Split(2))]
        assert [is_closed(closed, L4, split) for split in (ONE, Split(2), Split(1, 2), Split(4))] == [
            False, True, True, True,
        ]  # fmt: skip
        assert not is_closed(closed, H100, Split(8))


class TestPlan:
    where = fleet(node("l4", L4, 4), node("l", L40S, 4), node("h", H100, 4))

    def test_a_place_that_was_left_is_not_gone_back_to(self) -> None:
        (decision,) = plan([tenant(request(), stranded(L40S), left=left(L4))], self.where)
        assert places(decision) == {H100: 1}
        assert decision.departures == (Departure(L40S, ONE, "InsufficientGpus"),)

    def test_nor_are_further_replicas_placed_there(self) -> None:
        (decision,) = plan([tenant(request(replicas=2), pool(H100), left=left(L4, L40S))], self.where)
        assert places(decision) == {H100: 2}
        reasons = {each.gpu_type: each.reason for each in decision.rejections if each.split == ONE}
        assert reasons[L4] is reasons[L40S] is Reason.LEFT_RECENTLY

    def test_where_only_such_places_are_left_it_waits_and_says_so(self) -> None:
        (decision,) = plan([tenant(request(), left=left(L4, L40S, H100))], self.where)
        assert decision.missing == 1
        assert Reason.LEFT_RECENTLY in {each.reason for each in decision.rejections}

    def test_the_user_s_word_opens_them_again(self) -> None:
        forced = tenant(request(overrides=Overrides(gpu_type=L4)), left=left(L4))
        changed = tenant(request(), pool(L4, bound=0, ready=0, exists=False), generation=2, left=left(L4, L40S))
        for who in (forced, changed):
            (decision,) = plan([who], self.where)
            assert places(decision) == {L4: 1}

    def test_an_old_pool_that_serves_on_is_no_word_of_the_user_s(self) -> None:
        old, stuck = pool(A100, state=PoolState.RETIRING), replace(stranded(L40S), generation=2)
        (decision,) = plan([tenant(request(), stuck, old, generation=2, left=left(L4))], self.where)
        assert places(decision) == {H100: 1}

    def test_beyond_the_bound_replicas_stay_and_it_is_said(self) -> None:
        enough = left(*(f"gpu-{index}" for index in range(MAX_REHOMINGS_PER_HOUR)))
        tired, fresh = tenant(request(name="a"), stranded(L40S), left=enough), tenant(request(name="b"), stranded(L40S))
        stays, moves = plan([tired, fresh], self.where)
        assert (places(stays), stays.departures, stays.rehomings_spent) == ({L40S: 1}, (), True)
        assert (places(moves), moves.rehomings_spent) == ({L4: 1}, False)

    def test_a_suspended_deployment_has_spent_no_move(self) -> None:
        (decision,) = plan([tenant(request(), pool(L40S), suspended=True)], fleet(node("l", L40S, 1, held=1)))
        assert (decision.departures, decision.rehomings_spent) == ((), False)

    def test_a_pool_whose_nodes_were_all_tainted_stays(self) -> None:
        tainted = node("l", L40S, 4, taints=(Taint("dedicated", "x", "NoSchedule"),))
        (decision,) = plan([tenant(request(), stranded(L40S))], fleet(tainted, node("h", H100, 4)))
        assert (places(decision), decision.departures) == ({L40S: 1}, ())
        (gone,) = plan([tenant(request(), stranded(L40S))], fleet(node("h", H100, 4)))
        assert places(gone) == {H100: 1}

    def test_replicas_leave_for_one_more_type_however_many_the_deployment_uses(self) -> None:
        kinds = (H100, L40S, A100, "a40-48gb")
        pools = [stranded(kinds[0], 2), *(pool(kind) for kind in kinds[1:])]
        full = [node(kind, kind, 1, held=1) for kind in kinds[1:]]
        where = fleet(node("h", H100, 2), *full, node("l4", L4, 4))
        (decision,) = plan([tenant(request(replicas=5), *pools)], where)
        assert places(decision) == {L40S: 1, A100: 1, "a40-48gb": 1, L4: 2}
