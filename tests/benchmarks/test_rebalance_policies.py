"""Our own law in the benchmark of rebalancing, and what holds for all policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks.rebalance.policies.ours import Ours, ours, reading_of, running_of, surroundings_of
from benchmarks.rebalance.policies.registry import POLICIES
from plimsoll.api.v1alpha1 import RebalancingSpec
from plimsoll.decision.turns import Standing, take_turn
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind
from plimsoll.simulation.peers.static import static
from plimsoll.simulation.peers.view import Policy, View
from tests.benchmarks.rebalance_views import (
    NO_NUMBERS,
    NOW,
    SCENARIO,
    nan,
    pod,
    pods,
    stale,
    starting,
    view,
    wanted_by,
)
from tests.support.hypotheses import room_for_all
from tests.support.tables import every_case


def ours_after(policy: Policy, look: View) -> tuple[int, DecisionReason]:
    assert isinstance(policy, Ours)
    wanted = wanted_by(policy, look)
    assert policy.turn is not None
    return wanted, policy.turn.decision.reason


def test_ours_decides_what_the_operator_decides_on_the_same_signals() -> None:
    """The operator's own turn on the same view."""
    engines = pod("a", kv=0.99, running=60), pod("b", kv=0.99, running=60)
    look = view(*engines)
    policy = ours(SCENARIO)
    assert isinstance(policy, Ours)
    expected = take_turn(
        policy.spec,
        Standing(2, 2, ChangeHistory()),
        running_of(look),
        surroundings_of(look),
        reading_of(look),
        room_for_all(2),
        now=NOW,
    )
    assert wanted_by(policy, look) > 2
    assert policy.turn is not None
    assert isinstance(expected.decision, AddReplica)
    assert policy.turn.decision == expected.decision
    assert policy.turn.standing == expected.standing
    assert [(mark.at, mark.kind) for mark in policy.standing.history.changes] == [(NOW, ChangeKind.ADD)]


def test_ours_waits_where_it_may_not_change_anything() -> None:
    assert ours_after(ours(SCENARIO), view(*pods(2, kv=0.3, running=20))) == (2, DecisionReason.WITHIN_BAND)
    full = pods(2, kv=0.99, running=60)
    assert ours_after(ours(SCENARIO), view(*full, has_metrics=False)) == (2, DecisionReason.METRICS_UNAVAILABLE)
    assert ours_after(ours(SCENARIO), view(pod(kv=0.1), stale())) == (2, DecisionReason.METRICS_STALE)
    assert ours_after(ours(SCENARIO), view(pod(kv=0.1), nan())) == (2, DecisionReason.METRICS_INVALID)
    assert ours_after(ours(SCENARIO), view(pod(kv=0.1), starting())) == (2, DecisionReason.REPLICAS_STARTING)


def idle_turns(policy: Policy, seconds: float) -> list[int]:
    """The answers while nothing runs, every 5 s."""
    turns = [NOW + 5.0 * index for index in range(int(seconds // 5) + 1)]
    return [wanted_by(policy, view(*pods(2, now=now, kv=0.0, running=0, per_second=0.0), now=now)) for now in turns]


def test_ours_removes_by_the_operators_decision_after_the_time() -> None:
    policy = ours(SCENARIO)
    assert isinstance(policy, Ours)
    given = idle_turns(policy, policy.spec.rebalancing.cooldown_seconds + 15)
    assert (given[0], given[-1]) == (2, 1)
    assert [mark.kind for mark in policy.standing.history.changes] == [ChangeKind.REMOVE]


def test_ours_has_the_bounds_of_the_api_and_of_the_scenario() -> None:
    policy = ours(replace(SCENARIO, min_replicas=2, max_replicas=7))
    assert isinstance(policy, Ours)

    given, usual = policy.spec.rebalancing, RebalancingSpec()
    assert (given.min_replicas, given.max_replicas, policy.spec.replicas) == (2, 7, 2)
    assert (given.changes_per_hour, given.window_seconds, given.cooldown_seconds) == (
        usual.changes_per_hour,
        usual.window_seconds,
        usual.cooldown_seconds,
    )


FIXED = {"static-start", "static-peak"}
LAWS = sorted(POLICIES.keys() - FIXED)
OURS = ["ours", "ours-today"]
every_law = every_case("name", LAWS, most=0, always=OURS)
"""Those of peers are tried with the benchmark's own tests (make test-benchmarks)."""


def test_static_numbers() -> None:
    look = view(*pods(4, kv=0.9))

    assert POLICIES["static-start"](SCENARIO)(look) == 2
    assert POLICIES["static-peak"](SCENARIO)(look) == 10
    assert static(5)(SCENARIO)(look) == 5


def answers(name: str, look: Callable[[float], View]) -> list[int]:
    """The answers of a fresh policy in a quarter of an hour, at its own ticks. What it asks for is carried out."""
    policy = POLICIES[name](SCENARIO)
    given, wanted, now = [], 2, NOW
    while now < NOW + 900:
        wanted = max(1, min(wanted_by(policy, replace(look(now), wanted=wanted)), 10))
        given.append(wanted)
        now += policy.tick_seconds
    return given


@every_law
def test_no_law_adds_to_idle_replicas(name: str) -> None:
    given = answers(name, lambda now: view(*pods(2, now=now, kv=0.0, running=0, per_second=0.0), now=now))
    assert max(given) <= 2


@every_case("name", sorted(set(LAWS) - {"dynamo-sla"}), most=0, always=OURS)
def test_every_law_adds_to_replicas_that_overflow(name: str) -> None:
    """All but one, which needs to see several loads before it has a model."""
    given = answers(name, lambda now: view(*pods(2, now=now, kv=0.97, running=60, waiting=90), now=now))
    assert min(given) >= 2
    assert max(given) > 2


@every_law
def test_no_law_changes_anything_in_an_outage(name: str) -> None:
    given = answers(name, lambda now: view(*pods(2, now=now, kv=0.97, waiting=90), now=now, has_metrics=False))
    assert set(given) == {2}


@every_law
def test_every_law_survives_numbers_that_are_none(name: str) -> None:
    def spoiled(now: float) -> View:
        engines = pods(2, now=now, running=20)
        first = replace(engines[0], samples=tuple(replace(each, **NO_NUMBERS) for each in engines[0].samples))
        return view(first, engines[1], now=now)

    given = answers(name, spoiled)
    assert all(1 <= count <= 3 for count in given)


@every_law
def test_every_run_has_a_policy_of_its_own(name: str) -> None:
    first, second = POLICIES[name](SCENARIO), POLICIES[name](SCENARIO)
    assert first is not second
    assert 1 <= first.tick_seconds <= 60
