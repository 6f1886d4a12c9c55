from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from plimsoll.domain.errors import InvalidInput
from plimsoll.rebalance.decide import ceiling_of, decide
from plimsoll.rebalance.decisions import AddReplica, DecisionReason, Keep, LoopDecision, Move, RemoveReplica, Wait
from plimsoll.rebalance.history import Ceiling, ChangeHistory
from plimsoll.rebalance.policy import Mode, RebalancePolicy
from plimsoll.rebalance.signals import LoadSummary, PodState, SignalState
from plimsoll.rebalance.situation import DeclaredNeed, PlacementState, Situation
from tests.support.hypotheses import room_for_all

NOW = 1_700_000_000.0
POLICY = RebalancePolicy(min_replicas=1, max_replicas=4, changes_per_hour=4, window_seconds=300, cooldown_seconds=600)
NEED = DeclaredNeed(kv_tokens=500, bytes_per_gpu=60)
TWO = PlacementState(replicas=2, ready=2, kv_capacity_tokens=1000, budget_bytes_per_gpu=80)
LOAD = LoadSummary(
    SignalState.FRESH,
    (PodState("a", SignalState.FRESH, 1.0), PodState("b", SignalState.FRESH, 2.0)),
    window_seconds=300,
    oldest_age_seconds=2.0,
    demanded_sustained_tokens=1200,
    demanded_peak_tokens=1300,
    held_tokens=2000,
    largest_capacity_tokens=1000,
    smallest_capacity_tokens=1000,
    preemptions=0,
    prompt_tokens_per_second=10.0,
    generation_tokens_per_second=10.0,
)
PRESSED = replace(LOAD, demanded_sustained_tokens=1600, demanded_peak_tokens=1900)
SLACK = replace(LOAD, demanded_sustained_tokens=100, demanded_peak_tokens=500)
HALF_KNOWN = (PodState("a", SignalState.FRESH, 1.0), PodState("b", SignalState.MISSING))


def decided(
    load: LoadSummary = LOAD,
    *,
    need: DeclaredNeed = NEED,
    placement: PlacementState = TWO,
    history: ChangeHistory | None = None,
    policy: RebalancePolicy = POLICY,
) -> LoopDecision:
    situation = Situation(need, placement, load, history or ChangeHistory(), NOW, policy)
    return decide(situation, room_for_all(placement.replicas)).decision


def said(decision: LoopDecision) -> tuple[type[LoopDecision], DecisionReason]:
    return type(decision), decision.reason


def test_off_means_off() -> None:
    assert said(decided(PRESSED, policy=replace(POLICY, mode=Mode.OFF))) == (Keep, DecisionReason.MODE_OFF)


def test_within_the_band_nothing_changes() -> None:
    assert said(decided()) == (Keep, DecisionReason.WITHIN_BAND)


def test_the_bound_itself_is_pressure_and_one_token_less_is_not() -> None:
    assert said(decided(PRESSED)) == (AddReplica, DecisionReason.SUSTAINED_KV_PRESSURE)
    assert said(decided(replace(PRESSED, demanded_sustained_tokens=1599))) == (Keep, DecisionReason.WITHIN_BAND)


def test_a_queue_that_never_empties_is_pressure_whatever_the_kv_cache_says() -> None:
    assert said(decided(replace(LOAD, waiting_sustained=10))) == (AddReplica, DecisionReason.SUSTAINED_QUEUE)
    assert said(decided(replace(LOAD, waiting_sustained=9, waiting_peak=50))) == (Keep, DecisionReason.WITHIN_BAND)


def test_slack_is_judged_at_the_replicas_that_would_remain() -> None:
    decision = decided(SLACK)

    assert said(decision) == (RemoveReplica, DecisionReason.SUSTAINED_SLACK)
    assert (decision.number("held_tokens"), decision.number("pressure_percent")) == (1000, 50)
    assert said(decided(replace(SLACK, demanded_peak_tokens=501))) == (Keep, DecisionReason.WITHIN_BAND)


@pytest.mark.parametrize(
    "load", [replace(SLACK, waiting_peak=1), replace(SLACK, preemptions=1), replace(SLACK, preemptions=None)]
)
def test_whoever_waited_or_was_preempted_forbids_removing(load: LoadSummary) -> None:
    assert isinstance(decided(load), Keep)


def test_the_largest_replica_is_the_one_whose_loss_is_assumed() -> None:
    assert isinstance(decided(replace(SLACK, largest_capacity_tokens=1500, demanded_peak_tokens=251)), Keep)


