"""The fleet-wide solver: near the optimum, the older first, nobody's GPUs twice, and every reason is real."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from plimsoll.adapters import highs
from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.cluster.priorities import Priority
from plimsoll.domain.cluster.spot import spot_type
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Reason
from plimsoll.domain.requests.serving import GpuConstraints, Overrides
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.pools import Decision, PoolState, Tenant
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.options.nodes import eligible_nodes
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import SOLVERS, Fleetwide, Solver, search
from plimsoll.placement.solvers.formulation import Programme, Solution
from tests.support.exhaustive_solver import solve_exhaustively
from tests.support.planning import A100, H100, L4, L40S, LLAMA_70B_FP8, fleet, gpu, node, pool, request, tenant
from tests.support.tables import every_case
from tests.support.world_plans import planned

pytestmark = pytest.mark.lengthy

MOST_REMEMBERED = 8

SHARE_OF_SPOT = 0.3
"""How often the new node is spot capacity, and how often it has another label than the nodes of its type."""

MAKERS: dict[str, Callable[[], Fleetwide]] = {"highs": highs.fleetwide, "search": Fleetwide}


@pytest.fixture(params=MAKERS)
def solver(request: pytest.FixtureRequest) -> Fleetwide:
    return MAKERS[request.param]()


def bill(decisions: Sequence[Decision]) -> Decimal:
    pools = [each for decision in decisions for each in decision.pools if each.choice is not None]
    prices = (each.replicas * (each.choice.hourly_price or Decimal(0)) for each in pools if each.choice)
    return sum(prices, Decimal(0))


def active(decision: Decision) -> dict[str, int]:
    return {each.gpu_type: each.replicas for each in decision.pools if each.state is PoolState.ACTIVE}


def doubts(decisions: Sequence[Decision]) -> int:
    """The doubts of all replicas: options that fit only probably, or are slow."""
    pools = [each for decision in decisions for each in decision.pools]
    return sum(each.replicas * each.choice.doubts for each in pools if each.choice)


def missing(decisions: Sequence[Decision]) -> list[int]:
    return [decision.missing for decision in decisions]


def priced(name: str, kind: str, gpus: int, price: str, **changes: object) -> GpuNode:
    return replace(node(name, gpu(kind, price=price), gpus), **changes)  # type: ignore[arg-type]


class TestTheWholeFleet:
    def test_the_scarce_cheap_gpu_goes_to_whom_it_saves_more(self, solver: Solver) -> None:
        """Both prefer the L40S. Without it the older pays for an H100, and the younger for eight of them."""
        where = fleet(priced("l", L40S, 1, "1"), priced("h", H100, 8, "6"), priced("a", A100, 1, "2"))
        either = tenant(request(name="either", created="1"))
        only_two = tenant(request(name="picky", created="2", constraints=GpuConstraints(deny=(A100,))))
        decisions = plan([either, only_two], where, solver=solver)
        assert [active(each) for each in decisions] == [{A100: 1}, {L40S: 1}]
        assert bill(decisions) == 3
        [scarce] = [each for each in decisions[0].rejections if each.reason is Reason.SCARCE_FOR_OTHERS]
        assert (scarce.gpu_type, dict(scarce.numbers)) == (
            L40S,
            {"price": "1", "best_price": "2", "other": "picky", "saved": "5"},
        )

    def test_whom_the_second_choice_costs_most_more_chooses_first_in_one_of_the_starts(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without any round after the starts. By age, by GPUs and by their choices, the other one would be first."""
        monkeypatch.setattr(search, "ROUNDS", 0)
        where = fleet(priced("l", L40S, 1, "1"), priced("h", H100, 1, "6"), priced("a", A100, 1, "2"))
        wishes = [GpuConstraints(allow=(L40S, other)) for other in (A100, H100)]
        asking = [tenant(request(name=f"{at}", created=f"{at}", constraints=each)) for at, each in enumerate(wishes)]
        assert [active(each) for each in plan(asking, where, solver=Fleetwide())] == [{A100: 1}, {L40S: 1}]

    def test_the_name_of_a_deployment_stays_in_its_namespace(self, solver: Solver) -> None:
        where = fleet(priced("l", L40S, 1, "1"), priced("h", H100, 8, "6"), priced("a", A100, 1, "2"))
        either = tenant(request(name="either", created="1"))
        elsewhere = request(created="2", constraints=GpuConstraints(deny=(A100,)), key=ObjectKey("other", "picky"))
        decisions = plan([either, tenant(elsewhere)], where, solver=solver)
        [scarce] = [each for each in decisions[0].rejections if each.reason is Reason.SCARCE_FOR_OTHERS]
        assert "other" not in dict(scarce.numbers)

    def test_a_whole_node_is_left_for_who_needs_it_whole(self, solver: Solver) -> None:
        small = [tenant(request(name=f"s{index}", created=f"{index}")) for index in range(8)]
        large = tenant(request(name="large", created="9", overrides=Overrides(tensor_parallel=8)))
        where = fleet(node("a", H100, 8), node("b", H100, 8))
        decisions = plan([*small, large], where, solver=solver)
        assert missing(decisions) == [0] * 9

    def test_what_runs_is_not_moved_for_a_newcomer(self, solver: Solver) -> None:
        runs = tenant(request(name="old", created="1"), pool(L40S))
        where = fleet(node("l", L40S, 1, held=1), node("h", H100, 1))
        decisions = plan([runs, tenant(request(name="new", created="2"))], where, solver=solver)
        assert [active(each) for each in decisions] == [{L40S: 1}, {H100: 1}]

    def test_a_type_without_a_price_is_taken_where_nothing_else_is_left(self, solver: Solver) -> None:
        where = fleet(node("l", gpu(L40S, price=None), 1), node("h", H100, 1))
        decisions = plan([tenant(request(name=name, created=name)) for name in "ab"], where, solver=solver)
        assert sorted(next(iter(active(each))) for each in decisions) == [H100, L40S]


