"""A steady load goes to a cheaper place that is free, if that saves enough, and never comes back for nothing."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.cluster.gpus import Billing
from plimsoll.domain.decisions.latency import Objective, Slo
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.requests.serving import GpuConstraints
from plimsoll.performance.worth import FIRST_STARTUP_SECONDS
from plimsoll.placement.demands.pools import Place
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.transition.hypothesis import Market, WhatIf
from plimsoll.rebalance.decide import decide
from plimsoll.rebalance.diagnosis.diagnose import DiagnosisKind, diagnose
from plimsoll.rebalance.diagnosis.judging import judged
from plimsoll.rebalance.law.capacity import capacity_of
from plimsoll.rebalance.law.price import stakes_of
from plimsoll.rebalance.places.elsewhere import elsewhere
from plimsoll.rebalance.places.sites import Site, sites_elsewhere
from plimsoll.rebalance.signals.traffic import Lengths
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Keep, Move
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import Mode
from plimsoll.rebalance.state.situation import Situation
from plimsoll.rebalance.why import sentence
from tests.support.engine_loads import Serves, replica_model
from tests.support.live_situations import AUTO
from tests.support.other_places import DUE, looks, name_of, on, place_after, plan_of, runs, serving
from tests.support.planning import A100, H100, L4, L40S, fleet, gpu, node, pool, request, tenant
from tests.support.tables import every_case

TOLERANCE = 0.04

CALM = Serves(rate=0.5, running=2, token_seconds=0.01, capacity=100_000)
BUSY = Serves(rate=2.0, running=4, token_seconds=0.01, capacity=100_000)
ONE_GPU = GpuConstraints(max_per_replica=1)
H100_NODE = node("h", H100, 2, held=1)
L40S_NODE = node("l", L40S, 4)
HOUR_AGO = DUE - 3600


def calm(*loads: Serves, kind: str = H100, replicas: int = 1, now: float = DUE, **changed: Any) -> Situation:
    return serving(runs(kind, replicas), *(loads or (CALM,) * replicas), now=now, **changed)


def h100(*nodes: GpuNode, replicas: int = 1, **changed: Any) -> WhatIf:
    return on(runs(H100, replicas, **changed), node("h", H100, 8, held=replicas), *nodes)


def test_a_move_to_nodes_that_are_paid_for_says_so() -> None:
    owned = replace(L40S_NODE, gpu=replace(L40S_NODE.gpu, billing=Billing.OWNED))
    decided = decide(calm(), h100(owned))
    assert (type(decided.decision), decided.decision.reason) == (Move, DecisionReason.CHEAPER_PLACE)
    assert sentence(decided.decision).startswith(
        "The same load would use nodes that are paid for already, and 3.08 US dollars an hour would end, "
        "with 1 replica on l40s-48gb x 1 "
    )


def test_a_light_load_goes_to_a_cheaper_gpu() -> None:
    decided = decide(calm(), h100(L40S_NODE))
    assert (type(decided.decision), decided.decision.reason) == (Move, DecisionReason.CHEAPER_PLACE)
    assert decided.kind is DiagnosisKind.CHEAPER_ELSEWHERE
    assert place_after(decided) == {(L40S, 1): 1}
    assert decided.answer is not None
    assert {each.gpu_type: each.state.value for each in decided.answer.decision.pools} == {
        L40S: "Active",
        H100: "Retiring",
    }
    assert sentence(decided.decision).startswith(
        "The same load would cost 1.15 US dollars an hour instead of 3.08 (63 % less), with 1 replica on l40s-48gb x 1 "
        "instead of 1 replica on h100-sxm-80gb x 1: 30 requests a minute "
    )


@pytest.mark.parametrize(("price", "moves"), [("2.6163", True), ("2.6164", False)])
def test_fifteen_percent_of_the_bill_are_enough_and_less_is_not(price: str, moves: bool) -> None:  # noqa: FBT001
    """An H100 costs 3.078 US dollars an hour. Nobody waits for a batch, so its speed is worth nothing."""
    one = runs(H100, objective=Objective.BATCH)
    decided = decide(calm(), on(one, H100_NODE, node("a", gpu(A100, price=price), 1)))
    assert isinstance(decided.decision, Move) is moves


@pytest.mark.parametrize(
    ("objective", "moves"),
    [(Objective.INTERACTIVE, False), (Objective.BALANCED, True), (Objective.BATCH, True)],
    ids=str,
)
def test_a_slower_place_must_save_more_than_the_time_of_users_is_worth(objective: Objective, *, moves: bool) -> None:
    """An L40S saves $1.92 an hour, and each token takes 16 users three times as long as on an H100."""
    one = runs(H100, objective=objective, concurrency=16)
    decided = decide(calm(), on(one, H100_NODE, L40S_NODE))
    assert isinstance(decided.decision, Move) is moves


def test_many_replicas_become_fewer_larger_ones() -> None:
    dear = replace(gpu(L40S), name=L40S), fleet(node("l", gpu(L40S, price="2.00"), 8, held=6), node("a", A100, 8))
    six = runs(L40S, 6)
    where = plan_of(six, dear[1]).what_if(six.request.key)
    decided = decide(calm(*[replace(BUSY, rate=3.8)] * 6, kind=L40S, replicas=6), where)
    assert isinstance(decided.decision, Move)
    [((kind, _), replicas)] = place_after(decided).items()
    assert (kind, replicas < 6) == (A100, True)


@pytest.mark.parametrize(
    ("replicas", "rate", "price", "moves"),
    [
        (2, 6.8, "3.00", False),
        (2, 7.6, "3.00", True),
        (2, 8.8, "3.00", True),
        (3, 16.0, "4.50", False),
        (3, 16.0, "3.00", True),
    ],
)
def test_what_saves_nothing_for_a_little_less_load_or_a_little_more_moves_nothing(
    replicas: int, rate: float, price: str, *, moves: bool
) -> None:
    """One H100 carries what two L40S at $2.00 carry, or three. A fifth less than 6.8 requests a second needs one L40S.

    A quarter more than 16 needs a second H100.
    """
    where = node("l", gpu(L40S, price="2.00"), 8, held=replicas), node("h", gpu(H100, price=price), 8)
    load = [replace(BUSY, rate=rate / replicas)] * replicas
    decided = decide(calm(*load, kind=L40S, replicas=replicas), on(runs(L40S, replicas), *where))
    assert isinstance(decided.decision, Move) is moves


def test_one_replica_becomes_several_smaller_ones() -> None:
    busier = replace(BUSY, rate=2.5)
    decided = decide(calm(busier), h100(node("4", gpu(L4, price="0.10"), 8)))
    [((kind, _), replicas)] = place_after(decided).items()
    assert (kind, replicas > 1) == (L4, True)
    one = replace(AUTO, max_replicas=1)
    held = decide(calm(busier, policy=one), h100(node("4", gpu(L4, price="0.10"), 8)))
    assert not isinstance(held.decision, Move), "the user allows one replica"


@pytest.mark.parametrize(("held", "kind"), [(0, L4), (7, L40S)])
def test_of_cheaper_places_the_cheapest_one_with_room_for_all_replicas_is_taken(held: int, kind: str) -> None:
    decided = decide(calm(BUSY), h100(node("4", gpu(L4, price="0.10"), 8, held=held), L40S_NODE))
    assert {each for (each, _), _ in place_after(decided).items()} == {kind}


def _changed(seconds: float) -> Situation:
    """The last change was made so many seconds ago."""
    return replace(calm(), history=ChangeHistory((ChangeRecord(DUE - seconds, ChangeKind.ADD),)))


def _losing(share: float) -> Situation:
    """So large a share of the requests loses its cache."""
    usual = calm()
    assert usual.load.traffic is not None
    return replace(usual, load=replace(usual.load, traffic=replace(usual.load.traffic, preempted_share=share)))


NOT_NOW: dict[str, Situation] = {
    "a request waits": calm(replace(CALM, waiting=1)),
    "a replica is not known": calm(CALM, replicas=2, ready=2),
    "too few looks": replace(calm(), memory=replace(calm().memory, looks=looks(0.5, seconds=120, now=DUE))),
    "something was changed": replace(calm(), history=ChangeHistory((ChangeRecord(DUE - 300, ChangeKind.ADD),))),
    "something was changed a moment less than the cool-down ago": _changed(AUTO.cooldown_seconds - 1),
    "requests lose their cache": _losing(0.01),
    "a replica starts": calm(replicas=1, ready=1, new_replicas=1),
    "replicas get new settings one after another": calm(updating=True),
    "a promise is missed": calm(replace(CALM, token_seconds=0.2)),
    "it had to leave a slow place": replace(
        calm(),
        history=ChangeHistory((ChangeRecord(HOUR_AGO, ChangeKind.MOVE, DecisionReason.PROMISE_OUT_OF_REACH.value),)),
    ),
    "it has looked just now": serving(runs(H100), CALM, now=DUE + 20),
}


@every_case("situation", NOT_NOW.values(), ids=NOT_NOW)
def test_the_price_moves_nothing_while_anything_else_happens(situation: Situation) -> None:
    assert not isinstance(decide(situation, h100(L40S_NODE)).decision, Move)


@every_case("situation", [_changed(AUTO.cooldown_seconds), _losing(0.0)], ids=["the cool-down is over", "none is lost"])
def test_the_price_counts_where_the_last_of_it_is_over(situation: Situation) -> None:
    assert isinstance(decide(situation, h100(L40S_NODE)).decision, Move)


def test_a_day_after_a_move_for_a_promise_the_price_counts_again() -> None:
    for hours, counts in ((23.999, False), (24, True)):
        mark = ChangeRecord(DUE - 3600 * hours, ChangeKind.MOVE, DecisionReason.PROMISE_OUT_OF_REACH.value)
        after = replace(calm(), history=ChangeHistory((mark,)))
        assert isinstance(decide(after, h100(L40S_NODE)).decision, Move) is counts


def kept(situation: Situation, what_if: WhatIf) -> bool:
    decided = decide(situation, what_if)
    same = (type(decided.decision), decided.decision.reason) == (Keep, DecisionReason.WITHIN_BAND)
    return same and decided.kind is DiagnosisKind.NOTHING_TO_CHANGE


@pytest.mark.parametrize(
    "other",
    [
        node("l", L40S, 4, held=4),
        node("l", gpu(L40S, price=None), 4),
        node("l", gpu(L40S, price="2.70"), 4),
    ],
    ids=["it is taken", "its price is not known", "it saves 12 %"],
)
def test_a_place_that_is_not_worth_it_is_not_said(other: GpuNode) -> None:
    assert kept(calm(), h100(other))
    assert not kept(calm(), h100(node("l", gpu(L40S, price="2.50"), 4)))


def test_where_the_present_price_is_not_known_nothing_moves() -> None:
    one = runs(H100)
    assert kept(calm(), on(one, node("h", gpu(H100, price=None), 2, held=1), L40S_NODE))


def test_a_cheaper_place_that_breaks_the_promise_is_not_taken() -> None:
    """An L40S takes 24 ms a token, and an H100 takes 7 ms."""
    strict, loose = (runs(H100, slo=Slo(tpot_seconds=limit), constraints=ONE_GPU) for limit in (0.026, 0.040))
    where = node("h", H100, 2, held=1), L40S_NODE
    assert kept(serving(strict, CALM, now=DUE), on(strict, *where))
    assert not kept(serving(loose, CALM, now=DUE), on(loose, *where))


@pytest.mark.parametrize("suffix", ["", "-vllm"])
def test_what_was_learned_elsewhere_keeps_a_deployment_from_going_there(suffix: str) -> None:
    """Whether or not the pool there had its engine's name, because another engine was there, too."""
    one = runs(H100, slo=Slo(tpot_seconds=0.040), constraints=ONE_GPU)
    situation = serving(one, CALM, now=DUE)
    known = replace(situation, memory=replace(situation.memory, others=((name_of(L40S) + suffix, 1.6),)))
    assert kept(known, on(one, H100_NODE, L40S_NODE))
    assert not kept(situation, on(one, H100_NODE, L40S_NODE))


