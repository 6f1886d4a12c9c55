"""A promise that no number of replicas keeps asks for a faster place, by what was learned at the present one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.cluster.gpus import Billing
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.requests.serving import GpuConstraints
from plimsoll.facts.cluster.billing import with_billing
from plimsoll.placement.demands.pools import Tenant
from plimsoll.rebalance.decide import decide
from plimsoll.rebalance.diagnosis.diagnose import DiagnosisKind
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Keep, Move, Wait
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from plimsoll.rebalance.state.situation import Situation
from plimsoll.rebalance.why import sentence
from tests.support.engine_loads import NOW, Serves
from tests.support.live_situations import AUTO
from tests.support.other_places import PROMISE, name_of, on, place_after, runs, serving
from tests.support.planning import A100, H100, L4, L40S, fleet, gpu, node
from tests.support.world_plans import planned

MISSED_SECONDS = 300.0

SLOW = Serves(rate=0.3, token_seconds=0.045, running=3, capacity=100_000)
"""On an L40S, the model expects 24 ms for a request alone."""
FAST = replace(SLOW, token_seconds=0.025)
MISSED_FOR_LONG = NOW - MISSED_SECONDS
ONE_L40S = node("l", L40S, 1, held=1)


def promised(**changed: Any) -> Tenant:
    return runs(L40S, slo=PROMISE, **changed)


def slow(one: Tenant, load: Serves = SLOW, slowness: float = 1.7, **changed: Any) -> Situation:
    where = serving(one, load, slowness=slowness, **changed)
    return replace(where, memory=replace(where.memory, missed_since=MISSED_FOR_LONG))


def test_a_place_that_is_too_slow_is_left_for_a_faster_one() -> None:
    decided = decide(slow(promised()), on(promised(), ONE_L40S, node("a", A100, 2)))
    assert isinstance(decided.decision, Move)
    assert decided.kind is DiagnosisKind.TOO_SLOW
    assert place_after(decided) == {(A100, 1): 1}
    assert decided.answer is not None
    assert {each.gpu_type: each.state.value for each in decided.answer.decision.pools} == {
        A100: "Active",
        L40S: "Retiring",
    }
    assert decided.answer.tenant.request.slo == PROMISE


def on_sglang(one: Tenant, **constraints: Any) -> Tenant:
    """The same deployment, which SGLang may run, too: there within other constraints."""
    engine = EngineChoice(EngineVersion(0, 5, 23), name="sglang")
    other = replace(one.request, engine=engine, constraints=GpuConstraints(**constraints))
    return replace(one, request=replace(one.request, alternatives=(other,)))


def test_another_engine_that_alone_keeps_the_promise_is_proposed_and_waits_for_people() -> None:
    one = on_sglang(promised(constraints=GpuConstraints(allow=(L40S,))), allow=(A100,))
    decided = decide(slow(one), on(one, ONE_L40S, node("a", A100, 2)))
    assert isinstance(decided.decision, Move)
    assert (decided.decision.reason, decided.decision.engine) == (DecisionReason.PROMISE_OUT_OF_REACH, "sglang")
    assert place_after(decided) == {(A100, 1): 1}
    assert not AUTO.carries_out(decided.decision)
    assert decided.answer is not None
    assert {(each.gpu_type, each.engine) for each in decided.answer.decision.pools} == {
        (A100, "sglang"),
        (L40S, "vllm"),
    }
    said = sentence(decided.decision)
    assert "; 1 replica of SGLang on a100-sxm-80gb x 1 would take " in said
    assert "A replica of SGLang holds " in said


def test_the_engine_that_runs_comes_first_where_it_keeps_the_promise_itself() -> None:
    one = on_sglang(promised())
    decided = decide(slow(one), on(one, ONE_L40S, node("a", A100, 2), node("h", H100, 2)))
    assert isinstance(decided.decision, Move)
    assert decided.decision.engine == ""
    assert AUTO.carries_out(decided.decision)


@pytest.mark.parametrize("billing", [Billing.ON_DEMAND, Billing.OWNED])
def test_the_figures_are_promised_measured_and_expected_with_both_bills(billing: Billing) -> None:
    """The bills are those of the status, whether or not the nodes are paid for in any case."""
    nodes = with_billing(fleet(ONE_L40S, node("a", A100, 2)), (), billing).nodes
    decided = decide(slow(promised()), on(promised(), *nodes))
    reported = dict(decided.decision.numbers)
    assert (reported["figure"], reported["measured_ms"], reported["promised_ms"]) == ("tpot", 45, 30)
    assert (reported["bill"], reported["to_bill"], reported["to_place"]) == ("1.15", "1.59", "a100-sxm-80gb x 1")
    assert 30 < int(reported["alone_ms"]) < 45
    assert int(reported["to_ms"]) < 0.8 * 30
    assert sentence(decided.decision).startswith(
        "Another placement is needed, because more replicas would not help: the mean time per token is 45 ms and 30 ms "
    )


def test_where_a_price_is_unknown_no_bill_is_named() -> None:
    unpriced = node("l", gpu(L40S, price=None), 1, held=1)
    reported = dict(decide(slow(promised()), on(promised(), unpriced, node("a", A100, 2))).decision.numbers)
    assert reported["to_place"] == "a100-sxm-80gb x 1"
    assert "bill" not in reported
    assert "to_bill" not in reported


def test_by_the_model_alone_a_place_would_do_that_is_too_slow_by_what_was_learned() -> None:
    """Two L40S take 13 ms, and 29 ms if engines are 2.2 times as slow as the model says."""
    one = promised()
    where = ONE_L40S, node("l2", L40S, 2), node("a", A100, 2)
    assert place_after(decide(slow(one, replace(SLOW, token_seconds=0.06), 2.2), on(one, *where))) == {(A100, 1): 1}


@pytest.mark.parametrize(("first_token", "moves"), [(1.7, True), (0.8, False)], ids=["missed", "kept"])
def test_the_time_to_the_first_token_is_a_promise_as_well(first_token: float, moves: bool) -> None:  # noqa: FBT001
    """An L4 takes 1.3 s for a prompt of 6,000 tokens alone, and an H100 a fifth of it."""
    one = runs(L4, slo=Slo(ttft_seconds=1.0), context=8192, concurrency=2)
    prompts = Serves(rate=0.05, prompt=6000, output=50, first_token_seconds=first_token, token_seconds=0.07, running=1)
    decided = decide(slow(one, prompts, 1.0), on(one, node("4", L4, 1, held=1), node("h", H100, 2)))
    assert (decided.kind is DiagnosisKind.TOO_SLOW) is moves
    assert isinstance(decided.decision, Move) is moves
    if moves:
        assert "the mean time to the first token is 1,700 ms and 1,000 ms are promised" in sentence(decided.decision)


def test_what_was_learned_at_another_place_counts_there() -> None:
    one = promised()
    situation = slow(one)
    known = replace(situation, memory=replace(situation.memory, others=((name_of(A100), 2.9),)))
    where = ONE_L40S, node("a", A100, 1), node("h", H100, 1)
    assert place_after(decide(situation, on(one, *where))) == {(A100, 1): 1}
    assert place_after(decide(known, on(one, *where))) == {(H100, 1): 1}


@pytest.mark.parametrize(("price", "taken"), [("1.59", A100), (None, H100)])
def test_the_cheapest_of_the_fast_places_is_taken_and_one_without_a_price_comes_last(
    price: str | None, taken: str
) -> None:
    decided = decide(
        slow(promised()), on(promised(), ONE_L40S, node("h", H100, 8), node("a", gpu(A100, price=price), 8))
    )
    assert place_after(decided) == {(taken, 1): 1}


@pytest.mark.parametrize(
    ("load", "slowness", "changed"),
    [
        (FAST, 1.0, {}),
        (SLOW, 1.7, {"missed_since": NOW - MISSED_SECONDS + 1}),
        (SLOW, 1.7, {"missed_since": None}),
    ],
    ids=["the promise is kept", "it has been missed for less than that", "it has not been missed before"],
)
def test_without_need_nothing_moves(load: Serves, slowness: float, changed: dict[str, Any]) -> None:
    situation = slow(promised(), load, slowness)
    situation = replace(situation, memory=replace(situation.memory, **changed))
    decided = decide(situation, on(promised(), ONE_L40S, node("h", H100, 8)))
    assert isinstance(decided.decision, Keep | AddReplica)
    assert decided.kind is not DiagnosisKind.TOO_SLOW


def test_a_replica_that_keeps_the_promise_with_hardly_any_requests_is_at_the_wrong_place() -> None:
    """A request alone takes 24 ms of 30, and a replica could run 64 of them."""
    decided = decide(slow(promised(), SLOW, 1.0), on(promised(), ONE_L40S, node("a", A100, 2)))
    assert (type(decided.decision), place_after(decided)) == (Move, {(A100, 1): 1})


def test_while_a_replica_is_unknown_nothing_is_out_of_reach() -> None:
    two = runs(L40S, 2, slo=PROMISE)
    where = on(two, node("l", L40S, 2, held=2), node("a", A100, 4))
    assert decide(slow(two, replicas=2, ready=2), where).kind is not DiagnosisKind.TOO_SLOW
    assert decide(slow(two, replicas=2, ready=1), where).kind is DiagnosisKind.TOO_SLOW


def test_a_promise_that_more_replicas_keep_moves_nothing() -> None:
    """Sixty requests at the same time take 60 ms a token, and a request alone takes 24 ms."""
    many, one = replace(SLOW, rate=8.0, running=60, token_seconds=0.06), runs(L40S, slo=Slo(tpot_seconds=0.05))
    decided = decide(slow(one, many, 1.0), on(one, node("l", L40S, 8, held=1), node("h", H100, 8)))
    assert (type(decided.decision), decided.kind) == (AddReplica, DiagnosisKind.DECODE_BOUND)


def test_without_a_declared_promise_nothing_moves_for_speed() -> None:
    usual = runs(L40S)
    very_slow = replace(SLOW, token_seconds=0.15)
    decided = decide(slow(usual, very_slow, 3.0), on(usual, ONE_L40S, node("h", H100, 8)))
    assert not isinstance(decided.decision, Move)
    assert decided.kind is not DiagnosisKind.TOO_SLOW


def test_no_place_that_is_clearly_faster_is_said() -> None:
    """An L4 is slower. Only the spec's wish keeps the H100 out."""
    only = promised(constraints=GpuConstraints(allow=(L40S, L4)))
    decided = decide(slow(only), on(only, ONE_L40S, node("4", L4, 1), node("h", H100, 8)))
    assert (type(decided.decision), decided.decision.reason) == (Wait, DecisionReason.NO_FASTER_PLACE)
    assert "to be a fifth faster than l40s-48gb x 1" in sentence(decided.decision)


