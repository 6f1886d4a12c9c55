"""Our own law in the benchmark of rebalancing, and what holds for all policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.rebalance.policies.ours import Ours, bold, ours, ours_bold
from benchmarks.rebalance.policies.registry import POLICIES
from benchmarks.rebalance.policies.static import static
from benchmarks.rebalance.values import Policy, View
from plimsoll.adapters.readings import Reading
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, RebalancingSpec
from plimsoll.app.objects import Surroundings
from plimsoll.app.rebalancing import Standing, take_turn
from plimsoll.domain.outcomes import MemoryEstimate
from plimsoll.domain.serving import ServingShape
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.rebalance.decisions import AddReplica, DecisionReason, RemoveReplica
from plimsoll.rebalance.history import Ceiling, ChangeHistory
from plimsoll.rebalance.signals import EngineSample, PodSignals
from tests.benchmarks.rebalance_views import (
    NO_NUMBERS,
    NOW,
    SCENARIO,
    nan,
    near,
    pod,
    pods,
    stale,
    starting,
    view,
)
from tests.support.hypotheses import room_for_all


def ours_after(policy: Policy, look: View) -> tuple[int, DecisionReason]:
    assert isinstance(policy, Ours)
    wanted = policy(look)
    assert policy.turn is not None
    return wanted, policy.turn.decision.reason


def test_ours_decides_what_the_operator_decides_on_the_same_signals() -> None:
    """The input of the operator's own turn, made by hand and field by field."""
    engines = pod("a", kv=0.9, running=10), pod("b", kv=0.95, running=10)
    spec = InferenceDeploymentSpec.model_validate(
        {
            "model": {"name": "Qwen/Qwen3-32B"},
            "contextLength": 6250,
            "concurrency": 16,
            "replicas": 2,
            "rebalancing": {"mode": "Auto", "minReplicas": 1, "maxReplicas": 10},
        }
    )
    facts = tuple(
        PodFacts(
            each.name,
            bound=True,
            ready=True,
            ended=False,
            terminating=False,
            ready_since=0.0,
            startup_seconds=100.0,
        )
        for each in engines
    )
    read = {
        each.name: PodSignals(
            each.name,
            tuple(
                EngineSample(
                    one.at,
                    one.kv_usage,
                    one.waiting,
                    one.running,
                    one.preemptions_total,
                    100_000,
                    one.prompt_tokens_total,
                    one.generation_tokens_total,
                )
                for one in each.samples
            ),
        )
        for each in engines
    }
    expected = take_turn(
        spec,
        Standing(2, 2, ChangeHistory()),
        MemoryEstimate((), 0, 0, 100, 100, 1, kv_needed_tokens=0, kv_capacity_tokens=100_000),
        ServingShape(6250, 16),
        Surroundings({"p": facts}, {}),
        Reading(read),
        room_for_all(2),
        now=NOW,
    )
    policy = ours(SCENARIO)
    assert isinstance(policy, Ours)
    assert policy(view(*engines)) == 3
    assert policy.turn is not None

    assert isinstance(expected.decision, AddReplica)
    assert policy.turn.decision == expected.decision
    assert policy.turn.standing == expected.standing
    assert policy.standing.history.changes == (NOW,)
    assert policy.standing.history.ceiling == Ceiling(NOW, near(2000), near(1000))


def test_ours_removes_in_slack_and_waits_where_it_may_not() -> None:
    assert ours_after(ours(SCENARIO), view(*pods(2, kv=0.1))) == (1, DecisionReason.SUSTAINED_SLACK)
    assert ours_after(ours(SCENARIO), view(*pods(2, kv=0.5))) == (2, DecisionReason.WITHIN_BAND)
    full = pods(2, kv=0.9, running=10)
    assert ours_after(ours(SCENARIO), view(*full, has_metrics=False)) == (2, DecisionReason.METRICS_UNAVAILABLE)
    assert ours_after(ours(SCENARIO), view(pod(kv=0.1), stale())) == (2, DecisionReason.METRICS_STALE)
    assert ours_after(ours(SCENARIO), view(pod(kv=0.1), nan())) == (2, DecisionReason.METRICS_INVALID)
    assert ours_after(ours(SCENARIO), view(pod(kv=0.9), starting())) == (2, DecisionReason.REPLICAS_STARTING)


