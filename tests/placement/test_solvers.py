"""A solver plugs in by its name, and what is made of its awards is the same for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from plimsoll.adapters import highs
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.requests.serving import GpuConstraints
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.demands.pools import Decision, PoolState, Tenant
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import SOLVERS, Award, Solver, Stock
from plimsoll.placement.solvers.deciding import Decided
from plimsoll.placement.solvers.formulation import Share
from plimsoll.placement.solvers.packing import pack
from plimsoll.placement.solvers.problem import Choice, Kind, Posed, Problem
from tests.support.exhaustive_solver import solve_exhaustively
from tests.support.planning import H100, L40S, fleet, node, pool, request, tenant

EVERY_SOLVER = SOLVERS | {"exhaustive": solve_exhaustively, "fleetwide": highs.fleetwide()}


@pytest.fixture(params=EVERY_SOLVER)
def solver(request: pytest.FixtureRequest) -> Solver:
    return EVERY_SOLVER[request.param]


def placed(decision: Decision) -> dict[str, tuple[PoolState, int]]:
    return {pool.gpu_type: (pool.state, pool.replicas) for pool in decision.pools}


def test_a_new_deployment_gets_its_replicas(solver: Solver) -> None:
    [decision] = plan([tenant(request(replicas=2))], fleet(node("l", L40S, 4), node("h", H100, 4)), solver=solver)
    assert placed(decision) == {L40S: (PoolState.ACTIVE, 2)}
    assert decision.missing == 0


def test_what_runs_is_kept_although_a_cheaper_place_is_free(solver: Solver) -> None:
    runs = tenant(request(), pool(H100))
    [decision] = plan([runs], fleet(node("l", L40S, 4), node("h", H100, 4, held=1)), solver=solver)
    assert placed(decision) == {H100: (PoolState.ACTIVE, 1)}


def test_an_outdated_pool_retires_and_serves_until_the_new_one_does(solver: Solver) -> None:
    changed = request(constraints=GpuConstraints(deny=(H100,)))
    runs = Tenant(changed, 2, (pool(H100, generation=1),))
    [decision] = plan([runs], fleet(node("l", L40S, 4), node("h", H100, 4, held=1)), solver=solver)
    assert placed(decision) == {L40S: (PoolState.ACTIVE, 1), H100: (PoolState.RETIRING, 1)}


def test_a_change_without_a_place_leaves_the_old_pool_serving(solver: Solver) -> None:
    runs = Tenant(request(constraints=GpuConstraints(deny=(H100,))), 2, (pool(H100, generation=1),))
    [decision] = plan([runs], fleet(node("l", L40S, 4, held=4), node("h", H100, 4, held=1)), solver=solver)
    assert placed(decision) == {H100: (PoolState.ACTIVE, 1)}
    assert decision.change_blocked


def test_replicas_that_found_no_node_move_and_their_place_is_remembered(solver: Solver) -> None:
    stranded = tenant(request(), pool(L40S, bound=0, ready=0, stranded=1))
    [decision] = plan([stranded], fleet(node("l", L40S, 4, held=4), node("h", H100, 4)), solver=solver)
    assert placed(decision) == {H100: (PoolState.ACTIVE, 1)}
    assert [departure.place for departure in decision.departures] == [(L40S, Split(1))]


def test_no_solver_gives_more_than_there_is(solver: Solver) -> None:
    wanted = [tenant(request(name=name, created=name, replicas=2)) for name in "abc"]
    decisions = plan(wanted, fleet(node("l", L40S, 2), node("h", H100, 2)), solver=solver)
    given = sum(each.replicas * each.split.gpus for decision in decisions for each in decision.pools)
    assert given <= 4
    assert sum(decision.missing for decision in decisions) == 6 - given


def test_another_solver_decides_otherwise_where_the_order_of_demands_costs_a_replica() -> None:
    """The older deployment fits both kinds and takes the only GPU that the younger one could have."""
    older, younger = (
        request(name="older", created="1"),
        request(name="younger", created="2", constraints=GpuConstraints(allow=(L40S,))),
    )
    where = fleet(node("l", L40S, 1), node("h", H100, 1))
    in_order = plan([tenant(older), tenant(younger)], where, solver=SOLVERS["greedy"])
    at_once = plan([tenant(older), tenant(younger)], where, solver=solve_exhaustively)
    assert [decision.missing for decision in in_order] == [0, 1]
    assert [decision.missing for decision in at_once] == [0, 0]
    assert [placed(decision) for decision in at_once] == [
        {H100: (PoolState.ACTIVE, 1)},
        {L40S: (PoolState.ACTIVE, 1)},
    ]


def test_an_award_of_nothing_leaves_a_deployment_as_it_is_and_says_nothing() -> None:
    def give_nothing(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
        return (Award(demand, stock.ledger) for demand in demands)

    runs = tenant(request(replicas=2), pool(H100))
    [decision] = plan([runs], fleet(node("l", L40S, 4), node("h", H100, 4, held=1)), solver=give_nothing)
    assert placed(decision) == {H100: (PoolState.ACTIVE, 1)}
    assert (decision.missing, decision.placed_now, decision.change_blocked) == (1, False, False)
    assert (decision.rejections, decision.remedies, decision.departures) == ((), (), ())
    assert not decision.rehomings_spent


def test_of_deployments_that_are_divided_the_oldest_get_the_preferred_choices() -> None:
    """Three of two replicas each, with room for three, two and one replica of the choices."""
    choices = tuple(Choice((name, Split(1)), 1, 1.0, 0, ()) for name in ("first", "second", "third"))
    posed = Posed(Problem((Kind(choices, (2,), whole=False, spare=0, level=0),), (3,), ()), ((0, 1, 2),), ())
    share = Share(whole=(), mixed=((0, 3),), loose=((0, 3), (1, 2), (2, 1)), parts=())
    parts, _ = pack(Decided(posed, (share,), Appraisal("programme", 6.0, 6.0, 3)), Ledger.of(fleet(node("l", L40S, 0))))
    assert [(part.demand, part.place[0], part.replicas) for part in parts] == [
        (0, "first", 2),
        (1, "first", 1),
        (1, "second", 1),
        (2, "second", 1),
        (2, "third", 1),
    ]