def test_a_gain_of_less_than_a_fifth_moves_nothing() -> None:
    """A100 would keep the promise, and take more than four fifths of the measured time."""
    one = runs(L40S, slo=Slo(tpot_seconds=0.03))
    situation = slow(one, replace(SLOW, token_seconds=0.031), 1.3, policy=replace(AUTO, max_replicas=1))
    known = replace(situation, memory=replace(situation.memory, others=((name_of(A100), 2.35),)))
    decided = decide(known, on(one, ONE_L40S, node("a", A100, 1)))
    assert (type(decided.decision), decided.decision.reason) == (Wait, DecisionReason.NO_FASTER_PLACE)
    assert isinstance(decide(situation, on(one, ONE_L40S, node("a", A100, 1))).decision, Move)


def test_faster_gpus_that_are_taken_are_named() -> None:
    decided = decide(slow(promised()), on(promised(), ONE_L40S, node("a", A100, 2, held=2)))
    assert (type(decided.decision), decided.decision.reason) == (Wait, DecisionReason.NO_PLACE_FOUND)
    assert "a100-sxm-80gb x 1 fits" in str(decided.decision.number("nearest"))


def test_as_many_replicas_are_placed_as_the_load_needs_there() -> None:
    """Four L40S carry what one A100 carries."""
    four = runs(L40S, 4, slo=PROMISE)
    where = on(four, node("l", L40S, 4, held=4), node("a", A100, 8))
    situation = serving(four, *[SLOW] * 4, slowness=1.7)
    situation = replace(situation, memory=replace(situation.memory, missed_since=MISSED_FOR_LONG))
    assert place_after(decide(situation, where)) == {(A100, 1): 1}
    least = replace(situation, policy=replace(AUTO, min_replicas=2))
    assert place_after(decide(least, where)) == {(A100, 1): 2}


