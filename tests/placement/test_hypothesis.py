"""Hypotheses on a finished plan: one deployment asks for something else, and all others keep what they have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from plimsoll.domain.cluster.host import HostNeed, HostRoom
from plimsoll.domain.decisions.outcomes import Split, Unplaceable
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import GpuConstraints
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.demands.pools import Decision, Pool, PoolState, Tenant
from plimsoll.placement.ledger import Ledger, QuotaUse, charged, taken_between
from plimsoll.placement.solvers import Award, Stock
from plimsoll.placement.transition import make_before_break
from plimsoll.placement.transition.hypothesis import HypothesisFailed, Plan
from tests.support.exhaustive_solver import solve_exhaustively
from tests.support.planning import H100, L40S, fleet, node, pool, refusals, request, tenant
from tests.support.world_plans import planned

ASKS = ObjectKey("default", "asks")


def asking(replicas: int = 1, *runs: Pool, constraints: GpuConstraints = GpuConstraints()) -> Tenant:  # noqa: B008
    return tenant(request(name="asks", created="1", replicas=replicas, constraints=constraints), *runs)


def with_replicas(plan: Plan, replicas: int) -> Tenant:
    runs = plan.tenants[ASKS]
    return replace(runs, request=replace(runs.request, replicas=replicas))


def sizes(decision: Decision) -> dict[str, int]:
    return {each.gpu_type: each.replicas for each in decision.pools if each.state is PoolState.ACTIVE}


def test_a_hypothesis_is_answered_from_what_all_others_have_left() -> None:
    younger = tenant(request(name="other", created="2", replicas=2))
    plan = planned([asking(1, pool(L40S)), younger], fleet(node("l", L40S, 4, held=1)))
    assert sizes(plan.decisions[younger.request.key]) == {L40S: 2}
    assert sizes(plan.ask(with_replicas(plan, 2)).decision) == {L40S: 2}
    assert plan.ask(with_replicas(plan, 3)).decision.missing == 1, "the younger one's GPUs are not free"


def test_a_hypothesis_changes_nothing_until_it_is_adopted_and_the_next_one_finds_less() -> None:
    other = tenant(request(name="other", created="2"), pool(L40S))
    plan = planned([asking(1, pool(L40S)), other], fleet(node("l", L40S, 3, held=2)))
    answer = plan.ask(with_replicas(plan, 2))
    assert plan.ask(with_replicas(plan, 2)) == answer
    assert sizes(plan.decisions[ASKS]) == {L40S: 1}
    after = plan.adopted(answer)
    assert (sizes(after.decisions[ASKS]), after.tenants[ASKS]) == ({L40S: 2}, answer.tenant)
    more = replace(other, request=replace(other.request, replicas=2))
    assert (plan.ask(more).decision.missing, after.ask(more).decision.missing) == (0, 1)
    assert list(after.decisions) == list(plan.decisions), "the order of decisions stays"


def test_it_gives_back_what_the_plan_has_just_given_it() -> None:
    """Two replicas have just got the last GPUs. To ask for one of them is to ask for its own."""
    plan = planned([asking(3, pool(L40S))], fleet(node("l", L40S, 3, held=1)))
    assert sizes(plan.decisions[ASKS]) == {L40S: 3}
    fewer = plan.ask(with_replicas(plan, 2))
    assert (sizes(fewer.decision), fewer.decision.missing) == ({L40S: 2}, 0)
    adopted = plan.adopted(fewer)
    again = adopted.ask(with_replicas(adopted, 3))
    assert (sizes(again.decision), again.decision.missing) == ({L40S: 3}, 0)
    assert adopted.adopted(adopted.ask(with_replicas(adopted, 1))).left.ledger.free == {"l": 2}


def test_what_was_promised_earlier_is_not_free() -> None:
    promised = tenant(request(name="other", created="2"), pool(L40S, bound=0, ready=0))
    plan = planned([asking(1, pool(L40S)), promised], fleet(node("l", L40S, 2, held=1)))
    assert plan.ask(with_replicas(plan, 2)).decision.missing == 1


def test_a_quota_holds_for_a_hypothesis_and_comes_back_with_the_share() -> None:
    quotas = {"default": {"nvidia.com/gpu": 1}}
    plan = planned([asking(2, pool(L40S))], fleet(node("l", L40S, 8, held=1)), quotas)
    assert sizes(plan.decisions[ASKS]) == {L40S: 2}
    assert plan.left.ledger.quota == {"default": {"nvidia.com/gpu": 0}}
    assert plan.ask(with_replicas(plan, 2)).decision.missing == 0
    refused = plan.ask(with_replicas(plan, 3)).decision
    assert refused.missing == 1
    assert refusals(Unplaceable(refused.rejections))[L40S, 1] is Reason.QUOTA_EXCEEDED


def test_a_move_is_asked_for_as_a_hypothesis() -> None:
    plan = planned([asking(1, pool(L40S), constraints=GpuConstraints(allow=(H100,)))], fleet(node("h", H100, 1)))
    assert sizes(plan.decisions[ASKS]) == {L40S: 1}
    moved = plan.ask(replace(plan.tenants[ASKS], accepts_move=True)).decision
    assert sizes(moved) == {H100: 1}


@pytest.mark.parametrize("error", [ZeroDivisionError(), UnsupportedModel("org/new", "a memory law")], ids=repr)
def test_an_error_is_raised_with_a_decision_that_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    plan = planned([asking(1, pool(L40S))], fleet(node("l", L40S, 4, held=1)))

    def throw(*_: object) -> None:
        raise error

    monkeypatch.setattr(make_before_break, "warnings_for", throw)
    with pytest.raises(HypothesisFailed) as raised:
        plan.ask(with_replicas(plan, 2))
    decision = raised.value.decision
    assert (sizes(decision), decision.is_refusal) == ({L40S: 1}, isinstance(error, UnsupportedModel))
    assert str(raised.value) == decision.failure != ""


def test_a_hypothesis_is_answered_by_the_solver_of_the_plan() -> None:
    where, calls = fleet(node("l", L40S, 4, held=1)), list[int]()

    def counting(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
        calls.append(len(demands))
        return solve_exhaustively(demands, stock)

    plan = planned([asking(1, pool(L40S)), tenant(request(name="other"))], where, solver=counting)
    assert sizes(plan.ask(with_replicas(plan, 2)).decision) == {L40S: 2}
    assert calls == [2, 1]


class TestNewReplicas:
    """How many replicas of a deployment the plan has just placed, or has no place for."""

    def new(self, wanted: int, free: int) -> int:
        """One replica runs, ``wanted`` are wanted, and ``free`` GPUs are free."""
        plan = planned([asking(wanted, pool(L40S))], fleet(node("l", L40S, free + 1, held=1)))
        return plan.what_if(ASKS).new_replicas

    def test_what_ran_before_does_not_count(self) -> None:
        assert self.new(wanted=1, free=4) == 0

    def test_what_is_placed_and_what_found_no_place_counts(self) -> None:
        assert [self.new(wanted=3, free=free) for free in (0, 1, 2)] == [2, 2, 2]

    def test_a_pool_that_is_opened_counts_whole_and_one_that_retires_not_at_all(self) -> None:
        runs = Tenant(request(name="asks", constraints=GpuConstraints(allow=(H100,))), 2, (pool(L40S, generation=1),))
        plan = planned([runs], fleet(node("l", L40S, 1, held=1), node("h", H100, 1)))
        assert {each.gpu_type: each.state for each in plan.decisions[ASKS].pools} == {
            H100: PoolState.ACTIVE,
            L40S: PoolState.RETIRING,
        }
        assert plan.what_if(ASKS).new_replicas == 1

    def test_a_retiring_pool_of_the_same_kind_is_no_pool_that_it_had(self) -> None:
        back = tenant(request(name="asks"), pool(L40S, state=PoolState.RETIRING), pool(H100, replicas=0))
        plan = planned([back], fleet(node("l", L40S, 2, held=1)))
        assert sizes(plan.decisions[ASKS]) == {L40S: 1}
        assert plan.what_if(ASKS).new_replicas == 1


class TestTaken:
    """The same resources come back that were taken, whatever was taken meanwhile."""

    where = fleet(
        replace(node("a", L40S, 4), host_free=HostRoom(8000, 2**36, 10)),
        replace(node("b", L40S, 4), host_free=HostRoom(None, None, 3)),
    )
    before = Ledger.of(where, {"x": {"r": 5, "s": 1}, "y": {"r": 9}})
    need = HostNeed(1000, 2**30)

    def after(self, ledger: Ledger, replicas: int, namespace: str) -> Ledger:
        left = ledger.take(self.where.nodes, Split(2).shape, replicas, self.need)
        return charged(left, namespace, QuotaUse((("r", 2),)), replicas)

    def test_nothing_taken_is_nothing(self) -> None:
        assert taken_between(self.before, self.before) is None
        assert taken_between(self.before, self.before.take(self.where.nodes, Split(2).shape, 0)) is None

    def test_it_comes_back_whole(self) -> None:
        left = self.after(self.before, 3, "x")
        share = taken_between(self.before, left)
        assert share is not None
        assert share.given_back_to(left) == self.before
        assert left != self.before

    def test_it_comes_back_after_others_took_more(self) -> None:
        first = self.after(self.before, 1, "x")
        second = self.after(first, 2, "y")
        share = taken_between(self.before, first)
        assert share is not None
        back = share.given_back_to(second)
        assert (sum(back.free.values()), back.quota) == (4, {"x": {"r": 5, "s": 1}, "y": {"r": 5}})
        assert [back.hosts[name].pods for name in "ab"] == [9, 2]
        assert back.hosts["a"].cpu_millis == 7000
        assert (back.hosts["b"].cpu_millis, back.hosts["b"].memory_bytes) == (None, None)

    def test_answers_of_the_ledger_before_are_not_used_again(self) -> None:
        nodes = self.where.nodes
        left = self.before.take(nodes, Split(4).shape, 2)
        assert left.room_for(nodes, Split(4).shape) == 0
        share = taken_between(self.before, left)
        assert share is not None
        assert share.given_back_to(left).room_for(nodes, Split(4).shape) == 2

    @pytest.mark.parametrize("need", [HostNeed(), HostNeed(1000), HostNeed(0, 2**30)], ids=["none", "CPU", "memory"])
    def test_a_pod_without_a_request_for_cpu_or_memory_gives_back_none_of_it(self, need: HostNeed) -> None:
        left = self.before.take(self.where.nodes, Split(2).shape, 3, need)
        share = taken_between(self.before, left)
        assert share is not None
        assert share.given_back_to(left) == self.before

    def test_the_last_of_a_node_s_resources_comes_back_too(self) -> None:
        small = replace(node("a", L40S, 4), host_free=HostRoom(1000, 2**30, 1))
        before = Ledger.of(fleet(small, node("b", L40S, 4)), {"x": {"r": 2}})
        left = self.after(before, 1, "x")
        assert (left.hosts["a"], left.quota) == (HostRoom(0, 0, 0), {"x": {"r": 0}})
        share = taken_between(before, left)
        assert share is not None
        assert share.given_back_to(left) == before

    def test_nodes_and_namespaces_without_a_difference_are_left_out(self) -> None:
        share = taken_between(self.before, self.after(self.before, 1, "x"))
        assert share is not None
        assert (share.gpus, share.hosts) == ({"a": 2}, {"a": HostRoom(1000, 2**30, 1)})
        assert share.quota == {"x": {"r": 2, "s": 0}}