class TestShortage:
    def test_the_older_come_first_where_not_all_have_room(self, solver: Solver) -> None:
        asking = [tenant(request(name=name, created=name, replicas=2)) for name in "abc"]
        decisions = plan(asking, fleet(node("l", L40S, 3)), solver=solver)
        assert missing(decisions) == [0, 1, 2]

    def test_who_cannot_be_placed_keeps_nothing_from_those_behind_it(self, solver: Solver) -> None:
        large = request(LLAMA_70B_FP8, name="large", created="1", constraints=GpuConstraints(allow=(H100,)))
        where = fleet(node("h", H100, 1), node("l", L40S, 1))
        decisions = plan([tenant(large), tenant(request(name="small", created="2"))], where, solver=solver)
        assert missing(decisions) == [1, 0]

    def test_an_older_deployment_takes_the_dearer_gpu_before_a_younger_one_goes_without(self, solver: Solver) -> None:
        either = tenant(request(name="either", created="1"))
        picky = tenant(request(name="picky", created="2", constraints=GpuConstraints(allow=(L40S,))))
        decisions = plan([either, picky], fleet(node("l", L40S, 1), node("h", H100, 1)), solver=solver)
        assert missing(decisions) == [0, 0]

    def test_a_quota_binds_its_namespace_and_no_other(self, solver: Solver) -> None:
        mine = tenant(request(name="mine", created="1", replicas=4))
        theirs = tenant(request(created="2", replicas=4, key=ObjectKey("other", "theirs")))
        quotas = {"default": {"nvidia.com/gpu": 1}}
        decisions = plan([mine, theirs], fleet(node("l", L40S, 8)), quotas=quotas, solver=solver)
        assert missing(decisions) == [3, 0]

    @pytest.mark.parametrize(
        ("resource", "left"), [("requests.cpu", 5999), ("limits.cpu", 5999), ("requests.memory", 24 * GIB - 1)]
    )
    def test_a_quota_on_cpu_or_memory_binds_its_namespace_and_no_other(
        self, solver: Solver, resource: str, left: int
    ) -> None:
        mine = [tenant(request(name=name, created=name, replicas=2)) for name in "ab"]  # 2 CPUs and 8 GiB a replica
        theirs = tenant(request(created="c", replicas=2, key=ObjectKey("other", "theirs")))
        quotas = {"default": {resource: left}}
        decisions = plan([*mine, theirs], fleet(node("l", L40S, 8)), quotas=quotas, solver=solver)
        assert missing(decisions) == [0, 2, 0]

    def test_both_get_a_place_where_the_cheapest_one_of_the_first_takes_most_of_the_quota_on_cpu(self) -> None:
        mine = [tenant(request(LLAMA_70B_FP8, context=8192, name=name, created=name)) for name in "ab"]
        where = fleet(node("l", L40S, 8), node("h", H100, 8))  # 5 CPUs on four L40S, 3 on two H100
        for left, places in ((10_000, [L40S, L40S]), (8000, [L40S, H100]), (6000, [H100, H100])):
            decisions = plan(mine, where, quotas={"default": {"requests.cpu": left}}, solver=highs.fleetwide())
            assert [next(iter(active(each))) for each in decisions] == places

    def test_nodes_without_cpus_hold_as_many_pods_as_their_cpus_allow(self, solver: Solver) -> None:
        poor = HostRoom(cpu_millis=5000)
        where = fleet(priced("l", L40S, 8, "1", host=poor, host_free=poor), priced("h", H100, 8, "6"))
        decisions = plan(
            [tenant(request(name=f"d{index}", created=f"{index}")) for index in range(4)], where, solver=solver
        )
        assert missing(decisions) == [0, 0, 0, 0]
        assert sorted(next(iter(active(each))) for each in decisions) == [H100, H100, L40S, L40S]

    def test_who_has_no_choice_at_all_does_not_make_the_plan_of_the_others_harder(self) -> None:
        hopeless = tenant(request(name="hopeless", created="0", constraints=GpuConstraints(allow=(A100,))))
        asking = [tenant(request(name=name, created=name)) for name in "ab"]
        where = fleet(node("l", L40S, 1), node("h", H100, 2))
        alone, together = planned(asking, where), planned([hopeless, *asking], where)
        assert together.appraisal == alone.appraisal
        assert [each.missing for each in together.decisions.values()] == [1, 0, 0]


