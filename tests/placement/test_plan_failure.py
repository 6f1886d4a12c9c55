"""An error that one deployment provokes stays with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.placement.demands import demand
from plimsoll.placement.demands.pools import Decision, Tenant
from plimsoll.placement.options import verdicts
from plimsoll.placement.options.feasibility import judge, judge_all
from plimsoll.placement.options.nodes import eligible_nodes
from plimsoll.placement.places.place import pick
from plimsoll.placement.plan import plan as plan_with
from plimsoll.placement.solvers import Fleetwide
from plimsoll.placement.transition import make_before_break
from tests.support.planning import H100, L40S, fleet, node, pool, request, tenant

POISON = "poison"


def plan(tenants: Sequence[Tenant], where: Fleet) -> tuple[Decision, ...]:
    """A plan by a new solver: one that has seen these deployments without an error would remember their places."""
    return plan_with(tenants, where, solver=Fleetwide())


@pytest.fixture(params=[ValueError("nonsense"), RecursionError("too deep"), UnsupportedModel("m", "a law")], ids=repr)
def error(request: pytest.FixtureRequest) -> Exception:
    thrown: Exception = request.param
    return thrown


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Exception:
    """Judging one deployment raises."""

    def throwing(judging: Callable[..., Any]) -> Callable[..., Any]:
        def throw(wanted: Any, *rest: Any) -> Any:
            if wanted.key.name == POISON:
                raise error
            return judging(wanted, *rest)

        return throw

    monkeypatch.setattr(demand, "judge", throwing(judge))
    monkeypatch.setattr(verdicts, "judge_all", throwing(judge_all))
    return error


def decide() -> dict[str, Decision]:
    kept = pool(L40S, bound=0, ready=0)
    bad, good = request(name=POISON, created="1"), request(name="honest", created="2", replicas=2)
    decisions = plan([tenant(bad, kept), tenant(good)], fleet(node("l", L40S, 2), node("h", H100, 1)))
    return {each.request.key.name: each for each in decisions}


def test_its_pools_stay_as_they_are_and_its_promises_too(poisoned: Exception) -> None:
    decisions = decide()
    failed, honest = decisions[POISON], decisions["honest"]
    assert [(each.gpu_type, each.replicas, each.choice) for each in failed.pools] == [(L40S, 1, None)]
    assert str(poisoned) in failed.failure
    assert failed.is_refusal is isinstance(poisoned, UnsupportedModel)
    assert honest.failure == ""
    assert {each.gpu_type: each.replicas for each in honest.pools} == {L40S: 1, H100: 1}


def test_type_and_message_tell_of_an_unexpected_error(poisoned: Exception) -> None:
    told = decide()[POISON].failure
    assert told == (
        str(poisoned) if isinstance(poisoned, UnsupportedModel) else f"{type(poisoned).__name__}: {poisoned}"
    )


def test_gpus_that_it_took_before_it_failed_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(wanted: Any, *_: Any) -> Any:
        if wanted.key.name == POISON:
            raise ZeroDivisionError
        return ()

    monkeypatch.setattr(make_before_break, "warnings_for", late)
    bad, good = request(name=POISON, created="1"), request(name="honest", created="2")
    failed, honest = plan([tenant(bad), tenant(good)], fleet(node("l", L40S, 1)))
    assert (failed.pools, failed.failure) == ((), "ZeroDivisionError: ")
    assert [each.replicas for each in honest.pools] == [1]


def test_an_error_while_promises_are_kept_costs_nobody_else_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def throw(wanted: Any, where: Any, kind: str) -> Any:
        if wanted.key.name == POISON:
            raise KeyError(kind)
        return eligible_nodes(wanted, where, kind)

    monkeypatch.setattr("plimsoll.placement.demands.promises.eligible_nodes", throw)
    decisions = decide()
    assert sum(each.replicas for each in decisions["honest"].pools) == 2


def test_an_error_while_a_place_is_searched_gives_its_gpus_to_those_after_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def throw(wanted: Any, *rest: Any) -> Any:
        if wanted.key.name == POISON:
            raise error
        return pick(wanted, *rest)

    monkeypatch.setattr("plimsoll.placement.solvers.turn.pick", throw)
    bad, good = request(name=POISON, created="1"), request(name="honest", created="2")
    failed, honest = plan([tenant(bad), tenant(good)], fleet(node("l", L40S, 1)))
    assert (failed.pools, failed.is_refusal) == ((), isinstance(error, UnsupportedModel))
    assert str(error) in failed.failure
    assert ([(each.gpu_type, each.replicas) for each in honest.pools], honest.failure) == ([(L40S, 1)], "")


def test_those_after_it_do_not_get_what_those_before_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(wanted: Any, *_: Any) -> Any:
        if wanted.key.name == POISON:
            raise ZeroDivisionError
        return ()

    monkeypatch.setattr(make_before_break, "warnings_for", late)
    names = ("first", POISON, "last", "very-last")
    wanted = [request(name=name, created=str(number)) for number, name in enumerate(names)]
    decisions = plan([tenant(each) for each in wanted], fleet(node("l", L40S, 2)))
    assert [each.request.key.name for each in decisions] == list(names)
    assert [sum(pool.replicas for pool in each.pools) for each in decisions] == [1, 0, 1, 0]
