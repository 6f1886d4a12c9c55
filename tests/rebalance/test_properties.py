"""Properties that hold for every load, every history and every policy, whatever happens in whatever order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.rebalance.decide import LoopResult, decide, kind_of
from plimsoll.rebalance.guard import BOUND_REASONS
from plimsoll.rebalance.law.capacity import times_of
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals, PodState, SignalState
from plimsoll.rebalance.signals.traffic import Lengths, Rate, Traffic
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, LoopDecision, Move, RemoveReplica, Retune
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from plimsoll.rebalance.state.situation import DeclaredNeed, Situation
from plimsoll.rebalance.why import sentence
from tests.support.engine_loads import KV_TOKENS, LONG_AGO, NOW, Serves, moments, pod, replica_model, summary
from tests.support.hypotheses import room_for_all
from tests.support.live_situations import NEED, enough_for, placed
from tests.support.tables import examples

HOUR_SECONDS = 3600.0
REVERSAL_SECONDS = 1800.0

PODS = ("a", "b", "c")
CHANGES = AddReplica | RemoveReplica | Move | Retune

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
    finished_total=numbers,
    finished_output_tokens_total=numbers,
    first_tokens_total=numbers,
    token_gap_seconds_total=numbers,
    token_gaps_total=numbers,
)


@st.composite
def plausible_pods(draw: st.DrawFn) -> list[PodSignals]:
    """Pods with plausible numbers, so that the load often decides."""
    found = []
    for name in PODS[: draw(st.integers(1, 3))]:
        load = Serves(
            rate=draw(st.sampled_from([0.0, 1.0, 10.0, 50.0])),
            prompt=draw(st.sampled_from([10.0, 1000.0, 8000.0])),
            output=draw(st.sampled_from([2.0, 200.0])),
            waiting=draw(st.sampled_from([0.0, 0.0, 3.0, 300.0])),
            kv_usage=draw(st.sampled_from([0.0, 0.1, 0.9, 1.0])),
        )
        found.append(pod(name, load, moments(300, phase=draw(st.sampled_from([0, 0, 0, 50, 70])))))
    return found


arbitrary_pods = st.lists(
    st.builds(PodSignals, st.sampled_from(PODS), st.lists(samples, max_size=8).map(tuple)), max_size=4
)
all_pods = st.one_of(arbitrary_pods, plausible_pods())
policies = st.builds(
    RebalancePolicy,
    mode=st.sampled_from([Mode.RECOMMEND, Mode.AUTO]),
    min_replicas=st.integers(1, 2),
    max_replicas=st.integers(2, 6),
    changes_per_hour=st.integers(0, 5),
    reversals_per_hour=st.integers(0, 2),
    cooldown_seconds=st.sampled_from([0, 10, 60, 600]),
)
marks = st.builds(ChangeRecord, st.floats(NOW - 8000, NOW + 100), st.sampled_from(ChangeKind))
histories = st.builds(
    ChangeHistory, st.lists(marks, max_size=6).map(lambda found: tuple(sorted(found, key=lambda mark: mark.at)))
)
models = st.sampled_from([None, replica_model(), replica_model(max_sequences=8)])
memories = st.sampled_from([LoopMemory(), enough_for(1, 1500), enough_for(2, 1500)])


def decided(
    pods: list[PodSignals],
    replicas: int,
    ready: int,
    history: ChangeHistory,
    policy: RebalancePolicy,
    memory: LoopMemory | None = None,
    model: Any = None,
) -> LoopDecision:
    names = PODS[:ready]
    load = summary(*pods, expected=names, ready_since={name: LONG_AGO for name in names if name != "c"})
    placement = placed(replicas, ready=ready, model=model)
    situation = Situation(DeclaredNeed(0, 60), placement, load, history, NOW, policy, memory or LoopMemory())
    return decide(situation, room_for_all(replicas)).decision


@settings(max_examples=examples(150), deadline=None)
@given(all_pods, st.integers(1, 7), st.integers(0, 3), histories, policies, memories, models)
def test_every_decision_is_within_bounds_repeatable_and_can_be_said(
    pods: list[PodSignals],
    replicas: int,
    ready: int,
    history: ChangeHistory,
    policy: RebalancePolicy,
    memory: LoopMemory,
    model: Any,
) -> None:
    facts = pods, replicas, min(ready, replicas), history, policy, memory, model
    decision = decided(*facts)
    assert decision == decided(*facts)
    if isinstance(decision, AddReplica):
        assert decision.count >= 1
        assert replicas + decision.count <= policy.max_replicas
    if isinstance(decision, RemoveReplica):
        assert decision.count >= 1
        assert replicas - decision.count >= policy.min_replicas
    if isinstance(decision, RemoveReplica | Move | Retune) and decision.reason not in BOUND_REASONS:
        assert history.budget_spent(NOW) < policy.changes_per_hour
    assert "{" not in sentence(decision)


@settings(max_examples=examples(80), deadline=None)
@given(plausible_pods(), st.integers(1, 3), policies, models, st.randoms(use_true_random=False))
def test_the_order_in_which_samples_were_read_does_not_matter(
    pods: list[PodSignals], ready: int, policy: RebalancePolicy, model: Any, dice: Random
) -> None:
    shuffled = [replace(each, samples=tuple(dice.sample(each.samples, len(each.samples)))) for each in pods]
    dice.shuffle(shuffled)
    first, second = (decided(found, ready, ready, ChangeHistory(), policy, None, model) for found in (pods, shuffled))
    assert first == second


@settings(max_examples=examples(150), deadline=None)
@given(all_pods, st.integers(1, 3), policies, memories, models, st.floats(200, 2000))
def test_nothing_is_done_on_stale_data(
    pods: list[PodSignals], ready: int, policy: RebalancePolicy, memory: LoopMemory, model: Any, too_old: float
) -> None:
    newest = max((s.at for each in pods for s in each.samples if math.isfinite(s.at)), default=NOW)
    shift = newest - (NOW - too_old)
    old = [replace(each, samples=tuple(replace(s, at=s.at - shift) for s in each.samples)) for each in pods]
    scraped_often = [replace(each, samples=each.samples[-2:]) for each in old]
    within = replace(policy, min_replicas=1, max_replicas=6)
    for found in (old, scraped_often):
        gaps = [b.at - a.at for each in found for a, b in pairwise(each.samples)]
        if not all(0 <= gap <= 60 for gap in gaps):
            continue
        decision = decided(found, ready, ready, ChangeHistory(), within, memory, model)
        assert not isinstance(decision, CHANGES)


@settings(max_examples=examples(80), deadline=None)
@given(plausible_pods(), st.integers(1, 3), policies, memories, models)
def test_no_replica_is_removed_while_a_pod_is_unknown(
    pods: list[PodSignals], ready: int, policy: RebalancePolicy, memory: LoopMemory, model: Any
) -> None:
    load = summary(*pods, expected=PODS[:ready])
    decision = decided(pods, ready, ready, ChangeHistory(), policy, memory, model)
    if load.state is not SignalState.FRESH and decision.reason is not DecisionReason.ABOVE_MAX_REPLICAS:
        assert not isinstance(decision, RemoveReplica)


# -- sequences of turns ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One turn, so many seconds after the last one.

    ``rate`` are the requests a second; None: Prometheus is away. ``unknown`` ready pods report nothing. ``restarts``
    means that the operator has just begun: what it remembered is lost, and the status is kept. ``kv_tokens`` is the KV
    cache that each engine reports.
    """

    seconds: int
    rate: float | None
    waiting: float
    unknown: int
    starting: int
    restarts: bool
    kv_tokens: int = KV_TOKENS