def test_a_long_start_must_pay_back() -> None:
    slow_start = replace(calm(), memory=replace(calm().memory, startup_seconds=7200.0))
    assert kept(slow_start, h100(node("l", gpu(L40S, price="2.50"), 4)))
    assert not kept(slow_start, h100(node("l", gpu(L40S, price="0.50"), 4)))


def test_the_move_of_every_replica_must_pay_back() -> None:
    """Half an hour of an L40S at 2.50 costs 1.25. A replica saves 0.58 in the first hour, and four save 2.31."""
    four, at_least = runs(H100, 4), replace(AUTO, min_replicas=4)
    where = node("h", H100, 4, held=4), node("l", gpu(L40S, price="2.50"), 4)

    def after(startup_seconds: float) -> Situation:
        seen = calm(replicas=4, policy=at_least, enough=4)
        return replace(seen, memory=replace(seen.memory, startup_seconds=startup_seconds))

    assert kept(after(1800.0), on(four, *where))
    assert place_after(decide(after(300.0), on(four, *where))) == {(L40S, 1): 4}


def test_while_another_deployment_waits_for_gpus_nothing_moves_for_the_price() -> None:
    one = runs(H100)
    waits = tenant(request(name="other", node_selector=(("no", "such"),)))
    where = fleet(H100_NODE, L40S_NODE)
    assert kept(calm(), plan_of(one, where, [waits]).what_if(one.request.key))
    fits = tenant(request(name="other"))
    assert not kept(calm(), plan_of(one, where, [fits]).what_if(one.request.key))