class TestMixing:
    where = staticmethod(
        lambda: fleet(priced("l", L40S, 9, "2"), priced("h1", H100, 8, "6"), priced("h2", H100, 8, "6"))
    )

    def test_replicas_share_one_type_where_a_mix_saves_little(self, solver: Solver) -> None:
        where = fleet(priced("l", L40S, 1, "2"), priced("a", A100, 8, "2.1"))
        [decision] = plan([tenant(request(replicas=4))], where, solver=solver)
        assert active(decision) == {A100: 4}

    def test_replicas_mix_types_where_one_type_costs_much_more(self, solver: Solver) -> None:
        [decision] = plan([tenant(request(replicas=10))], self.where(), solver=solver)
        assert active(decision) == {L40S: 9, H100: 1}

    def test_one_more_replica_never_moves_the_others_to_a_dearer_type(self, solver: Solver) -> None:
        [nine] = plan([tenant(request(replicas=9))], self.where(), solver=solver)
        [ten] = plan([tenant(request(replicas=10))], self.where(), solver=solver)
        assert (bill([nine]), bill([ten])) == (Decimal(18), Decimal(24))

    def test_replicas_mix_types_where_no_type_has_room_for_all(self, solver: Solver) -> None:
        [decision] = plan([tenant(request(replicas=3))], fleet(node("l", L40S, 1), node("h", H100, 2)), solver=solver)
        assert (active(decision), decision.missing) == ({L40S: 1, H100: 2}, 0)