def test_near_the_traffic_that_last_needed_a_replica_none_is_removed() -> None:
    learned = ChangeHistory((NOW - 4000,), Ceiling(NOW - 4000, 15.0, 15.0))

    assert said(decided(SLACK, history=learned)) == (Keep, DecisionReason.THROUGHPUT_NEEDED)
    assert isinstance(decided(replace(SLACK, prompt_tokens_per_second=None), history=learned), Keep)
    quiet = replace(SLACK, prompt_tokens_per_second=9.0, generation_tokens_per_second=9.0)
    assert isinstance(decided(quiet, history=learned), RemoveReplica)
    forgotten = ChangeHistory((), Ceiling(NOW - POLICY.ceiling_seconds, 15.0, 15.0))
    assert isinstance(decided(SLACK, history=forgotten), RemoveReplica)


def test_the_ceiling_is_learned_from_load_alone() -> None:
    assert ceiling_of(decided(PRESSED), TWO, PRESSED, NOW) == Ceiling(NOW, 5.0, 5.0)
    assert ceiling_of(decided(SLACK), TWO, SLACK, NOW) is None
    by_spec = decided(policy=replace(POLICY, min_replicas=3))
    assert said(by_spec) == (AddReplica, DecisionReason.BELOW_MIN_REPLICAS)
    assert ceiling_of(by_spec, TWO, LOAD, NOW) is None


@pytest.mark.parametrize("ready", [1, 0])
def test_the_ceiling_of_one_ready_replica_or_of_none_is_the_whole_traffic(ready: int) -> None:
    """The last ready replica may end between the scrape and the decision."""
    assert ceiling_of(decided(PRESSED), replace(TWO, ready=ready), PRESSED, NOW) == Ceiling(NOW, 10.0, 10.0)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (SignalState.STALE, DecisionReason.METRICS_STALE),
        (SignalState.MISSING, DecisionReason.METRICS_MISSING),
        (SignalState.INVALID, DecisionReason.METRICS_INVALID),
        (SignalState.COLD, DecisionReason.WINDOW_NOT_COVERED),
        (SignalState.UNAVAILABLE, DecisionReason.METRICS_UNAVAILABLE),
    ],
)
def test_a_pod_that_is_unknown_holds_up_slack_and_the_all_clear(state: SignalState, reason: DecisionReason) -> None:
    pods = (PodState("a", SignalState.FRESH, 1.0), PodState("b", state, 70.0))

    for load in (SLACK, LOAD):
        decision = decided(replace(load, state=state, pods=pods, held_tokens=1000))
        assert said(decision) == (Wait, reason)


def test_the_known_pods_may_prove_pressure_for_all() -> None:
    one = replace(LOAD, state=SignalState.MISSING, pods=HALF_KNOWN, held_tokens=1000)

    assert said(decided(replace(one, demanded_sustained_tokens=1600))) == (
        AddReplica,
        DecisionReason.SUSTAINED_KV_PRESSURE,
    )
    assert said(decided(replace(one, demanded_sustained_tokens=1599))) == (Wait, DecisionReason.METRICS_MISSING)
    assert said(decided(replace(one, demanded_sustained_tokens=0, waiting_sustained=9))) == (
        Wait,
        DecisionReason.METRICS_MISSING,
    )


def test_a_ready_replica_nobody_looked_at_is_missing_too() -> None:
    assert said(decided(SLACK, placement=replace(TWO, replicas=3, ready=3))) == (Wait, DecisionReason.METRICS_MISSING)


def test_replicas_that_start_are_counted_as_capacity_and_waited_for() -> None:
    starting = replace(TWO, replicas=3)

    assert said(decided(PRESSED, placement=starting)) == (Wait, DecisionReason.REPLICAS_STARTING)
    assert said(decided(replace(PRESSED, demanded_sustained_tokens=5000), placement=starting)) == (
        Wait,
        DecisionReason.REPLICAS_STARTING,
    )
    assert said(decided(LoadSummary(SignalState.MISSING), placement=replace(TWO, ready=0))) == (
        Wait,
        DecisionReason.REPLICAS_STARTING,
    )


def test_a_move_waits_for_replicas_that_start_as_well() -> None:
    small = replace(LOAD, smallest_capacity_tokens=NEED.kv_tokens - 1)

    assert said(decided(small)) == (Move, DecisionReason.PLACEMENT_TOO_SMALL)
    assert said(decided(small, placement=replace(TWO, replicas=3))) == (Wait, DecisionReason.REPLICAS_STARTING)