def test_a_cheaper_place_is_found_as_soon_as_nobody_waits_any_more() -> None:
    one, waits = runs(H100), tenant(request(name="other", node_selector=(("no", "such"),)))
    where = fleet(H100_NODE, L40S_NODE)
    contended = decide(calm(), plan_of(one, where, [waits]).what_if(one.request.key))
    then = replace(calm(), memory=replace(calm().memory, sought=contended.memory.sought))
    assert not kept(then, plan_of(one, where).what_if(one.request.key))


def test_while_another_deployment_waits_a_known_place_is_not_taken() -> None:
    one, waits = runs(H100), tenant(request(name="other", node_selector=(("no", "such"),)))
    where = fleet(H100_NODE, L40S_NODE)
    found = decide(calm(policy=replace(AUTO, mode=Mode.RECOMMEND)), plan_of(one, where).what_if(one.request.key))
    later = replace(calm(now=DUE + 20), memory=replace(calm(now=DUE + 20).memory, sought=found.memory.sought))
    assert not kept(later, plan_of(one, where).what_if(one.request.key))
    assert kept(later, plan_of(one, where, [waits]).what_if(one.request.key))


def test_a_place_that_fits_only_probably_is_not_taken_for_the_price() -> None:
    """28,000 tokens fit on an L4 only probably, and 12,000 fit for sure."""
    sure, probable = (
        runs(H100, context=tokens, concurrency=2, may_narrow_cache=True, constraints=ONE_GPU)
        for tokens in (12_000, 28_000)
    )
    light, cheap = calm(replace(CALM, rate=0.02)), node("4", gpu(L4, price="0.40"), 1)
    assert kept(light, on(probable, H100_NODE, cheap))
    assert not kept(light, on(sure, H100_NODE, cheap))