@pytest.mark.parametrize("policy", [replace(AUTO, asks_before_moves=True), replace(AUTO, mode=Mode.RECOMMEND)])
def test_pressure_is_served_while_people_are_asked(policy: RebalancePolicy) -> None:
    pressed = replace(SLOW, kv_usage=0.99)
    one = promised()
    where = on(one, node("l", L40S, 8, held=1), node("a", A100, 2))
    assert isinstance(decide(replace(slow(one, pressed), policy=policy), where).decision, AddReplica)
    assert isinstance(decide(replace(slow(one), policy=policy), where).decision, Move)


def test_a_move_is_within_the_bounds() -> None:
    spent = ChangeHistory(tuple(ChangeRecord(NOW - 700 - age, ChangeKind.MOVE) for age in range(AUTO.changes_per_hour)))
    where = on(promised(), ONE_L40S, node("a", A100, 2))
    held = decide(slow(promised(), history=spent), where)
    assert (type(held.decision), held.decision.reason) == (Wait, DecisionReason.HOURLY_BUDGET_SPENT)


def test_after_such_a_move_new_replicas_go_where_the_others_are() -> None:
    """The slow place is cheaper, and fast enough by the model alone."""
    moved = runs(A100, slo=PROMISE)
    pressed = replace(FAST, kv_usage=0.99, token_seconds=0.015)
    where = on(moved, node("l", L40S, 8), node("a", A100, 8, held=1))
    history = ChangeHistory((ChangeRecord(NOW - 7000, ChangeKind.MOVE, DecisionReason.PROMISE_OUT_OF_REACH.value, 1),))
    after = decide(serving(moved, pressed, history=history), where)
    assert (type(after.decision), place_after(after)) == (AddReplica, {(A100, 1): 2})


def test_the_search_is_not_made_again_while_nothing_changes() -> None:
    one = promised()
    plan = planned([one], fleet(ONE_L40S, node("a", A100, 2)))
    asked = 0

    def market() -> Any:
        nonlocal asked
        asked += 1
        return plan.market(one.request.key)

    first = decide(slow(one), replace(plan.what_if(one.request.key), market=market))
    assert asked == 1
    again = decide(replace(slow(one), memory=first.memory), replace(plan.what_if(one.request.key), market=market))
    assert (asked, again.decision) == (1, first.decision)


def test_what_another_engine_carries_is_said_by_the_slowness_that_was_learned_here() -> None:
    one = on_sglang(promised(constraints=GpuConstraints(allow=(L40S,))), allow=(A100,))

    def carries(slowness: float) -> int:
        found = decide(slow(one, slowness=slowness), on(one, ONE_L40S, node("a", A100, 2))).decision
        return int(dict(found.numbers)["to_per_minute"])

    assert carries(2.0) < carries(1.7)