def test_ours_keeps_its_history_between_turns() -> None:
    policy, eager = ours(SCENARIO), ours_bold(SCENARIO)

    def full(count: int, now: float) -> View:
        return view(*pods(count, now=now, kv=0.95, running=10), now=now)

    for each in (policy, eager):
        assert ours_after(each, full(2, NOW)) == (3, DecisionReason.SUSTAINED_KV_PRESSURE)
    assert ours_after(policy, full(3, NOW + 150)) == (3, DecisionReason.COOLING_DOWN)
    assert ours_after(eager, full(3, NOW + 150)) == (4, DecisionReason.SUSTAINED_KV_PRESSURE)
    assert ours_after(policy, full(3, NOW + 300)) == (4, DecisionReason.SUSTAINED_KV_PRESSURE)


def test_the_bold_bounds_are_those_of_the_api() -> None:
    """One change more or one second less is refused."""
    limits = {"mode": "Auto", "maxReplicas": 10}
    boldest = bold(15)

    assert RebalancingSpec.model_validate({**limits, **boldest}).window_seconds == 32
    assert bold(1)["windowSeconds"] == 5
    for name, more in (("changesPerHour", 121), ("cooldownSeconds", 4), ("windowSeconds", 4)):
        with pytest.raises(ValueError, match=name):
            RebalancingSpec.model_validate({**limits, **boldest, name: more})


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
        wanted = max(1, min(policy(replace(look(now), wanted=wanted)), 10))
        given.append(wanted)
        now += policy.tick_seconds
    return given


@pytest.mark.parametrize("name", LAWS)
def test_no_law_adds_to_idle_replicas(name: str) -> None:
    given = answers(name, lambda now: view(*pods(2, now=now, kv=0.0, running=0, per_second=0.0), now=now))
    assert max(given) <= 2


@pytest.mark.parametrize("name", sorted(set(LAWS) - {"dynamo-sla"}))
def test_every_law_adds_to_replicas_that_overflow(name: str) -> None:
    """All but one, which needs to see several loads before it has a model."""
    given = answers(name, lambda now: view(*pods(2, now=now, kv=0.97, running=60, waiting=90), now=now))
    assert min(given) >= 2
    assert max(given) > 2


@pytest.mark.parametrize("name", LAWS)
def test_no_law_changes_anything_in_an_outage(name: str) -> None:
    given = answers(name, lambda now: view(*pods(2, now=now, kv=0.97, waiting=90), now=now, has_metrics=False))
    assert set(given) == {2}


@pytest.mark.parametrize("name", LAWS)
def test_every_law_survives_numbers_that_are_none(name: str) -> None:
    def spoiled(now: float) -> View:
        engines = pods(2, now=now)
        first = replace(engines[0], samples=tuple(replace(each, **NO_NUMBERS) for each in engines[0].samples))
        return view(first, engines[1], now=now)

    given = answers(name, spoiled)
    assert all(1 <= count <= 3 for count in given)


@pytest.mark.parametrize("name", LAWS)
def test_every_run_has_a_policy_of_its_own(name: str) -> None:
    first, second = POLICIES[name](SCENARIO), POLICIES[name](SCENARIO)
    assert first is not second
    assert 1 <= first.tick_seconds <= 60


def test_ours_removes_by_the_operators_decision() -> None:
    policy = ours(SCENARIO)
    assert isinstance(policy, Ours)
    policy(view(*pods(2, kv=0.1)))

    assert policy.turn is not None
    assert isinstance(policy.turn.decision, RemoveReplica)