def test_a_place_that_is_fast_only_by_what_was_learned_long_ago_is_not_taken() -> None:
    one = runs(H100, slo=Slo(tpot_seconds=0.026), constraints=ONE_GPU)
    situation = serving(one, CALM, now=DUE)
    known = replace(situation, memory=replace(situation.memory, others=((name_of(L40S), 0.5),)))
    assert kept(known, on(one, H100_NODE, L40S_NODE))


def test_a_place_whose_pods_found_no_node_lately_is_not_taken() -> None:
    one = runs(H100)
    left = replace(one, left=(Rehoming(L40S, Split(1), at=DUE - 600),))
    assert kept(calm(), on(left, H100_NODE, L40S_NODE))
    assert not kept(calm(), on(one, H100_NODE, L40S_NODE))


def test_the_smallest_number_of_replicas_counts() -> None:
    """Two are asked for, although one has been enough for long."""
    at_least = replace(AUTO, min_replicas=2)
    two = runs(H100, 2)
    decided = decide(
        calm(CALM, CALM, replicas=2, policy=at_least, enough=1), on(two, node("h", H100, 4, held=2), L40S_NODE)
    )
    assert place_after(decided) == {(L40S, 1): 2}


@pytest.mark.parametrize(("price", "moves"), [("2.80", False), ("1.90", True)])
def test_a_saving_that_a_little_less_load_would_undo_is_none(price: str, moves: bool) -> None:  # noqa: FBT001 - a case
    """One H100 carries the load of three L40S, which cost 3.46. With a fifth less of it, two L40S would do."""
    three, where = runs(L40S, 3), fleet(node("l", L40S, 3, held=3), node("h", gpu(H100, price=price), 4))
    about = plan_of(three, where).what_if(three.request.key)
    decided = decide(calm(*[replace(CALM, rate=3.5)] * 3, kind=L40S, replicas=3), about)
    assert isinstance(decided.decision, Move) is moves