class TestAgainstEveryWay:
    @every_case("seed", range(25))
    def test_no_way_to_place_small_fleets_is_cheaper(self, seed: int) -> None:
        where, asking = _small_world(random.Random(seed))  # noqa: S311 - a repeatable world, not a secret
        best = plan(asking, where, solver=solve_exhaustively)
        for make in MAKERS.values():
            mine = plan(asking, where, solver=make())
            assert sum(missing(mine)) <= sum(missing(best)) or missing(mine) < missing(best)
            if sum(missing(mine)) == sum(missing(best)) == 0 and doubts(mine) == doubts(best):
                assert bill(mine) <= bill(best) * Decimal("1.0011")

    @every_case("seed", range(15))
    def test_the_same_fleet_gets_the_same_plan_from_a_new_solver(self, seed: int) -> None:
        where, asking = _small_world(random.Random(100 + seed))  # noqa: S311
        for make in MAKERS.values():
            assert plan(asking, where, solver=make()) == plan(asking, where, solver=make())

    @every_case("seed", range(40))
    def test_one_more_node_makes_no_plan_worse(self, seed: int) -> None:
        """Nobody older loses a replica, and the same replicas do not cost more."""
        dice = random.Random(300 + seed)  # noqa: S311
        where, asking = _small_world(dice)
        new = node("new", dice.choice((L4, L40S, A100, H100)), dice.choice((1, 2, 4)))
        if dice.random() < SHARE_OF_SPOT:
            new = replace(new, gpu=spot_type(new.gpu), capacity_type=CapacityType.SPOT)
        if dice.random() < SHARE_OF_SPOT:
            new = replace(new, selector=("plimsoll.dev/gpu-type", new.gpu.name))
        more = fleet(*where.nodes, new)
        before, after = (plan(asking, each, solver=highs.fleetwide()) for each in (where, more))
        assert missing(after) <= missing(before)
        assert sum(missing(after)) <= sum(missing(before))
        if missing(after) == missing(before):
            assert doubts(after) <= doubts(before)
        if (missing(after), doubts(after)) == (missing(before), doubts(before)):
            assert bill(after) <= bill(before) * Decimal("1.0011")

    @every_case("seed", range(15))
    @every_case("make", MAKERS.values(), ids=MAKERS)
    def test_no_gpu_is_given_twice(self, make: Callable[[], Fleetwide], seed: int) -> None:
        where, asking = _small_world(random.Random(200 + seed))  # noqa: S311
        ledger = Ledger.of(where)
        for decision in plan(asking, where, solver=make()):
            for each in decision.pools:
                nodes = eligible_nodes(decision.request, where, each.gpu_type)
                ledger = ledger.with_amounts(_without(ledger, nodes, each.replicas * each.split.gpus), {})
        assert all(free >= 0 for free in ledger.free.values())

    @every_case("seed", range(15))
    @every_case("make", MAKERS.values(), ids=MAKERS)
    def test_no_room_for_a_pod_is_given_twice(self, make: Callable[[], Fleetwide], seed: int) -> None:
        """Nodes have few slots for pods, or few CPUs, or little memory, and more replicas are wanted than they hold."""
        dice = random.Random(300 + seed)  # noqa: S311
        where, asking = _small_world(dice)
        rooms = [
            HostRoom(dice.choice((5_000, 96_000)), dice.choice((64, 900)) * GIB, dice.randint(1, 3))
            for _ in where.nodes
        ]
        where = fleet(
            *(replace(each, host=room, host_free=room) for each, room in zip(where.nodes, rooms, strict=True))
        )
        asking = [replace(each, request=each.request.with_replicas(1 + each.request.replicas)) for each in asking]
        left = planned(asking, where, solver=make()).left.ledger
        assert all(free >= 0 for free in left.free.values())
        assert min(each or 0 for room in left.hosts.values() for each in room[:3]) >= 0


def _without(ledger: Ledger, nodes: Sequence[GpuNode], gpus: int) -> dict[str, int]:
    """The free GPUs after taking some of them wherever they are."""
    free = dict(ledger.free)
    for each in nodes:
        taken = min(gpus, free[each.account])
        free[each.account] -= taken
        gpus -= taken
    assert gpus == 0
    return free


def _small_world(dice: random.Random) -> tuple[Fleet, list[Tenant]]:
    kinds = (L4, L40S, A100, H100)
    nodes = [node(f"n{index}", dice.choice(kinds), dice.choice((1, 2, 4))) for index in range(dice.randint(2, 5))]
    asking = []
    for index in range(dice.randint(2, 4)):
        model, context = dice.choice((("meta-llama/Llama-3.1-8B-Instruct", 4096), (LLAMA_70B_FP8, 4096)))
        denied = GpuConstraints(deny=tuple(dice.sample(kinds, dice.randint(0, 1))))
        wanted = request(
            model,
            name=f"d{index}",
            created=f"{index}",
            context=context,
            replicas=dice.randint(1, 2),
            constraints=denied,
        )
        asking.append(tenant(wanted))
    return fleet(*nodes), asking


