"""What holds for every load, history and policy."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.rebalance.decide import decide
from plimsoll.rebalance.decisions import AddReplica, DecisionReason, LoopDecision, Move, RemoveReplica
from plimsoll.rebalance.history import Ceiling, ChangeHistory
from plimsoll.rebalance.load import summarize
from plimsoll.rebalance.policy import Mode, RebalancePolicy
from plimsoll.rebalance.signals import EngineSample, PodSignals, SignalState
from plimsoll.rebalance.situation import DeclaredNeed, PlacementState, Situation
from plimsoll.rebalance.why import sentence
from tests.support.hypotheses import room_for_all

NOW = 1_700_000_000.0
PODS = ("a", "b", "c")
NEED = DeclaredNeed(kv_tokens=500, bytes_per_gpu=60)

numbers = st.one_of(
    st.none(),
    st.sampled_from([0.0, 0.1, 0.5, 0.99, 1.0, 1.7, 85.0, -1.0, math.nan, math.inf, 1e308]),
    st.floats(0, 1),
    st.integers(0, 500).map(float),
)
samples = st.builds(
    EngineSample,
    at=st.one_of(st.floats(NOW - 700, NOW + 20), st.just(math.nan)),
    kv_usage=numbers,
    waiting=numbers,
    running=numbers,
    preemptions_total=numbers,
    kv_capacity_tokens=st.one_of(st.none(), st.integers(-1, 5000)),
    prompt_tokens_total=numbers,
    generation_tokens_total=numbers,
)


@st.composite
def plausible_pods(draw: st.DrawFn) -> list[PodSignals]:
    """Pods with whole windows of plausible numbers, so that the load is often decided by."""
    pods = []
    for pod in PODS[: draw(st.integers(1, 3))]:
        low = draw(st.floats(0, 1))
        usage = st.floats(low, 1)
        waiting = draw(st.sampled_from([0.0, 0.0, 3.0, 30.0]))
        age = draw(st.sampled_from([0, 0, 0, 50, 70]))
        pods.append(
            PodSignals(
                pod,
                tuple(
                    EngineSample(NOW - at, draw(usage), waiting, 4.0, 0.0, 1000, 100_000.0 - at, 100_000.0 - at)
                    for at in range(age, 300, 50)
                ),
            )
        )
    return pods


arbitrary_pods = st.lists(
    st.builds(PodSignals, st.sampled_from(PODS), st.lists(samples, max_size=8).map(tuple)), max_size=4
)
all_pods = st.one_of(arbitrary_pods, plausible_pods())
policies = st.builds(
    RebalancePolicy,
    mode=st.sampled_from([Mode.RECOMMEND, Mode.AUTO]),
    min_replicas=st.integers(1, 2),
    max_replicas=st.integers(2, 4),
    low_percent=st.integers(1, 60),
    high_percent=st.integers(61, 100),
    changes_per_hour=st.integers(0, 5),
    cooldown_seconds=st.integers(0, 900),
)
histories = st.builds(
    ChangeHistory,
    st.lists(st.floats(NOW - 8000, NOW + 100), max_size=6).map(tuple),
    st.one_of(st.none(), st.builds(Ceiling, st.floats(NOW - 90_000, NOW), st.floats(0, 100), st.floats(0, 100))),
)


def decided(
    pods: list[PodSignals], replicas: int, ready: int, history: ChangeHistory, policy: RebalancePolicy
) -> LoopDecision:
    load = summarize(pods, PODS[:ready], NOW, policy, request_tokens=100)
    placement = PlacementState(replicas, ready, kv_capacity_tokens=1000, budget_bytes_per_gpu=80, startup_seconds=90.0)
    return decide(Situation(NEED, placement, load, history, NOW, policy), room_for_all(replicas)).decision


@settings(max_examples=300, deadline=None)
@given(all_pods, st.integers(1, 4), st.integers(0, 3), histories, policies)
def test_every_decision_is_within_bounds_repeatable_and_can_be_told(
    pods: list[PodSignals], replicas: int, ready: int, history: ChangeHistory, policy: RebalancePolicy
) -> None:
    ready = min(ready, replicas)
    decision = decided(pods, replicas, ready, history, policy)

    assert decision == decided(pods, replicas, ready, history, policy)
    if isinstance(decision, AddReplica):
        assert replicas + 1 <= policy.max_replicas
    if isinstance(decision, RemoveReplica):
        assert replicas - 1 >= policy.min_replicas
    if isinstance(decision, AddReplica | RemoveReplica | Move):
        since = history.seconds_since_last(NOW)
        assert since is None or since >= policy.effective_cooldown_seconds(90.0)
        assert history.within_last_hour(NOW) < policy.changes_per_hour
    assert "{" not in sentence(decision)


@settings(max_examples=200, deadline=None)
@given(plausible_pods(), st.integers(1, 3), policies, st.randoms(use_true_random=False))
def test_the_order_in_which_things_were_read_does_not_matter(
    pods: list[PodSignals], ready: int, policy: RebalancePolicy, dice: Random
) -> None:
    shuffled = [replace(pod, samples=tuple(reversed(pod.samples))) for pod in pods]
    dice.shuffle(shuffled)
    history = ChangeHistory()

    assert decided(pods, ready, ready, history, policy) == decided(shuffled, ready, ready, history, policy)


@settings(max_examples=200, deadline=None)
@given(all_pods, st.integers(1, 3), policies, st.floats(61, 1000))
def test_nothing_is_done_on_stale_data(
    pods: list[PodSignals], ready: int, policy: RebalancePolicy, too_old: float
) -> None:
    newest = max((s.at for pod in pods for s in pod.samples if math.isfinite(s.at)), default=NOW)
    shift = newest - (NOW - too_old)
    old = [replace(pod, samples=tuple(replace(s, at=s.at - shift) for s in pod.samples)) for pod in pods]

    within = replace(policy, min_replicas=1, max_replicas=4)
    decision = decided(old, ready, ready, ChangeHistory(), within)

    assert not isinstance(decision, AddReplica | RemoveReplica | Move)


@settings(max_examples=200, deadline=None)
@given(plausible_pods(), st.integers(1, 3), policies)
def test_no_replica_is_removed_while_a_pod_is_unknown(
    pods: list[PodSignals], ready: int, policy: RebalancePolicy
) -> None:
    load = summarize(pods, PODS[:ready], NOW, policy, request_tokens=100)
    decision = decided(pods, ready, ready, ChangeHistory(), policy)

    if load.state is not SignalState.FRESH and decision.reason is not DecisionReason.ABOVE_MAX_REPLICAS:
        assert not isinstance(decision, RemoveReplica)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 4000), st.integers(1, 3), policies)
def test_a_load_that_adds_a_replica_never_takes_it_back(demand: int, replicas: int, policy: RebalancePolicy) -> None:
    open_policy = replace(policy, min_replicas=1, max_replicas=4, changes_per_hour=4, cooldown_seconds=0)

    def at(count: int) -> LoopDecision:
        pods = tuple("abcd"[:count])
        used = min(demand / count / 1000, 1.0)
        waiting = float(math.ceil(max(0.0, demand / count - 1000) / 100))
        window = tuple(EngineSample(NOW - age, used, waiting, used * 10, 0.0, 1000) for age in range(0, 300, 30))
        load = summarize([PodSignals(p, window) for p in pods], pods, NOW, open_policy, request_tokens=100)
        placement = PlacementState(count, count, kv_capacity_tokens=1000, budget_bytes_per_gpu=80)
        situation = Situation(NEED, placement, load, ChangeHistory(), NOW, open_policy)
        return decide(situation, room_for_all(count)).decision

    assert not (isinstance(at(replicas), AddReplica) and isinstance(at(replicas + 1), RemoveReplica))