@pytest.mark.parametrize(("price", "moves"), [("2.80", False), ("1.90", True)])
def test_a_saving_that_only_the_slowness_of_this_place_makes_is_none(price: str, moves: bool) -> None:  # noqa: FBT001
    """The other place may turn out as slow: nothing was learned of it."""
    six, where = runs(L40S, 6), fleet(node("l", L40S, 6, held=6), node("h", gpu(H100, price=price), 4))
    seen = calm(*[replace(CALM, rate=1.77, token_seconds=0.05)] * 6, kind=L40S, replicas=6, slowness=2.0)
    known = replace(seen, memory=replace(seen.memory, others=((name_of(H100), 1.0),)))
    decided = decide(known, plan_of(six, where).what_if(six.request.key))
    assert isinstance(decided.decision, Move) is moves


@pytest.mark.parametrize(("there", "moves"), [(1.0, True), (1.3, False)])
def test_a_saving_that_only_the_model_finds_is_none(there: float, *, moves: bool) -> None:
    """Engines at the other place were slow: with a fifth less of the load, two of them would still be needed."""
    three, where = runs(L40S, 3), fleet(node("l", L40S, 3, held=3), node("h", gpu(H100, price="2.00"), 4))
    seen = calm(*[replace(CALM, rate=3.5)] * 3, kind=L40S, replicas=3)
    known = replace(seen, memory=replace(seen.memory, others=((name_of(H100), there),)))
    decided = decide(known, plan_of(three, where).what_if(three.request.key))
    assert isinstance(decided.decision, Move) is moves


@pytest.mark.parametrize(("price", "moves"), [("2.45", False), ("2.20", True)])
def test_a_place_that_needs_an_fp8_cache_must_save_a_tenth_more(price: str, moves: bool) -> None:  # noqa: FBT001
    """2.45 instead of 3.08 US dollars save 20 %, and 12 % with the charge for the permitted cache."""
    one = runs(H100, context=20_000, concurrency=2, may_narrow_cache=True, constraints=ONE_GPU)
    decided = decide(calm(replace(CALM, rate=0.02)), on(one, H100_NODE, node("4", gpu(L4, price=price), 1)))
    assert isinstance(decided.decision, Move) is moves
    if moves:
        assert decided.answer is not None
        assert [each.has_narrow_cache for each in decided.answer.decision.pools if each.gpu_type == L4] == [True]


@pytest.mark.parametrize(
    ("limit", "price", "is_made"),
    [("4.00", "2.00", True), ("3.99", "2.00", False), (None, "2.00", True), ("99", None, False), (None, None, True)],
)
def test_an_addition_may_reach_the_limit_of_the_bill_and_not_exceed_it(
    limit: str | None, price: str | None, *, is_made: bool
) -> None:
    """A bill that is not known may be any."""
    one, where = runs(H100), node("h", gpu(H100, price=price), 2, held=1)
    policy = replace(AUTO, dollars_per_hour=None if limit is None else Decimal(limit))
    decided = decide(serving(one, replace(BUSY, rate=18.0), policy=policy), on(one, where)).decision
    assert isinstance(decided, AddReplica) is is_made
    assert is_made or decided.reason is DecisionReason.DOLLARS_PER_HOUR_SPENT