class TestTheRecord:
    def test_the_plan_has_its_bill_and_a_proven_bound(self) -> None:
        asking = [tenant(request(name=name, created=name, replicas=2)) for name in "ab"]
        where = fleet(priced("l", L40S, 3, "2"), priced("h", H100, 8, "6"))
        appraisal = planned(asking, where, solver=highs.fleetwide()).appraisal
        assert appraisal is not None
        assert (appraisal.solver, appraisal.deployments) == ("programme", 2)
        assert appraisal.gap == pytest.approx(0, abs=0.002)

    def test_nodes_that_not_everybody_accepts_cost_the_same(self) -> None:
        picky = tenant(request(name="picky", created="2", node_selector=(("zone", "a"),)))
        asking = [tenant(request(name="any", created="1")), picky, tenant(request(name="last", created="3"))]
        nodes = (("l", L40S, 1, "b", "2"), ("m", L40S, 1, "a", "2"), ("h", H100, 8, "b", "6"))
        where = fleet(*(priced(*each[:3], each[4], labels=(("zone", each[3]),)) for each in nodes))
        asking = [replace(each, request=replace(each.request, objective=Objective.BATCH)) for each in asking]
        appraisal = planned(asking, where, solver=highs.fleetwide()).appraisal
        assert appraisal is not None
        assert (appraisal.solver, appraisal.deployments) == ("programme", 3)
        assert [appraisal.bill, appraisal.bound] == pytest.approx([2 + 2 + 6, 2 + 2 + 6])

    def test_only_as_many_programmes_are_solved_as_the_plan_needs(self) -> None:
        """None where everybody gets the cheapest place in turn; one where all have a place without doubts."""
        solved: list[Programme] = []

        def counting() -> Callable[[Programme], Solution | None]:
            milp = highs.Highs()

            def solve(programme: Programme) -> Solution | None:
                solved.append(programme)
                return milp(programme)

            return solve

        asking = [tenant(request(name=name, created=name, replicas=2)) for name in "ab"]
        for room, solver, programmes in ((4, "in turn", 0), (3, "programme", 1)):
            where = fleet(priced("l", L40S, room, "2"), priced("h", H100, 8, "6"))
            appraisal = planned(asking, where, solver=Fleetwide(counting)).appraisal
            assert appraisal is not None
            assert (appraisal.solver, len(solved)) == (solver, programmes)

    def test_a_plan_without_new_replicas_has_no_record(self) -> None:
        runs = tenant(request(), pool(L40S))
        assert planned([runs], fleet(node("l", L40S, 1, held=1)), solver=highs.fleetwide()).appraisal is None