steps = st.builds(
    Step,
    seconds=st.sampled_from([5, 5, 5, 20, 55, 60, 300, 900, 1790, 1800, 1810]),
    rate=st.sampled_from([0.0, 0.0, 30.0, 70.0, 200.0, None]),
    waiting=st.sampled_from([0.0, 0.0, 50.0, 1000.0]),
    unknown=st.sampled_from([0, 0, 0, 1]),
    starting=st.sampled_from([0, 0, 1]),
    restarts=st.booleans(),
    kv_tokens=st.sampled_from([*9 * (KV_TOKENS,), KV_TOKENS // 4]),
)


FIRST_SEQUENCES = 16
"""The limit of requests at the same time in a new place: too low for the busiest of these loads."""

LENGTHS = Lengths(1000, 200, 0, 1100)
TOKEN_SECONDS = times_of(replica_model(), LENGTHS, 8).token
"""As the model says, so that no speed is learned on the way."""


def load_in(step: Step, ready: int) -> LoadSummary:
    names = [f"p{index}" for index in range(ready)]
    if step.rate is None:
        return LoadSummary(SignalState.UNAVAILABLE, tuple(PodState(name, SignalState.UNAVAILABLE) for name in names))
    known = max(0, ready - step.unknown)
    states = tuple(
        PodState(name, SignalState.FRESH if index < known else SignalState.MISSING) for index, name in enumerate(names)
    )
    if not known:
        return LoadSummary(SignalState.MISSING, states)
    rates = Rate(step.rate, 120.0), Rate(step.rate, 60.0), Rate(step.rate, 30.0), Rate(step.rate, 15.0)
    held = step.waiting, 8.0 * known, 0.1 * KV_TOKENS
    seen = Traffic(known, *rates, LENGTHS, *held, 0.2, TOKEN_SECONDS, 0.0, None, (), 0.0)
    state = SignalState.FRESH if known == ready else SignalState.MISSING
    return LoadSummary(state, states, seen, known * step.kv_tokens, step.kv_tokens, 15.0)


@dataclass
class Deployment:
    """A deployment whose turns are carried out at once. ``sequences`` is the engines' limit of requests at a time."""

    policy: RebalancePolicy
    replicas: int
    now: float = NOW
    sequences: int = FIRST_SEQUENCES
    moving: bool = False
    history: ChangeHistory = field(default_factory=ChangeHistory)
    memory: LoopMemory = field(default_factory=LoopMemory)

    def turn(self, step: Step) -> LoopResult:
        """Take one turn, and carry out what it decides."""
        self.now += step.seconds
        if step.restarts:
            self.memory = LoopMemory.of(self.memory.learned)
        ready = max(0, self.replicas - step.starting)
        self.moving = self.moving and step.starting > 0
        model = replica_model(max_sequences=self.sequences)
        placement = placed(self.replicas, ready=ready, model=model, settled_since=self.now - 300, moving=self.moving)
        where = Situation(NEED, placement, load_in(step, ready), self.history, self.now, self.policy, self.memory)
        found = decide(where, room_for_all(self.replicas))
        self.memory = found.memory
        if isinstance(found.decision, CHANGES):
            self.history = self.history.recorded(
                ChangeRecord(self.now, kind_of(found.decision), found.decision.reason.value)
            )
        if isinstance(found.decision, AddReplica):
            self.replicas += found.decision.count
        if isinstance(found.decision, RemoveReplica):
            self.replicas -= found.decision.count
        if isinstance(found.decision, Retune):
            self.sequences = found.decision.limits.sequences
        if isinstance(found.decision, Move):
            self.sequences, self.moving = FIRST_SEQUENCES, True
        return found


def most_in_an_hour(times: list[float]) -> int:
    return max((sum(start <= at < start + HOUR_SECONDS for at in times) for start in times), default=0)


@settings(max_examples=examples(150), deadline=None)
@given(policies, st.lists(steps, min_size=5, max_size=60))
def test_no_sequence_of_turns_breaks_a_bound(policy: RebalancePolicy, taken: list[Step]) -> None:
    """Whatever the signals say, in whatever order, and however often the operator restarts."""
    policy = replace(policy, mode=Mode.AUTO)
    one = Deployment(policy, policy.min_replicas)
    made: list[tuple[float, LoopDecision]] = []
    for step in taken:
        decision = one.turn(step).decision
        assert policy.min_replicas <= one.replicas <= policy.max_replicas
        if isinstance(decision, CHANGES):
            assert step.rate is not None, "no change while metrics are unavailable"
            made.append((one.now, decision))
    scales = [(at, each) for at, each in made if isinstance(each, AddReplica | RemoveReplica)]
    reversals = [
        later
        for (earlier, before), (later, after) in pairwise(scales)
        if isinstance(before, RemoveReplica) and isinstance(after, AddReplica) and later - earlier <= REVERSAL_SECONDS
    ]
    others = [at for at, each in made if not isinstance(each, AddReplica)]
    assert most_in_an_hour(reversals) <= policy.reversals_per_hour
    assert most_in_an_hour(others) <= policy.changes_per_hour
    moved = [at for at, each in made if isinstance(each, Move | Retune)]
    assert all(later - earlier >= policy.cooldown_seconds for earlier, later in pairwise(moved))


def test_sequences_of_turns_do_add_and_remove() -> None:
    """The neighbour of the test above: its turns change something."""
    one = Deployment(RebalancePolicy(Mode.AUTO, 1, 6, reversals_per_hour=2, cooldown_seconds=10), 1)
    busy, idle = (Step(60, rate, 0.0, 0, 0, restarts=False) for rate in (70.0, 0.0))
    found = [type(one.turn(step).decision) for step in 4 * (busy, *3 * (idle,))]
    assert AddReplica in found
    assert RemoveReplica in found


def test_sequences_of_turns_do_move_and_retune_and_a_restart_repeats_neither() -> None:
    """The other neighbour. A place that is too small each time is left once in a cool-down, also after a retune."""
    policy = RebalancePolicy(Mode.AUTO, 1, 6, changes_per_hour=6, cooldown_seconds=600)
    busy, outgrown = (Step(60, 70.0, 0.0, 0, 0, restarts=True, kv_tokens=tokens) for tokens in (KV_TOKENS, 1000))
    one = Deployment(policy, 1)
    assert [type(one.turn(busy).decision) for _ in range(3)].count(Retune) == 1
    assert one.sequences > FIRST_SEQUENCES
    found = [type(one.turn(outgrown).decision) for _ in range(20)]
    assert [index for index, each in enumerate(found) if each is Move] == [7, 17]


@settings(max_examples=examples(100), deadline=None)
@given(st.floats(0, 100), st.integers(1, 4))
def test_a_load_that_adds_replicas_does_not_take_them_back(rate: float, replicas: int) -> None:
    policy = RebalancePolicy(Mode.AUTO, 1, 40, cooldown_seconds=0)
    one = Deployment(policy, replicas)
    step = Step(300, rate, 0.0, 0, 0, restarts=False)
    found = [one.turn(step).decision for _ in range(8)]
    kinds = [type(each) for each in found if isinstance(each, AddReplica | RemoveReplica)]
    assert not ({AddReplica, RemoveReplica} <= set(kinds)), kinds
