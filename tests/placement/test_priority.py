"""Who waits: the higher priority comes first, among equals the older, with every solver, and nobody who runs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from plimsoll.adapters import highs
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.priorities import Priority
from plimsoll.domain.requests.serving import GpuConstraints, Overrides
from plimsoll.placement.demands.pools import Decision, PoolState, Tenant
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import Fleetwide, Solver
from plimsoll.placement.solvers.greedy import solve_greedily
from tests.support.planning import A100, H100, L4, L40S, fleet, node, pool, request, tenant
from tests.support.tables import every_case

pytestmark = pytest.mark.lengthy

MAKERS: dict[str, Callable[[], Solver]] = {
    "highs": highs.fleetwide,
    "search": Fleetwide,
    "greedy": lambda: solve_greedily,
}
TYPES = (L40S, H100, A100)


@pytest.fixture(params=MAKERS)
def solver(request: pytest.FixtureRequest) -> Solver:
    return MAKERS[request.param]()


def of_priority(value: int, each: Tenant) -> Tenant:
    return replace(each, priority=Priority(value))


def missing(decisions: Sequence[Decision]) -> dict[str, int]:
    return {each.request.key.name: each.missing for each in decisions}


class TestOrder:
    def test_the_higher_priority_gets_the_last_gpu_though_it_is_younger(self, solver: Solver) -> None:
        old = tenant(request(name="old", created="1"))
        gold = of_priority(1000, tenant(request(name="gold", created="2")))
        assert missing(plan([old, gold], fleet(node("l", L40S, 1)), solver=solver)) == {"gold": 0, "old": 1}

    def test_among_equals_the_older_comes_first(self, solver: Solver) -> None:
        asking = [of_priority(5, tenant(request(name=name, created=name))) for name in "cab"]
        decisions = plan(asking, fleet(node("l", L40S, 2)), solver=solver)
        assert missing(decisions) == {"a": 0, "b": 0, "c": 1}

    def test_a_negative_priority_comes_behind_no_priority(self, solver: Solver) -> None:
        spare = of_priority(-1, tenant(request(name="spare", created="1")))
        plain = tenant(request(name="plain", created="2"))
        assert missing(plan([spare, plain], fleet(node("l", L40S, 1)), solver=solver)) == {"plain": 0, "spare": 1}

    def test_some_replicas_of_the_higher_come_before_all_replicas_of_the_lower(self, solver: Solver) -> None:
        gold = of_priority(1, tenant(request(name="gold", created="2", replicas=4)))
        small = tenant(request(name="small", created="1", replicas=2))
        assert missing(plan([small, gold], fleet(node("l", L40S, 3)), solver=solver)) == {"gold": 1, "small": 2}

    def test_what_runs_is_not_evicted_for_a_higher_priority(self, solver: Solver) -> None:
        runs = tenant(request(name="runs", created="1"), pool(L40S))
        gold = of_priority(1000, tenant(request(name="gold", created="2")))
        decisions = plan([runs, gold], fleet(node("l", L40S, 1, held=1)), solver=solver)
        assert missing(decisions) == {"gold": 1, "runs": 0}
        kept = [each for decision in decisions for each in decision.pools if each.state is PoolState.ACTIVE]
        assert [(each.gpu_type, each.replicas) for each in kept] == [(L40S, 1)]

    def test_who_waits_comes_before_a_lower_one_whose_pod_found_no_node(self, solver: Solver) -> None:
        stranded = pool(L40S, bound=0, stranded=1)
        lost = tenant(request(name="lost", created="1", constraints=GpuConstraints(allow=(L40S, H100))), stranded)
        gold = of_priority(1, tenant(request(name="gold", created="2", constraints=GpuConstraints(allow=(H100,)))))
        where = fleet(node("h", H100, 1))
        decisions = {each.request.key.name: each for each in plan([lost, gold], where, solver=solver)}
        assert decisions["gold"].missing == 0
        assert not decisions["lost"].departures

    def test_a_lower_one_whose_pod_found_no_node_gets_what_the_higher_leave(self, solver: Solver) -> None:
        stranded = pool(L40S, bound=0, stranded=1)
        lost = tenant(request(name="lost", created="1", constraints=GpuConstraints(allow=(L40S, H100))), stranded)
        gold = of_priority(1, tenant(request(name="gold", created="2", constraints=GpuConstraints(allow=(H100,)))))
        late = tenant(request(name="late", created="3", constraints=GpuConstraints(allow=(H100,))))
        decisions = plan([late, lost, gold], fleet(node("h", H100, 2), node("l", L40S, 0)), solver=solver)
        assert missing(decisions)["gold"] == 0
        assert [bool(each.departures) for each in decisions if each.request.key.name == "lost"] == [True]
        assert missing(decisions)["late"] == 1


class Case:
    """A tiny fleet of one-GPU places, and deployments that may use some of its types."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)  # noqa: S311 - a fixed seed
        self.free = {kind: draw.randint(0, 3) for kind in TYPES}
        self.tenants = [self._tenant(draw, index) for index in range(draw.randint(2, 5))]

    @staticmethod
    def _tenant(draw: random.Random, index: int) -> Tenant:
        allow = tuple(draw.sample(TYPES, draw.randint(1, len(TYPES))))
        wanted = request(
            name=f"d{index}",
            created=str(draw.randint(0, 9)),
            replicas=draw.randint(1, 3),
            constraints=GpuConstraints(allow=allow),
            overrides=Overrides(tensor_parallel=1),
        )
        return of_priority(draw.choice([0, 0, 10, -10]), tenant(wanted))

    @property
    def fleet(self) -> Fleet:
        return fleet(*(node(kind, kind, free) for kind, free in self.free.items() if free), node("other", L4, 0))

    def fewest_missing(self) -> list[int]:
        """The missing replicas in the order of decisions: the least vector of all possible ones."""
        ordered = sorted(self.tenants, key=lambda each: each.turn)
        return min(self._all(ordered, self.free))

    def _all(self, waiting: Sequence[Tenant], free: dict[str, int]) -> Iterator[list[int]]:
        if not waiting:
            yield []
            return
        first, *rest = waiting
        allowed = first.request.constraints.allow
        for counts in itertools.product(*(range(min(free[kind], first.request.replicas) + 1) for kind in allowed)):
            if sum(counts) <= first.request.replicas:
                left = dict(free)
                for kind, count in zip(allowed, counts, strict=True):
                    left[kind] -= count
                for behind in self._all(rest, left):
                    yield [first.request.replicas - sum(counts), *behind]


