"""The comparison of solvers: its bound is the true optimum, and no solver gets below it."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest

from benchmarks.placement.__main__ import main
from benchmarks.placement.bound.instance import Choice, Instance, choice_of, instance_of
from benchmarks.placement.bound.optimum import optimum
from benchmarks.placement.bound.packing import divide_each_other, patterns, slot_rows
from benchmarks.placement.cluster import Cluster
from benchmarks.placement.judging import OverCommitted, Verdict, check, verdict_on
from benchmarks.placement.policies import POLICIES, all_solvers
from benchmarks.placement.replay import replayed
from benchmarks.placement.speed import in_fresh_process
from benchmarks.placement.worlds import ORDERS, Place, arrivals, largest, world_of
from plimsoll.adapters import highs
from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.decisions.outcomes import Option, Placed
from plimsoll.placement.demands.demand import Demand, demand_of
from plimsoll.placement.demands.pools import Decision, Tenant
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.verdicts import Options
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import SOLVERS, Award, Fleetwide, Overload, Solver, Stock
from tests.support.exhaustive_solver import cost, solve_exhaustively
from tests.support.planning import H100, L4, L40S, LLAMA_70B_FP8, fleet, node, request, tenant
from tests.support.tables import every_case

pytestmark = pytest.mark.lengthy

SIZES = (1, 2, 4, 8)
TINY = Place("llm", 12)
Capture = pytest.CaptureFixture[str]


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
    choices = (Choice(doubts=0, dollars=2.0, gpus=2, gpu_type=L4),)
    others = (Choice(doubts=0, dollars=3.0, gpus=3, gpu_type=L4),)
    assert optimum(Instance({choices: 1, others: 1}, {L4: {4: 1}})).unplaced == 1
    assert optimum(Instance({choices: 1, others: 1}, {L4: {5: 1}})).unplaced == 0
    assert optimum(Instance({choices: 2, others: 1}, {L4: {4: 2}})).dollars == pytest.approx(7.0)


def small_world(seed: int) -> tuple[list[Demand], Stock]:
    """Three deployments with one replica each, which compete for a few nodes. No option is doubtful or slow."""
    rng = Random(seed)  # noqa: S311 - same
    nodes = [node(f"n{index}", rng.choice((L4, L40S, H100)), rng.choice((1, 2, 4))) for index in range(3)]
    where = fleet(*nodes)
    models = ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-14B", LLAMA_70B_FP8)
    wanted = [request(rng.choice(models), context=8192, name=f"d{index}") for index in range(3)]
    demands = [demand_of(tenant(each), where, Memo()) for each in wanted]
    return [replace(each, options=without_doubts(each)) for each in demands], Stock(where, Ledger.of(where))


def without_doubts(demand: Demand) -> Options:
    verdicts = demand.options.verdicts
    return Options(tuple(each for each in verdicts if isinstance(each, Option) and not choice_of(each).doubts))


@every_case("seed", range(12))
def test_the_optimum_is_the_best_of_all_ways_in_all_orders(seed: int) -> None:
    """Each way packs its replicas in order by best fit, so one of the orders packs the largest first."""
    demands, stock = small_world(seed)
    orders = itertools.permutations(demands)
    missing, dollars = min(cost(list(solve_exhaustively(order, stock))) for order in orders)
    best = optimum(instance_of(demands, stock))
    assert (best.unplaced, best.doubts, best.proven) == (missing, 0, True)
    assert best.dollars == pytest.approx(float(dollars), abs=1e-4)


@every_case("name", all_solvers(), most=6, always=["mixed-95-exact-mix", "mixed-95-fleetwide", "large-first-50-greedy"])
@every_case("percent", [50, 95])
@every_case("order", ORDERS)
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


@pytest.mark.parametrize("name", ["openb", "llm"])
def test_the_bound_counts_what_placement_optimises(name: str) -> None:
    """With other doubts, the bound would be that of another problem: a plan with its doubts would have another bill."""
    world = world_of(Place(name, 50), 95, "catalogue")
    demands, stock = world.demands(), world.stock
    best = optimum(instance_of(demands, stock))
    verdict = verdict_on(all_solvers()["fleetwide"], demands, stock, best)
    assert (verdict.unplaced, verdict.doubts) == (0, best.doubts)
    assert verdict.above < 1


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


def test_a_slow_choice_is_taken_after_a_doubtful_one_although_it_is_the_cheapest() -> None:
    """The order of goals: replicas without a place, doubts (a missed promise has three), and dollars last."""
    slow = Choice(doubts=3, dollars=1.0, gpus=1, gpu_type=L4)
    doubtful = Choice(doubts=1, dollars=2.0, gpus=1, gpu_type=L40S)
    good = Choice(doubts=0, dollars=9.0, gpus=1, gpu_type=H100)
    room = {L4: {8: 1}, L40S: {1: 1}, H100: {1: 1}}
    best = optimum(Instance({(good, doubtful, slow): 3}, room))
    assert (best.unplaced, best.doubts) == (0, 4)
    assert best.dollars == pytest.approx(12.0)
    assert best.mix == {(good, doubtful, slow): {good: 1, doubtful: 1, slow: 1}}
    allowed = optimum(Instance({(good, doubtful, slow): 3}, room), most_doubts=9)
    assert allowed.dollars == pytest.approx(3.0)


def test_an_optimum_by_type_ignores_that_a_replica_needs_one_whole_node() -> None:
    wide = (Choice(doubts=0, dollars=8.0, gpus=8, gpu_type=H100),)
    halves = Instance({wide: 1}, {H100: {4: 2}})
    assert optimum(halves).unplaced == 1
    assert optimum(halves, by_type_only=True).unplaced == 0


def small_cluster() -> tuple[Cluster, Decision]:
    """Two nodes with two GPUs each, and a decision for two replicas on the first."""
    where = fleet(node("a", L40S, 2), node("b", H100, 2))
    wanted = request(replicas=2, objective=Objective.BATCH)
    [decision] = plan([tenant(wanted)], where, solver=SOLVERS["greedy"])
    return Cluster(where), decision


def test_a_cluster_carries_out_decisions_and_counts_the_replicas_that_leave_their_place() -> None:
    cluster, decision = small_cluster()
    key, [pool] = decision.request.key, decision.pools
    assert cluster.carry_out([decision]) == 0
    assert (cluster.replicas(key), cluster.free) == (2, [0, 2])
    assert cluster.dollars() == pytest.approx(2 * float(gpu_price(cluster.empty.nodes[0])))
    assert [each.free for each in cluster.fleet().nodes] == [0, 2]
    [seen] = cluster.tenants([decision.request])
    assert [(each.replicas, each.bound, each.ready) for each in seen.pools] == [(2, 2, 2)]
    elsewhere = replace(pool, name="other", target=replace(pool.target, gpu_type=H100), replicas=1)
    assert cluster.carry_out([replace(decision, pools=(replace(pool, replicas=1), elsewhere))]) == 1
    assert cluster.free == [1, 1]
    cluster.remove(key)
    assert (cluster.replicas(key), cluster.free) == (0, [2, 2])


def test_a_pod_without_room_is_not_counted_as_running() -> None:
    cluster, decision = small_cluster()
    [pool] = decision.pools
    cluster.carry_out([replace(decision, pools=(replace(pool, replicas=3),))])
    assert cluster.replicas(decision.request.key) == 2
    assert cluster.free == [0, 2]


def gpu_price(on: GpuNode) -> Decimal:
    assert on.gpu.price is not None
    return on.gpu.price.usd_per_hour


def test_a_replay_keeps_what_runs_and_solving_anew_reaches_the_bound() -> None:
    kept, anew = (replayed("exact-mix", POLICIES["exact-mix"], TINY, 2, anew=each) for each in (False, True))
    assert kept.passes == anew.passes > 1
    assert kept.moves_per_hour == 0
    assert anew.above == pytest.approx(0, abs=1e-2)
    assert anew.stranded == 0
    assert anew.moves_per_hour > 0
    assert kept.above >= -1e-3


@pytest.mark.bench
def test_a_fresh_process_measures_the_solver_that_it_is_given() -> None:
    speed = in_fresh_process("mine", TINY, 5, ["mine=tests.benchmarks.test_placement:injected"])
    assert (speed.solver, speed.nodes, speed.deployments, speed.kinds) == ("mine", 12, 5, 40)
    assert 0 < speed.idle < speed.cold
    assert 0 < speed.rss_before_mib <= speed.rss_mib


def injected() -> Solver:
    return SOLVERS["greedy"]


def test_the_command_prints_its_tables_and_writes_every_figure(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "figures.json"
    arguments = ["--only", "quality", "--fleets", "llm", "--nodes", "12", "--demands", "95", "--orders", "mixed"]
    assert main([*arguments, "--solvers", "greedy,exact-mix", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "llm, 12 nodes" in printed
    figures = json.loads(out.read_text())["quality"]
    assert [(each["solver"], each["prices"]) for each in figures] == [
        (solver, prices) for prices in ("catalogue", "market") for solver in ("greedy", "exact-mix")
    ]
    assert all(each["bound_proven"] for each in figures)
    assert all(each["dollars"] >= each["dollars_bound_of_placed"] - 0.01 for each in figures)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--solvers", "magic"], "--solvers: magic is unknown; give some of first-fit"),
        (["--fleets", "mine"], "--fleets: mine is unknown; give some of openb, llm"),
        (["--inject", "mine"], "--inject mine: give NAME=MODULE:FACTORY"),
        (["--nodes", "0"], "argument --nodes"),
    ],
)
def test_wrong_arguments_are_named(arguments: list[str], says: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert says in capsys.readouterr().err


@pytest.mark.bench
@pytest.mark.parametrize("place", [Place("llm", 100), Place("llm", 150), Place("llm", 50, seed=1)], ids=str)
def test_in_a_crowded_fleet_the_search_leaves_hardly_more_than_the_programme(place: Place) -> None:
    world = world_of(place, 115, "catalogue")
    demands = world.demands()
    search, programme = (_unplaced(all_solvers()[name], demands, world.stock) for name in ("search", "fleetwide"))
    assert 0 < search <= 1.1 * programme


def _unplaced(solver: Solver, demands: Sequence[Demand], stock: Stock) -> int:
    awards = list(solver(demands, stock))
    check(awards, stock)
    return sum(award.demand.missing - sum(each.replicas for each in award.granted) for award in awards)


@pytest.mark.parametrize("percent", [95, 100, 115])
def test_a_world_has_the_part_of_the_largest_demand_that_is_asked_for(percent: int) -> None:
    place = Place("llm", 50)
    wanted = [each.request.replicas for each in world_of(place, percent, "catalogue").tenants]
    all_of_it = [each.request.replicas for each in world_of(place, 100, "catalogue").tenants]
    assert len(all_of_it) == largest(place)
    if percent > 100:
        assert 0 <= sum(all_of_it) * percent / 100 - sum(wanted) < 1
    else:
        assert len(wanted) == round(len(all_of_it) * percent / 100)


@pytest.mark.bench
def test_the_timed_worlds_are_those_that_are_asked_for(capsys: Capture) -> None:
    asked_for = ["--only", "speed", "--solvers", "greedy", "--sizes", "12,5,7", "--sizes", "13,4,6", "--width", "150"]
    assert main(asked_for) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "greedy" in line]
    assert [[cell for cell in row if cell.isdecimal()][:3] for row in rows] == [["12", "5", "7"], ["13", "4", "6"]]


def test_a_timed_world_needs_three_numbers(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "speed", "--sizes", "12,5"])
    assert "--sizes" in capsys.readouterr().err


@pytest.mark.bench
def test_the_search_lets_hardly_more_replicas_wait_than_are_proven_to() -> None:
    """Of three small fleets with 115 % of what they can hold: 22 wait, and 18 at least. Without the last rounds, 24."""
    waiting = []
    for solver in (highs.fleetwide(Overload.MOST_PLACED), Fleetwide(None, Overload.MOST_PLACED)):
        worlds = (world_of(Place("llm", 50, seed), 115, "catalogue") for seed in (0, 2, 5))
        decided = [plan(each.tenants, each.fleet, memo=each.memo, solver=solver) for each in worlds]
        waiting.append(sum(decision.missing for decisions in decided for decision in decisions))
    least, found = waiting
    assert least <= found <= 1.25 * least
