"""The sizes of several deployments, decided together: the best plan of the fleet, whoever has to change its size."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from plimsoll.adapters import highs
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.requests.serving import GpuConstraints, Request, TotalLoad
from plimsoll.placement.demands.pools import Decision, Tenant
from plimsoll.placement.options.total_load import with_size
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import SOLVERS, Fleetwide, Solver, fleetwide
from tests.support.every_size import best_goals, goals_of
from tests.support.planning import A100, H100, L4, L40S, fleet, gpu, node, pool, request, tenant
from tests.support.tables import every_case

pytestmark = pytest.mark.lengthy

MAKERS: dict[str, Callable[[], Fleetwide]] = {"highs": highs.fleetwide, "search": Fleetwide}

SHARE_OF_SIZED = 0.8
"""How often a deployment of a small world declares the load of all replicas together."""

SEEDS = range(30)


@pytest.fixture(params=MAKERS)
def solver(request: pytest.FixtureRequest) -> Fleetwide:
    return MAKERS[request.param]()


def total(requests: int, name: str, *, fewest: int = 1, context: int = 8192, **gpus: Any) -> Request:
    """A request whose replicas have one GPU each, and serve that many requests together."""
    rules = GpuConstraints(**{"max_per_replica": 1} | gpus)
    load = TotalLoad(requests, fewest)
    return request(name=name, created=name, context=context, concurrency=requests, total=load, constraints=rules)


EITHER = replace(total(24, "a"), objective=Objective.BATCH)
"""One replica on an H100, or two on L40S."""

PICKY = replace(total(24, "b", allow=(H100, L4)), objective=Objective.BATCH)
"""One replica on an H100, or eight on L4."""

NEIGHBOUR = request(context=8192, concurrency=12, name="c", replicas=2, constraints=GpuConstraints(allow=(L40S,)))


def world(*, l4: str = "1") -> Fleet:
    """A single H100 for $3, two L40S for $3.20, or eight L4: for $8 where ``l4`` is not given."""
    return fleet(
        node("h", gpu(H100, price="3"), 1), node("l", gpu(L40S, price="1.6"), 4), node("l4", gpu(L4, price=l4), 8)
    )


def decided(asking: Sequence[Request], where: Fleet, solver: Solver) -> dict[str, Decision]:
    decisions = plan([tenant(each) for each in asking], where, solver=solver)
    return {each.request.key.name: each for each in decisions}


def bill(*decisions: Decision) -> float:
    pools = [each for decision in decisions for each in decision.pools]
    return sum(each.replicas * float(each.choice.hourly_price or 0) for each in pools if each.choice)


def size(decision: Decision) -> tuple[int, int]:
    return decision.request.replicas, decision.request.shape.concurrency


def places(decision: Decision) -> dict[str, int]:
    return {each.gpu_type: each.replicas for each in decision.pools}


class TestTwoDeployments:
    def test_they_change_their_sizes_together_where_that_saves_money(self, solver: Solver) -> None:
        """The older one alone would take the H100 for $3.00, and leave eight L4 for $8.00 to the younger one."""
        one_by_one = decided([EITHER, PICKY], world(), SOLVERS["greedy"])
        assert {name: size(each) for name, each in one_by_one.items()} == {"a": (1, 24), "b": (8, 3)}
        assert bill(*one_by_one.values()) == pytest.approx(11.0)
        together = decided([EITHER, PICKY], world(), solver)
        assert {name: size(each) for name, each in together.items()} == {"a": (2, 12), "b": (1, 24)}
        assert {name: places(each) for name, each in together.items()} == {"a": {L40S: 2}, "b": {H100: 1}}
        assert bill(*together.values()) == pytest.approx(6.2)

    @pytest.mark.parametrize("asking", [(with_size(EITHER, 1, 24), PICKY), (EITHER, with_size(PICKY, 8, 3))])
    def test_a_change_of_one_alone_saves_nothing(self, solver: Solver, asking: tuple[Request, Request]) -> None:
        assert bill(*decided(asking, world(), solver).values()) == pytest.approx(11.0)

    def test_one_gets_what_the_other_leaves_where_both_ways_cost_the_same(self, solver: Solver) -> None:
        """Eight L4 cost $3.12, and one H100 $3. Which of two equal bills is found depends on the solver's release."""
        decisions = decided([EITHER, PICKY], world(l4="0.39"), solver)
        assert {size(each) for each in decisions.values()} == {(1, 24), (8, 3)}
        assert bill(*decisions.values()) == pytest.approx(3.0 + 3.12)

    def test_a_neighbour_with_declared_replicas_keeps_its_plan(self, solver: Solver) -> None:
        alone = decided([NEIGHBOUR], world(), solver)["c"]
        beside_others = decided([EITHER, PICKY, NEIGHBOUR], world(), solver)
        assert beside_others["c"].pools == alone.pools
        assert beside_others["c"].sizes == ()
        assert size(beside_others["a"]) == (2, 12)

    def test_each_size_is_listed_with_its_bill_on_what_the_other_leaves(self, solver: Solver) -> None:
        picky = decided([EITHER, PICKY], world(), solver)["b"]
        assert [(each.replicas, each.hourly_price, each.missing) for each in picky.sizes] == [
            (1, "3.00", 0),
            (8, "8.00", 0),
        ]

    def test_a_deployment_that_keeps_its_pool_takes_its_size_alone(self, solver: Solver) -> None:
        """It has grown. The replica that runs stays, and the younger one gets what is left."""
        runs = tenant(EITHER, pool(H100, generation=1), generation=2)
        where = fleet(node("h", gpu(H100, price="3"), 1, held=1), *world().nodes[1:])
        older, younger = plan([runs, tenant(PICKY)], where, solver=solver)
        assert (places(older), size(older)) == ({H100: 1}, (1, 24))
        assert (places(younger), younger.missing) == ({L4: 8}, 0)

    def test_too_many_sizes_for_one_problem_are_chosen_one_by_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fleetwide, "MOST_CHOICES_OF_SIZES", 1)
        decisions = decided([EITHER, PICKY], world(), highs.fleetwide())
        assert bill(*decisions.values()) == pytest.approx(11.0)
        assert all(each.missing == 0 for each in decisions.values())
        gaps = {None if each.appraisal is None else each.appraisal.gap for each in decisions.values()}
        monkeypatch.undo()
        best = bill(*decided([EITHER, PICKY], world(), highs.fleetwide()).values())
        assert best == pytest.approx(6.2)
        (gap,) = gaps
        assert gap is not None
        assert 1 - best / 11.0 <= gap < 1, "what other sizes would save is stated, and not less"