def test_replicas_that_spilled_over_return_when_a_gpu_is_free() -> None:
    spilled = tenant(
        request(replicas=3),
        pool(L40S, replicas=2, limits=StepLimits(sequences=64)),
        pool(H100, replicas=1, limits=StepLimits(sequences=64)),
    )
    situation = serving(replace(spilled, pools=spilled.pools[:1]), *[replace(CALM, rate=4.6)] * 3, now=DUE)
    full = fleet(node("l", L40S, 2, held=2), node("h", H100, 1, held=1))
    free = fleet(node("l", L40S, 4, held=2), node("h", H100, 1, held=1))
    assert kept(situation, plan_of(spilled, full).what_if(spilled.request.key))
    decided = decide(situation, plan_of(spilled, free).what_if(spilled.request.key))
    assert place_after(decided) == {(L40S, 1): 3}


def test_a_proposal_stands_in_the_turns_between_two_looks() -> None:
    advice = replace(AUTO, mode=Mode.RECOMMEND)
    first = decide(calm(policy=advice), h100(L40S_NODE))
    assert isinstance(first.decision, Move)
    again = replace(calm(policy=advice), memory=first.memory)
    assert decide(again, h100(L40S_NODE)).decision == first.decision
    gone = decide(again, h100(node("l", L40S, 4, held=4)))
    assert (type(gone.decision), gone.decision.reason) == (Keep, DecisionReason.WITHIN_BAND)


def test_nothing_is_searched_again_while_prices_load_and_free_gpus_are_the_same() -> None:
    dear = h100(node("l", gpu(L40S, price="2.90"), 4))
    first = decide(calm(), dear)
    assert isinstance(first.decision, Keep)
    assert first.memory.sought is not None
    known = replace(first.memory.sought, place=(L40S, pool(L40S).split), replicas=1, numbers=WITH_BILLS)
    remembered = replace(calm(), memory=replace(calm().memory, sought=known))
    assert isinstance(decide(remembered, dear).decision, Move)
    cheaper = h100(node("l", gpu(L40S, price="2.80"), 4))
    assert isinstance(decide(remembered, cheaper).decision, Keep)


WITH_BILLS = (("bill", "3"), ("to_bill", "1"), ("saving_percent", 50), ("to_place", "x"), ("to_replicas", 1))


def test_the_market_is_not_even_opened_between_the_looks() -> None:
    def never() -> Any:
        pytest.fail("the market was opened")

    assert isinstance(
        decide(serving(runs(H100), CALM, now=DUE + 20), replace(h100(L40S_NODE), market=never)).decision, Keep
    )


def test_a_replica_at_a_place_carries_what_was_learned_of_it_or_what_the_model_says_alone() -> None:
    model, lengths = replica_model(), Lengths(1000, 200, 0, 1100)
    site = Site((H100, Split(1)), model, lengths, 2.0, 0.5, FIRST_STARTUP_SECONDS)
    slow = capacity_of(replace(model, slowness=2.0), lengths)
    assert site.capacity(learned=True) == replace(slow, per_second=slow.per_second / 2)
    assert site.capacity(learned=False) == capacity_of(model, lengths)
    assert site.replicas(9.0) > site.replicas(9.0, learned=False)


@pytest.mark.parametrize(("parts", "replicas"), [(0.0, 1), (2.0, 2), (2 / (1 - TOLERANCE) - 1e-6, 2), (2.1, 3)])
def test_the_replicas_for_a_load_are_rounded_up_from_a_part_that_counts(parts: float, replicas: int) -> None:
    """``parts`` is the load over what one replica takes with room to spare."""
    site = Site((H100, Split(1)), replica_model(), Lengths(1000, 200, 0, 1100), 1.0, 1.0, FIRST_STARTUP_SECONDS)
    capacity = site.capacity(learned=True)
    rate = parts * capacity.per_second
    for _ in range(60):  # the part that one takes depends on the rate itself
        rate = parts * capacity.per_second * stakes_of(site.model, capacity, site.startup_seconds).spare_use(rate)
    assert site.replicas(rate) == replicas


