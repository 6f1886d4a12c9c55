"""The size of a deployment that declares the load of all its replicas: how many replicas, of how many requests."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.latency import Objective, Slo
from plimsoll.domain.decisions.outcomes import Option, Placed, Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.public_words import RemedyKind
from plimsoll.domain.requests.serving import GpuConstraints, Request, ServingShape, TotalLoad
from plimsoll.domain.units import ceil_div
from plimsoll.placement.demands.demand import demand_of
from plimsoll.placement.demands.pools import Decision, PoolState, Tenant
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.nodes import eligible_nodes
from plimsoll.placement.options.total_load import sizes_of, with_size
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import DEFAULT_SOLVER, Award, Solver, Stock
from plimsoll.placement.solvers.greedy import solve_greedily
from plimsoll.placement.solvers.sizes import Score, score_of
from plimsoll.placement.solvers.turn import Turn
from tests.support.planning import A100, H100, L4, L40S, LLAMA_70B, MI300X, fleet, gpu, node, pool, request, tenant
from tests.support.tables import every_case

MOST_SIZES = 5

EIGHT = fleet(node("h", H100, 8), node("a", A100, 8), node("l", L40S, 8), node("l4", L4, 8))


def total(requests: int = 120, *, fewest: int = 1, context: int = 8192, **changes: Any) -> Request:
    """A request whose replicas serve that many requests together."""
    return request(context=context, concurrency=requests, total=TotalLoad(requests, fewest), **changes)


def decided(wanted: Request, where: Fleet, **changes: Any) -> Decision:
    (decision,) = plan([tenant(wanted, **changes)], where, [gpu(H100)])
    return decision


def chosen(decision: Decision) -> tuple[int, int]:
    return decision.request.replicas, decision.request.shape.concurrency


def bill(decision: Decision) -> float:
    active = [each for each in decision.pools if each.state is PoolState.ACTIVE]
    return sum(each.replicas * float(each.choice.hourly_price or 0) for each in active if each.choice)


def alone(wanted: Request, where: Fleet) -> Score:
    stock = Stock(where, Ledger.of(where))
    return score_of(Turn(demand_of(tenant(wanted), where, Memo()), where, stock.ledger).take(), stock)


def test_every_size_holds_the_load_with_equal_replicas() -> None:
    sizes = sizes_of(total(), EIGHT)
    assert 1 < len(sizes) <= MOST_SIZES
    for size in sizes:
        assert size.shape.concurrency == ceil_div(120, size.replicas)
        assert (size.total, size.is_sized) == (None, True)
    assert len({size.replicas for size in sizes}) == len(sizes)


def test_many_small_replicas_or_few_large_ones_by_the_bill_of_all() -> None:
    dear = fleet(node("h", gpu(H100, price="9"), 8), node("l", gpu(L40S, price="1"), 8))
    cheap = fleet(node("h", gpu(H100, price="1"), 8), node("l", gpu(L40S, price="9"), 8))
    one_gpu = GpuConstraints(max_per_replica=1)
    many, few = (decided(total(60, constraints=one_gpu), where) for where in (dear, cheap))
    assert {each.gpu_type for each in many.pools} == {L40S}
    assert {each.gpu_type for each in few.pools} == {H100}
    assert chosen(many)[0] > chosen(few)[0]
    for decision in (many, few):
        replicas, concurrency = chosen(decision)
        assert replicas * concurrency >= 60
        assert sum(each.replicas for each in decision.pools) == replicas
        assert decision.missing == 0


def test_availability_sets_the_fewest_replicas() -> None:
    assert chosen(decided(total(8), EIGHT))[0] == 1
    assert chosen(decided(total(8, fewest=3), EIGHT)) == (3, 3)


def test_the_users_limits_bound_the_number() -> None:
    at_most_ten = EngineChoice(EngineVersion(0, 32), max_sequences=10)
    replicas, concurrency = chosen(decided(total(40, engine=at_most_ten), EIGHT))
    assert (replicas, concurrency) == (4, 10)
    bounded = replace(total(60), total=TotalLoad(60, 1, 2))
    assert all(size.replicas <= 2 for size in sizes_of(bounded, EIGHT))


def test_a_latency_that_large_replicas_miss_makes_more_of_them() -> None:
    relaxed, strict = (total(64, context=2048, slo=Slo(tpot_seconds=seconds)) for seconds in (1.0, 0.012))
    where = fleet(node("h", H100, 8))
    assert chosen(decided(relaxed, where))[0] == 1
    faster = decided(strict, where)
    assert chosen(faster)[0] > 1 or any(each.split.gpus > 1 for each in faster.pools)
    assert faster.choice is not None
    assert faster.choice.performance is not None
    assert faster.choice.performance.tpot_seconds <= 0.012


def test_a_size_that_finds_no_place_gives_way_to_one_that_does() -> None:
    cheap_and_full = fleet(node("m", gpu(MI300X, price="0.5"), 8, held=8), node("l", L40S, 8))
    decision = decided(total(60), cheap_and_full)
    assert (decision.missing, {each.gpu_type for each in decision.pools}) == (0, {L40S})


def test_where_nothing_fits_the_reasons_are_those_of_the_smallest_replicas() -> None:
    decision = decided(total(16, facts=LLAMA_70B), fleet(node("l4", L4, 1)))
    assert (decision.pools, decision.missing) == ((), 16)
    assert decision.request.shape.concurrency == 1
    assert RemedyKind.REDUCE_CONCURRENCY not in {remedy.kind for remedy in decision.remedies}
    assert decision.remedies


def test_a_chosen_size_is_planned_like_a_declared_one() -> None:
    decision = decided(total(60), EIGHT)
    declared = request(context=8192, concurrency=decision.request.shape.concurrency, replicas=decision.request.replicas)
    (same,) = plan([tenant(declared)], EIGHT)
    assert [(each.name, each.replicas, each.choice) for each in same.pools] == [
        (each.name, each.replicas, each.choice) for each in decision.pools
    ]


def test_the_sizes_that_were_compared_come_with_their_bills() -> None:
    decision = decided(total(60), EIGHT)
    mine = next(size for size in decision.sizes if size.replicas == decision.request.replicas)
    assert mine.hourly_price is not None
    assert float(mine.hourly_price) == pytest.approx(bill(decision), abs=0.01)
    assert all(float(size.hourly_price or 0) >= float(mine.hourly_price) for size in decision.sizes if not size.missing)
    (plain,) = plan([tenant(request())], EIGHT)
    assert plain.sizes == ()


def test_a_neighbour_with_declared_replicas_is_served_as_usual() -> None:
    neighbour = request(context=8192, concurrency=16, name="neighbour", replicas=2)
    (before,) = plan([tenant(neighbour)], EIGHT)
    both = {each.request.key.name: each for each in plan([tenant(total(60)), tenant(neighbour)], EIGHT)}
    assert both["neighbour"].missing == 0
    assert [each.name for each in both["neighbour"].pools] == [each.name for each in before.pools]
    assert both["neighbour"].sizes == ()


def random_fleet(dice: random.Random) -> Fleet:
    kinds = dice.sample((H100, A100, L40S, L4, MI300X), dice.randint(1, 3))
    return fleet(
        *(
            node(f"{kind}-{index}", gpu(kind, price=str(dice.randint(1, 12))), dice.choice((1, 2, 4, 8)))
            for kind in kinds
            for index in range(dice.randint(1, 2))
        )
    )


@every_case("seed", range(12))
def test_no_other_number_of_replicas_is_better(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - the same fleets in every run
    where, requests, fewest = random_fleet(dice), dice.choice((6, 24, 40)), dice.choice((1, 2))
    wanted = total(requests, fewest=fewest, context=dice.choice((2048, 16_384)))
    decision = decided(wanted, where)
    best = min(
        alone(with_size(wanted, number, ceil_div(requests, number)), where) for number in range(fewest, requests + 1)
    )
    mine = alone(with_size(wanted, *chosen(decision)), where)
    assert mine[:2] == best[:2]
    assert mine[2] == pytest.approx(best[2])


@every_case("solver", [DEFAULT_SOLVER, solve_greedily])
@every_case("seed", range(8))
def test_no_deployment_gains_by_another_size_on_what_the_others_leave(seed: int, solver: Solver) -> None:
    dice = random.Random(100 + seed)  # noqa: S311 - the same fleets in every run
    where = random_fleet(dice)
    asked = {
        each.key.name: each for each in (total(dice.choice((8, 24, 60)), name=f"d{number}") for number in range(3))
    }
    decisions = plan([tenant(each) for each in asked.values()], where, solver=solver)
    assert {each.request.key.name for each in decisions} == set(asked)
    for decision in decisions:
        name = decision.request.key.name
        left = Ledger.of(where)
        for other in (each for each in decisions if each is not decision):
            for kept in other.pools:
                assert kept.choice is not None
                nodes = eligible_nodes(other.request, where, kept.gpu_type)
                left = left.take(nodes, kept.split.shape, kept.replicas, other.request.host_need(kept.choice.host))
        sizes = (demand_of(tenant(size), where, Memo()) for size in sizes_of(asked[name], where))
        stock = Stock(where, Ledger.of(where))
        best = min(score_of(Turn(demand, where, left).take(), stock) for demand in sizes)
        mine = decision.missing / decision.request.replicas
        assert mine <= best[0]
        if mine == best[0]:
            assert bill(decision) <= best[2] + 0.001 or best[1] > 0


def test_a_change_of_the_load_keeps_the_old_replicas_until_the_new_ones_serve() -> None:
    running = pool(L40S, replicas=2, generation=1)
    grown = Tenant(total(200, fewest=1), 2, (running,))
    (decision,) = plan([grown], EIGHT)
    kept = {each.name: each for each in decision.pools}
    assert "l40s-48gb-tp1" in kept
    assert decision.missing == 0


@pytest.mark.parametrize(("kept", "missing"), [(1, 0.5), (2, 0), (3, 0)])
def test_more_replicas_than_wanted_make_no_size_better(kept: int, missing: float) -> None:
    where = fleet(node("h", H100, 8, held=kept))
    stock = Stock(where, Ledger.of(where))
    demand = demand_of(tenant(request(replicas=2), pool(H100, replicas=kept)), where, Memo())
    assert score_of(Award(demand, stock.ledger), stock)[0] == missing


@pytest.mark.parametrize(("kinds", "cost"), [((H100, H100), 6.0), ((H100, L40S), 4.0 + 0.1 * 2 * 1.0)])
def test_two_places_of_one_deployment_cost_a_tenth_of_its_cheapest_bill_more(
    kinds: tuple[str, str], cost: float
) -> None:
    """An H100 costs 3 and an L40S 1 US dollar an hour."""
    where = fleet(node("h", gpu(H100, price="3"), 8), node("l", gpu(L40S, price="1"), 8))
    stock, wanted = Stock(where, Ledger.of(where)), request(replicas=2, objective=Objective.BATCH)
    demand = demand_of(tenant(wanted), where, Memo())
    options = {
        each.gpu.name: each for each in demand.options.verdicts if isinstance(each, Option) and each.split == Split(1)
    }
    granted = tuple(Placed(options[kind], 1, (), ()) for kind in kinds)
    assert score_of(Award(demand, stock.ledger, granted=granted), stock)[2] == pytest.approx(cost)


def test_expected_lengths_count_for_sizes_too() -> None:
    plain = total(64, context=16_384)
    shape = ServingShape(16_384, 64, expected_prompt_tokens=900, expected_output_tokens=100)
    only = fleet(node("h", H100, 8), node("h2", H100, 8))
    assert chosen(decided(replace(plain, shape=shape), only))[0] < chosen(decided(plain, only))[0]