class TestShortage:
    def test_the_size_is_taken_with_which_most_of_the_load_has_a_place(self, solver: Solver) -> None:
        """One of two large replicas has room, or seven of eight small ones."""
        where = fleet(node("l", L40S, 1), node("l4", L4, 6))
        decision = decided([EITHER], where, solver)["a"]
        assert (size(decision), places(decision), decision.missing) == ((8, 3), {L40S: 1, L4: 6}, 1)

    def test_a_quota_decides_the_size(self, solver: Solver) -> None:
        """Two L40S are cheaper. A namespace that may take one GPU more has one replica on the H100."""
        where = fleet(node("h", gpu(H100, price="3"), 1), node("l", gpu(L40S, price="1"), 2))
        for left, places_there in ((1, {H100: 1}), (2, {L40S: 2})):
            quotas = {"default": {"nvidia.com/gpu": left}}
            (decision,) = plan([tenant(EITHER)], where, quotas=quotas, solver=solver)
            assert (places(decision), decision.missing) == (places_there, 0)

    def test_an_older_deployment_keeps_its_share_whatever_size_a_younger_one_would_take(self, solver: Solver) -> None:
        where = fleet(node("l4", L4, 10))
        decisions = decided([total(24, "a"), total(24, "b")], where, solver)
        assert [(each.request.replicas, each.missing) for each in decisions.values()] == [(8, 0), (8, 6)]


class TestAgainstEveryWay:
    @every_case("seed", SEEDS)
    def test_no_way_to_size_and_place_small_fleets_is_better(self, seed: int) -> None:
        where, asking = small_world(random.Random(seed))  # noqa: S311 - a repeatable world, not a secret
        best = best_goals(asking, where)
        mine = goals_of(plan(asking, where, solver=highs.fleetwide()), asking, where)
        assert mine[:2] == best[:2]
        assert float(mine[2]) == pytest.approx(float(best[2]), rel=highs.RELATIVE_GAP)

    def test_the_same_fleets_are_planned_worse_where_each_takes_its_size_alone(self) -> None:
        """Otherwise, the comparison with every way would show nothing."""
        worlds = [small_world(random.Random(seed)) for seed in range(20)]  # noqa: S311
        alone = [goals_of(plan(asking, where, solver=SOLVERS["greedy"]), asking, where) for where, asking in worlds]
        together = [goals_of(plan(asking, where, solver=highs.fleetwide()), asking, where) for where, asking in worlds]
        assert sum(one > other for one, other in zip(alone, together, strict=True)) > 0

    @every_case("seed", range(10))
    def test_the_same_fleet_gets_the_same_plan_from_a_new_solver(self, seed: int) -> None:
        where, asking = small_world(random.Random(500 + seed))  # noqa: S311
        for make in MAKERS.values():
            assert plan(asking, where, solver=make()) == plan(asking, where, solver=make())


def small_world(dice: random.Random) -> tuple[Fleet, list[Tenant]]:
    kinds = dice.sample((H100, A100, L40S, L4), dice.randint(2, 3))
    nodes = [
        node(f"n{index}", gpu(kind, price=str(dice.randint(4, 40) / 4)), dice.choice((1, 2, 4)))
        for index, kind in enumerate(kinds)
    ]
    return fleet(*nodes), [tenant(_small_request(f"d{index}", dice)) for index in range(dice.randint(2, 4))]


def _small_request(name: str, dice: random.Random) -> Request:
    gpus = dice.choice((1, 2))
    if dice.random() < SHARE_OF_SIZED:
        load, fewest, context = dice.choice((6, 8, 12)), dice.choice((1, 1, 2)), dice.choice((4096, 8192))
        return total(load, name, fewest=fewest, context=context, max_per_replica=gpus)
    rules = GpuConstraints(max_per_replica=gpus)
    return request(name=name, created=name, context=8192, replicas=dice.randint(1, 3), constraints=rules)
