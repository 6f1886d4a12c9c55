"""The comparison of solvers: its bound is the true optimum, and no solver gets below it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from benchmarks.placement.bound.instance import Choice, Instance, instance_of
from benchmarks.placement.bound.optimum import optimum
from benchmarks.placement.bound.packing import divide_each_other, patterns, slot_rows
from benchmarks.placement.judging import OverCommitted, Verdict, check, verdict_on
from benchmarks.placement.policies import all_solvers
from benchmarks.placement.worlds import ORDERS, Place, arrivals, largest, world_of
from plimsoll.domain.outcomes import Fit, Option, Placed
from plimsoll.placement.demand import Demand, demand_of
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options import Options
from plimsoll.placement.pools import Tenant
from plimsoll.placement.solvers import SOLVERS, Award, Stock
from tests.support.exhaustive_solver import cost, solve_exhaustively
from tests.support.planning import H100, L4, L40S, LLAMA_70B_FP8, fleet, node, request, tenant

SIZES = (1, 2, 4, 8)
TINY = Place("llm", 12)


def fits(replicas: Sequence[int], nodes: tuple[int, ...]) -> bool:
    """Whether the replicas fit on the nodes, by trying every node for each."""
    if not replicas:
        return True
    return any(
        fits(replicas[1:], (*nodes[:index], free - replicas[0], *nodes[index + 1 :]))
        for index, free in enumerate(nodes)
        if free >= replicas[0]
    )


def obeys_rows(replicas: Sequence[int], nodes: Sequence[int], sizes: Sequence[int]) -> bool:
    counts = Counter(replicas)
    rows = slot_rows(sizes, Counter(nodes))
    return all(sum(takes[size] * counts[size] for size in takes) <= slots for takes, slots in rows)


def small_cases(count: int) -> Iterator[tuple[list[int], tuple[int, ...]]]:
    rng = Random(11)  # noqa: S311 - reproducible cases
    for _ in range(count):
        nodes = tuple(rng.randint(0, 8) for _ in range(rng.randint(1, 3)))
        yield [rng.choice(SIZES) for _ in range(rng.randint(1, 6))], nodes


def test_replicas_whose_sizes_divide_each_other_fit_exactly_if_every_size_has_enough_slots() -> None:
    verdicts = Counter(
        (obeys_rows(replicas, nodes, SIZES), fits(sorted(replicas, reverse=True), nodes))
        for replicas, nodes in small_cases(1500)
    )
    assert verdicts.keys() == {(True, True), (False, False)}
    assert min(verdicts.values()) > 300


def test_other_sizes_need_patterns() -> None:
    assert divide_each_other(SIZES)
    assert not divide_each_other((2, 3))
    assert obeys_rows([2, 3], [4], (2, 3))
    assert not fits([3, 2], (4,))
    assert patterns((2, 3), 5) == [{3: 1, 2: 1}, {2: 2}]
    assert patterns((2, 3), 1) == [{}]
    choices = (Choice(misses=False, doubtful=False, dollars=2.0, gpus=2, gpu_type=L4),)
    others = (Choice(misses=False, doubtful=False, dollars=3.0, gpus=3, gpu_type=L4),)
    assert optimum(Instance({choices: 1, others: 1}, {L4: {4: 1}})).unplaced == 1
    assert optimum(Instance({choices: 1, others: 1}, {L4: {5: 1}})).unplaced == 0
    assert optimum(Instance({choices: 2, others: 1}, {L4: {4: 2}})).dollars == pytest.approx(7.0)


def small_world(seed: int) -> tuple[list[Demand], Stock]:
    """Three deployments with one replica each, which compete for a few nodes. All their options fit for sure."""
    rng = Random(seed)  # noqa: S311 - same
    nodes = [node(f"n{index}", rng.choice((L4, L40S, H100)), rng.choice((1, 2, 4))) for index in range(3)]
    where = fleet(*nodes)
    models = ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-14B", LLAMA_70B_FP8)
    wanted = [request(rng.choice(models), context=8192, name=f"d{index}") for index in range(3)]
    demands = [demand_of(tenant(each), where, Memo()) for each in wanted]
    return [replace(each, options=sure_only(each)) for each in demands], Stock(where, Ledger.of(where))


def sure_only(demand: Demand) -> Options:
    verdicts = demand.options.verdicts
    return Options(tuple(each for each in verdicts if isinstance(each, Option) and each.estimate.fit is Fit.SURE))


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_the_best_of_all_ways_in_all_orders(seed: int) -> None:
    """Each way packs its replicas in order by best fit, so one of the orders packs the largest first."""
    demands, stock = small_world(seed)
    orders = itertools.permutations(demands)
    missing, dollars = min(cost(list(solve_exhaustively(order, stock))) for order in orders)
    best = optimum(instance_of(demands, stock))
    assert (best.unplaced, best.doubtful, best.proven) == (missing, 0, True)
    assert best.dollars == pytest.approx(float(dollars), abs=1e-4)


@pytest.mark.parametrize("name", all_solvers())
@pytest.mark.parametrize("percent", [50, 95])
@pytest.mark.parametrize("order", ORDERS)
def test_no_solver_gets_below_the_bound(name: str, percent: int, order: str) -> None:
    world = world_of(TINY, percent, "catalogue", order)
    demands, stock = world.demands(), world.stock
    best = optimum(instance_of(demands, stock))
    verdict = verdict_on(all_solvers()[name], demands, stock, best)
    assert verdict.unplaced >= best.unplaced
    assert verdict.above >= -1e-3
    assert verdict.whole_nodes <= sum(each.free == 8 for each in stock.fleet.nodes)
    if name == "exact-mix":
        assert verdict.unplaced == best.unplaced
        assert verdict.above == pytest.approx(0, abs=1e-3)


def test_greedy_pays_more_where_an_early_deployment_takes_the_card_that_a_later_one_needs() -> None:
    found = [verdict_in(order).above for order in ORDERS]
    assert max(found) > 1


def verdict_in(order: str) -> Verdict:
    world = world_of(TINY, 95, "catalogue", order)
    demands, stock = world.demands(), world.stock
    return verdict_on(SOLVERS["greedy"], demands, stock, optimum(instance_of(demands, stock)))


def test_the_largest_demand_fits_and_nobody_else_does() -> None:
    world = world_of(TINY, 100, "market")
    assert len(world.tenants) == largest(TINY)
    assert optimum(instance_of(world.demands(), world.stock)).unplaced == 0
    more = [demand_of(Tenant(each, 1), world.fleet, world.memo) for each in arrivals(TINY, 4 * largest(TINY))]
    assert optimum(instance_of(more, world.stock)).unplaced > 0


def test_a_world_is_drawn_alike_every_time_and_each_seed_has_its_own() -> None:
    keys = [[tenant.request for tenant in world_of(place, 50, "market").tenants] for place in (TINY, TINY)]
    assert keys[0] == keys[1]
    assert world_of(Place("llm", 12, seed=1), 50, "market").fleet != world_of(TINY, 50, "market").fleet


def test_both_price_lists_have_the_same_nodes_and_deployments_and_other_prices() -> None:
    one, other = (world_of(TINY, 50, prices) for prices in ("catalogue", "market"))
    assert [(each.name, each.gpu.name, each.held) for each in one.fleet.nodes] == [
        (each.name, each.gpu.name, each.held) for each in other.fleet.nodes
    ]
    assert [each.request for each in one.tenants] == [each.request for each in other.tenants]
    assert one.fleet.gpu_types() != other.fleet.gpu_types()


def test_the_real_fleet_has_the_nodes_of_the_trace() -> None:
    whole = world_of(Place("openb", 1079), 1, "market").fleet
    assert Counter((each.gpu.name, each.allocatable) for each in whole.nodes)["t4-16gb", 2] == 387


def test_awards_that_take_more_than_there_is_are_refused() -> None:
    [demand, *_], stock = small_world(0)
    [option, *_] = (each for each in demand.options.verdicts if isinstance(each, Option))
    many = replace(demand, tenant=tenant(replace(demand.request, replicas=99)))
    with pytest.raises(OverCommitted, match="slots"):
        check([Award(many, stock.ledger, granted=(Placed(option, 99),))], stock)
    with pytest.raises(OverCommitted, match="the ledger lost 0"):
        check([Award(demand, stock.ledger, granted=(Placed(option, 1),))], stock)
    with pytest.raises(OverCommitted, match="more replicas"):
        check([Award(demand, stock.ledger, granted=(Placed(option, 2),))], stock)