class TestWithoutAnswer:
    def test_a_library_that_gives_up_is_replaced_by_the_search(self) -> None:
        def gives_up(_: Programme) -> Solution | None:
            return None

        asking = [tenant(request(name=name, created=name)) for name in "ab"]
        where = fleet(node("l", L40S, 1), node("h", H100, 1))
        made = planned(asking, where, solver=Fleetwide(lambda: gives_up))
        assert [each.missing for each in made.decisions.values()] == [0, 0]
        assert made.appraisal is not None
        assert made.appraisal.solver == "search"

    def test_a_decision_has_a_bounded_time_and_the_search_takes_over(self) -> None:
        asking = [tenant(request(name=name, created=name)) for name in "ab"]
        where = fleet(node("l", L40S, 1), node("h", H100, 1))
        for spent in (highs.Highs(seconds=0), highs.Highs(iterations=0)):
            made = planned(asking, where, solver=Fleetwide(lambda spent=spent: spent))  # type: ignore[misc]
            assert [each.missing for each in made.decisions.values()] == [0, 0]
            assert made.appraisal is not None
            assert made.appraisal.solver == "search"
        library = highs.Highs()
        assert library(Programme([1.0], [1.0])) is not None
        assert library.seconds < highs.MOST_SECONDS

    def test_a_plan_does_not_depend_on_how_busy_the_machine_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each programme takes two seconds on the busy one, of some fifteen that the decision needs."""
        asking = [tenant(request(name=f"{number:02}", created=f"{number:02}", replicas=3)) for number in range(12)]
        where = fleet(priced("l", L40S, 4, "2"), priced("m", L40S, 3, "2"), priced("h", H100, 8, "6"))
        quiet = plan(asking, where, solver=highs.fleetwide())
        seconds = itertools.count(0.0, 2.0)
        monkeypatch.setattr(highs, "monotonic", lambda: next(seconds))
        assert plan(asking, where, solver=highs.fleetwide()) == quiet
        assert next(seconds) > 20.0, "it was busy for longer than one programme"

    def test_an_unchanged_problem_is_solved_once(self) -> None:
        library, where = Counting(), fleet(node("l", L40S, 1), node("h", H100, 2))
        asking = [tenant(request(name=name, created=name)) for name in "abc"]
        solver = Fleetwide(lambda: library)
        first = plan(asking, where, solver=solver)
        assert library.taken() > 0
        assert plan(asking, where, solver=solver) == first
        assert library.taken() == 0
        plan(asking[1:], where, solver=solver)
        assert library.taken() > 0

    def test_of_many_problems_the_latest_are_remembered(self) -> None:
        library, where = Counting(), fleet(node("l", L40S, 1), node("h", H100, 2))
        crowds = [
            [tenant(request(name=name, created=name, replicas=size)) for name in "abc"]
            for size in range(1, MOST_REMEMBERED + 6)
        ]
        solver = Fleetwide(lambda: library)
        for crowd in crowds:
            plan(crowd, where, solver=solver)
        assert library.taken() > 0
        plan(crowds[-2], where, solver=solver)
        assert library.taken() == 0
        plan(crowds[0], where, solver=solver)
        assert library.taken() > 0


class Counting:
    """A library that counts the programmes that it solves."""

    def __init__(self) -> None:
        self._solved = 0

    def __call__(self, programme: Programme) -> Solution | None:
        self._solved += 1
        return highs.Highs()(programme)

    def taken(self) -> int:
        """How many it has solved since this was asked last."""
        solved, self._solved = self._solved, 0
        return solved


@every_case("seed", range(40))
def test_replicas_fit_exactly_if_every_size_has_enough_slots(seed: int) -> None:
    """The fact behind the limits of a problem, against a search over all ways to fill the nodes."""
    dice = random.Random(seed)  # noqa: S311 - a repeatable case
    free = [dice.choice((1, 2, 3, 4, 5, 6, 7, 8)) for _ in range(dice.randint(1, 3))]
    sizes = [dice.choice((1, 2, 4, 8)) for _ in range(dice.randint(1, 6))]
    by_slots = all(
        sum(size // least for size in sizes if size >= least) <= sum(gpus // least for gpus in free)
        for least in (1, 2, 4, 8)
    )
    assert by_slots == any(_fills(free, sizes, way) for way in itertools.product(range(len(free)), repeat=len(sizes)))


def _fills(free: Sequence[int], sizes: Sequence[int], way: Sequence[int]) -> bool:
    used = [sum(size for size, at in zip(sizes, way, strict=True) if at == index) for index in range(len(free))]
    return all(taken <= gpus for taken, gpus in zip(used, free, strict=True))


def test_the_solvers_that_need_no_library_are_known_by_name() -> None:
    assert set(SOLVERS) == {"greedy", "search"}


@pytest.mark.parametrize(("replicas", "gpus"), [(2, {2: 2}), (3, {2: 1, 1: 2}), (4, {1: 4})])
def test_a_lone_deployment_leaves_no_replica_out_for_a_faster_one(
    solver: Fleetwide, replicas: int, gpus: dict[int, int]
) -> None:
    """On one GPU a replica is slower than usual, on two it is not, and there are four GPUs."""
    wanted = tenant(request(context=36, concurrency=1000, replicas=replicas))
    (decision,) = plan([wanted], fleet(node("a", gpu(H100), 4)), solver=solver)
    assert decision.missing == 0
    if solver.library:  # the search may find another mix
        assert {each.split.gpus: each.replicas for each in decision.pools} == gpus


@pytest.mark.parametrize(("free", "moves"), [(1, False), (2, True)])
def test_a_replica_that_found_no_node_takes_no_gpu_for_which_a_higher_priority_waits(free: int, *, moves: bool) -> None:
    where = fleet(node("l", L40S, 1), node("h", H100, free))
    high = tenant(request(name="high", constraints=GpuConstraints(allow=(H100,))), priority=Priority(10))
    stuck = pool(L40S, bound=0, ready=0, stranded=1, obstacle="InsufficientGpus")
    low = tenant(request(name="low", constraints=GpuConstraints(max_per_replica=1)), stuck)
    first, second = plan([high, low], where, solver=Fleetwide())
    assert active(first) == {H100: 1}
    assert active(second) == ({H100: 1} if moves else {L40S: 1})