@pytest.mark.parametrize("tokens", [1000, 10**9], ids=["a larger cache there", "a smaller one"])
def test_a_smaller_cache_keeps_as_much_less_of_the_prompts_and_a_larger_one_no_more(tokens: int) -> None:
    what_if, lengths = h100(L40S_NODE), Lengths(1000, 200, 600, 1100)
    assert what_if.market is not None
    model = replace(replica_model(), kv_tokens=tokens, dispersion=2.7)
    here = Site((H100, Split(1)), model, lengths, 1.0, 1.0, FIRST_STARTUP_SECONDS)
    found = list(sites_elsewhere(what_if.tenant, what_if.market(), LoopMemory(), here))
    assert (L40S, Split(1)) in {there.place for there in found}
    for there in found:
        assert there.lengths == replace(lengths, cached=600 * min(1.0, there.model.kv_tokens / tokens))
        assert there.model.dispersion == 2.7, "the router is the same"


@pytest.mark.parametrize("also", [(), ((H100, Split(1)),)], ids=["elsewhere", "here, too"])
def test_the_place_where_replicas_are_is_no_other_place_unless_it_is_offered_as_well(also: tuple[Place, ...]) -> None:
    what_if = h100(L40S_NODE)
    assert what_if.market is not None
    here = Site((H100, Split(1)), replica_model(), Lengths(1000, 200, 0, 1100), 1.0, 1.0, FIRST_STARTUP_SECONDS)
    found = [each.place for each in sites_elsewhere(what_if.tenant, what_if.market(), LoopMemory(), here, also=also)]
    assert found.count((H100, Split(1))) == len(also)
    assert found.count((L40S, Split(1))) == 1


@pytest.mark.parametrize(("times", "kept"), [(4.0, 0.25), (0.5, 1.0)], ids=["a smaller cache", "a larger one"])
def test_a_replica_with_a_smaller_cache_finds_less_of_the_prompts(times: float, kept: float) -> None:
    """``times`` is the cache here over that of the other place."""
    what_if = h100(L40S_NODE)
    assert what_if.market is not None
    market, lengths = what_if.market(), Lengths(1000, 200, 400, 1100)
    usual = Site((H100, Split(1)), replica_model(), lengths, 1.0, 1.0, FIRST_STARTUP_SECONDS)
    [there] = [
        each for each in sites_elsewhere(what_if.tenant, market, LoopMemory(), usual) if each.place == (L40S, Split(1))
    ]
    here = replace(usual, model=replace(usual.model, kv_tokens=round(times * there.model.kv_tokens)))
    [there] = [
        each for each in sites_elsewhere(what_if.tenant, market, LoopMemory(), here) if each.place == (L40S, Split(1))
    ]
    assert there.lengths.cached == pytest.approx(400 * kept, rel=0.01)


def test_a_request_that_cannot_be_judged_any_more_has_no_other_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise UnsupportedModel("m", "a law")

    what_if = h100(L40S_NODE)
    assert what_if.market is not None
    here = Site((H100, Split(1)), replica_model(), Lengths(1000, 200, 0, 1100), 1.0, 1.0, FIRST_STARTUP_SECONDS)
    monkeypatch.setattr(Market, "options", refuses)
    assert list(sites_elsewhere(what_if.tenant, what_if.market(), LoopMemory(), here)) == []


def test_no_place_is_looked_for_while_the_speed_of_this_one_is_not_known() -> None:
    situation, what_if = calm(), h100(L40S_NODE)
    look = judged(situation)
    usual = diagnose(situation, look)
    assert elsewhere(usual, situation, look, what_if)[0].kind is DiagnosisKind.CHEAPER_ELSEWHERE
    assert look.wish is not None
    slow = replace(usual, kind=DiagnosisKind.TOO_SLOW)
    for less in (
        replace(look, wish=None),
        replace(look, wish=replace(look.wish, capacity=None)),
        replace(look, model=None),
    ):
        assert elsewhere(usual, situation, less, what_if) == (usual, less.memory)
        assert elsewhere(slow, situation, less, what_if)[0].place is None


def test_the_bill_of_a_place_is_for_all_replicas_and_unknown_without_a_price() -> None:
    site = Site((H100, Split(1)), replica_model(), Lengths(1000, 200, 0, 1100), 1.0, 1.0, FIRST_STARTUP_SECONDS)
    priced = replace(site, price=Decimal("1.5"))
    assert [priced.bill(count) for count in (0, 1, 3)] == [Decimal(0), Decimal("1.5"), Decimal("4.5")]
    assert replace(site, price=None).bill(3) is None