@every_case("seed", range(60))
def test_the_programme_leaves_out_exactly_whom_brute_force_leaves_out(seed: int) -> None:
    case = Case(seed)
    decisions = plan(case.tenants, case.fleet, solver=highs.fleetwide())
    assert [each.missing for each in decisions] == case.fewest_missing()


@every_case("seed", range(60))
@every_case("make", MAKERS.values(), ids=MAKERS)
def test_no_solver_leaves_out_the_first_in_the_order_more_than_it_must(seed: int, make: Callable[[], Solver]) -> None:
    case = Case(seed)
    first, *_ = plan(case.tenants, case.fleet, solver=make())
    assert first.missing == case.fewest_missing()[0]


def test_behind_many_who_cannot_be_placed_the_higher_level_still_comes_first() -> None:
    """More deployments than the programme looks at one by one: the rest is decided by level."""
    where = fleet(node("l", L40S, 3))
    large = [of_priority(9, tenant(request(name=f"large{index}", created="0", replicas=9))) for index in range(8)]
    gold = [of_priority(5, tenant(request(name=f"gold{index}", created="2"))) for index in range(3)]
    plain = [tenant(request(name=f"plain{index}", created="1")) for index in range(3)]
    picky = GpuConstraints(allow=(H100,))
    large = [replace(each, request=replace(each.request, constraints=picky)) for each in large]
    decisions = plan([*plain, *gold, *large], fleet(*where.nodes, node("h", H100, 1)), solver=highs.fleetwide())
    found = missing(decisions)
    assert [found[f"gold{index}"] for index in range(3)] == [0, 0, 0]
    assert sum(found[f"plain{index}"] for index in range(3)) == 3


def test_behind_five_who_cannot_have_all_replicas_the_older_still_comes_before_many() -> None:
    """Up to six are looked at one by one: the sixth has one replica, though eight of a younger one would fit."""
    picky = GpuConstraints(allow=(H100,))
    large = [request(name=f"large{index}", created=f"{index}", replicas=9, constraints=picky) for index in range(5)]
    whole = request(name="whole", created="5", replicas=2, overrides=Overrides(tensor_parallel=8))
    small = request(name="small", created="6", replicas=8)
    where = fleet(node("h", H100, 1), node("l", L40S, 8))
    found = missing(plan([tenant(each) for each in (*large, whole, small)], where, solver=highs.fleetwide()))
    assert [found["whole"], found["small"]] == [1, 8]