def test_a_replica_that_never_starts_is_given_up_once_the_ready_ones_suffice() -> None:
    stuck = replace(TWO, replicas=3)

    assert said(decided(replace(SLACK, demanded_peak_tokens=1000), placement=stuck)) == (
        RemoveReplica,
        DecisionReason.SUSTAINED_SLACK,
    )


def test_an_estimate_that_outgrew_its_gpu_moves_even_without_metrics() -> None:
    load = LoadSummary(SignalState.UNAVAILABLE)
    assert said(decided(load, need=replace(NEED, bytes_per_gpu=81))) == (Move, DecisionReason.NEED_OUTGREW_PLACEMENT)


def test_engines_that_serve_and_hold_what_is_declared_refute_the_estimate() -> None:
    assert isinstance(decided(need=replace(NEED, bytes_per_gpu=81)), Keep)


def test_an_admin_s_figure_is_not_refuted_by_engines() -> None:
    forced = DeclaredNeed(kv_tokens=0, bytes_per_gpu=81)
    assert said(decided(need=forced)) == (Move, DecisionReason.NEED_OUTGREW_PLACEMENT)


def test_an_engine_with_less_kv_cache_than_declared_moves() -> None:
    assert said(decided(need=replace(NEED, kv_tokens=1001))) == (Move, DecisionReason.PLACEMENT_TOO_SMALL)
    assert isinstance(decided(need=replace(NEED, kv_tokens=1000)), Keep)


def test_the_users_bounds_come_before_the_load() -> None:
    at_most, at_least = replace(POLICY, max_replicas=2), replace(POLICY, min_replicas=2)

    assert said(decided(PRESSED, policy=at_most)) == (Wait, DecisionReason.AT_MAX_REPLICAS)
    assert said(decided(SLACK, policy=at_least)) == (Wait, DecisionReason.AT_MIN_REPLICAS)
    above = replace(POLICY, max_replicas=1)
    assert said(decided(PRESSED, policy=above)) == (RemoveReplica, DecisionReason.ABOVE_MAX_REPLICAS)


def test_the_cooldown_outlasts_the_startup() -> None:
    just_changed = ChangeHistory((NOW - 700,))
    slow = replace(TWO, startup_seconds=600.0)

    assert isinstance(decided(PRESSED, history=just_changed), AddReplica)
    decision = decided(PRESSED, history=just_changed, placement=slow)
    assert said(decision) == (Wait, DecisionReason.COOLING_DOWN)
    assert decision.number("bound_seconds") == 750


def test_a_bound_is_only_named_when_something_would_have_been_done() -> None:
    assert said(decided(LOAD, history=ChangeHistory((NOW - 1,)))) == (Keep, DecisionReason.WITHIN_BAND)


def test_the_hourly_budget() -> None:
    spent = ChangeHistory(tuple(NOW - age for age in (3599, 2500, 1500, 700)))
    freed = ChangeHistory(tuple(NOW - age for age in (3600, 2500, 1500, 700)))

    assert said(decided(PRESSED, history=spent)) == (Wait, DecisionReason.HOURLY_BUDGET_SPENT)
    assert isinstance(decided(PRESSED, history=freed), AddReplica)


def test_a_clock_set_back_neither_skips_the_cooldown_nor_makes_it_endless() -> None:
    ahead = ChangeHistory((NOW + 3600,))

    assert said(decided(PRESSED, history=ahead)) == (Wait, DecisionReason.COOLING_DOWN)
    noticed = ahead.clamped(NOW)
    assert noticed.seconds_since_last(NOW + 600) == 600
    assert ahead.recorded(NOW).changes == (NOW, NOW)


def test_history_forgets_what_no_bound_looks_at() -> None:
    assert ChangeHistory((NOW - 3600, NOW - 10)).recorded(NOW).changes == (NOW - 10, NOW)


@pytest.mark.parametrize(
    "contradiction",
    [
        lambda: RebalancePolicy(min_replicas=0),
        lambda: RebalancePolicy(min_replicas=3, max_replicas=2),
        lambda: RebalancePolicy(low_percent=80),
        lambda: RebalancePolicy(window_seconds=30),
        lambda: RebalancePolicy(max_age_seconds=0),
        lambda: RebalancePolicy(changes_per_hour=-1),
    ],
)
def test_bounds_that_contradict_themselves_are_refused(contradiction: Callable[[], RebalancePolicy]) -> None:
    with pytest.raises(InvalidInput, match=r"rebalance\.\w+: -?\d+ cannot be used. Use \d+ or more"):
        contradiction()
