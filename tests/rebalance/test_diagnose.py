"""Each kind of diagnosis at its edge, with its numbers. No bound of the policy takes part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.rebalance.decisions import DecisionReason
from plimsoll.rebalance.diagnose import Diagnosis, DiagnosisKind, diagnose
from plimsoll.rebalance.history import Ceiling, ChangeHistory
from plimsoll.rebalance.policy import RebalancePolicy
from plimsoll.rebalance.signals import LoadSummary, PodState, SignalState
from plimsoll.rebalance.situation import DeclaredNeed, PlacementState, Situation

NOW = 1_700_000_000.0
FRESH = tuple(PodState(name, SignalState.FRESH, 1.0) for name in "ab")
SITUATION = Situation(
    need=DeclaredNeed(kv_tokens=500, bytes_per_gpu=60),
    placement=PlacementState(replicas=2, ready=2, kv_capacity_tokens=1000, budget_bytes_per_gpu=80),
    load=LoadSummary(
        SignalState.FRESH,
        FRESH,
        window_seconds=300,
        demanded_sustained_tokens=1200,
        demanded_peak_tokens=1300,
        held_tokens=2000,
        largest_capacity_tokens=1000,
        smallest_capacity_tokens=1000,
        preemptions=0,
        prompt_tokens_per_second=10.0,
        generation_tokens_per_second=10.0,
    ),
    history=ChangeHistory(),
    now=NOW,
    policy=RebalancePolicy(min_replicas=2, max_replicas=2, window_seconds=300, changes_per_hour=0),
)
"""Neither a replica more nor one less is allowed, and no change at all: a diagnosis knows no bounds."""


def found(**changed: Any) -> Diagnosis:
    """The diagnosis with other facts; each is looked up in the load, the placement and the need."""
    where = SITUATION
    for part in ("load", "placement", "need", "policy"):
        whole = getattr(where, part)
        own = {name: value for name, value in changed.items() if name in type(whole).__dataclass_fields__}
        where = replace(where, **{part: replace(whole, **own)})
    if "history" in changed:
        where = replace(where, history=changed["history"])
    return diagnose(where)


def kind_and_reason(**changed: Any) -> tuple[DiagnosisKind, DecisionReason]:
    diagnosis = found(**changed)
    return diagnosis.kind, diagnosis.reason


HEALTHY = DiagnosisKind.HEALTHY, DecisionReason.WITHIN_BAND


def test_a_load_within_the_band_is_healthy() -> None:
    assert found() == Diagnosis(
        *HEALTHY,
        (("pressure_percent", 60), ("peak_percent", 65), ("bound_percent", 80), ("replicas", 2), ("seconds", 300)),
    )


def test_a_peak_is_rounded_up_and_sustained_demand_down() -> None:
    numbers = dict(found(demanded_sustained_tokens=1219, demanded_peak_tokens=1301).numbers)
    assert (numbers["pressure_percent"], numbers["peak_percent"]) == (60, 66)


def test_one_replica_fewer_than_the_minimum_is_too_few_whatever_the_signals() -> None:
    numbers = (("replicas", 2), ("min", 3), ("max", 4))
    assert found(min_replicas=3, max_replicas=4, pods=(), state=SignalState.MISSING) == Diagnosis(
        DiagnosisKind.TOO_FEW_REPLICAS, DecisionReason.BELOW_MIN_REPLICAS, numbers
    )


def test_one_replica_more_than_the_maximum_is_too_many_whatever_the_signals() -> None:
    numbers = (("replicas", 3), ("min", 2), ("max", 2))
    assert found(replicas=3, pods=(), state=SignalState.MISSING) == Diagnosis(
        DiagnosisKind.TOO_MANY_REPLICAS, DecisionReason.ABOVE_MAX_REPLICAS, numbers
    )


def test_an_engine_with_one_token_less_than_declared_has_outgrown_its_place() -> None:
    assert found(smallest_capacity_tokens=499) == Diagnosis(
        DiagnosisKind.OUTGROWN,
        DecisionReason.PLACEMENT_TOO_SMALL,
        (("held_tokens", 499), ("needed_tokens", 500)),
    )
    assert kind_and_reason(smallest_capacity_tokens=500) == HEALTHY
    assert kind_and_reason(smallest_capacity_tokens=None) == HEALTHY


def test_an_estimate_above_the_gpu_counts_where_no_engine_refutes_it() -> None:
    outgrown = Diagnosis(
        DiagnosisKind.OUTGROWN,
        DecisionReason.NEED_OUTGREW_PLACEMENT,
        (("needed_bytes", 81), ("budget_bytes", 80)),
    )
    assert found(bytes_per_gpu=81, smallest_capacity_tokens=None) == outgrown
    assert found(bytes_per_gpu=81, kv_tokens=0) == outgrown
    assert kind_and_reason(bytes_per_gpu=80, smallest_capacity_tokens=None) == HEALTHY
    assert kind_and_reason(bytes_per_gpu=81, smallest_capacity_tokens=500) == HEALTHY
    assert kind_and_reason(bytes_per_gpu=81, kv_tokens=1) == HEALTHY, "a minimum of one token is a minimum"


def test_pressure_begins_at_the_bound() -> None:
    assert found(demanded_sustained_tokens=1600, demanded_peak_tokens=1600) == Diagnosis(
        DiagnosisKind.KV_BOUND,
        DecisionReason.SUSTAINED_KV_PRESSURE,
        (
            ("pressure_percent", 80),
            ("bound_percent", 80),
            ("demanded_tokens", 1600),
            ("held_tokens", 2000),
            ("replicas", 2),
            ("unknown", 0),
            ("seconds", 300),
        ),
    )
    assert kind_and_reason(demanded_sustained_tokens=1599) == HEALTHY


def test_pressure_is_reported_in_percent_of_the_capacity_and_may_exceed_it() -> None:
    pressures = (1999, 2000, 5000)
    found_percents = [dict(found(demanded_sustained_tokens=each).numbers)["pressure_percent"] for each in pressures]
    assert found_percents == [99, 100, 250]


def test_a_queue_counts_from_the_bound_of_all_replicas_on() -> None:
    assert found(waiting_sustained=10) == Diagnosis(
        DiagnosisKind.QUEUE_BOUND,
        DecisionReason.SUSTAINED_QUEUE,
        (("waiting", 10), ("bound", 10), ("replicas", 2), ("unknown", 0), ("seconds", 300)),
    )
    assert kind_and_reason(waiting_sustained=9) == HEALTHY


@pytest.mark.parametrize("known_of", [{"replicas": 3, "min_replicas": 3, "max_replicas": 3}, {"ready": 3}], ids=str)
def test_pressure_of_the_known_is_measured_against_all_replicas_and_all_pods(known_of: dict[str, Any]) -> None:
    third = (*FRESH, PodState("c", SignalState.COLD))
    pods = {"pods": third, "state": SignalState.COLD} | known_of
    diagnosis = found(demanded_sustained_tokens=2400, **pods)
    assert (diagnosis.kind, dict(diagnosis.numbers)["unknown"]) == (DiagnosisKind.KV_BOUND, 1)
    assert dict(diagnosis.numbers)["held_tokens"] == 3000
    assert found(demanded_sustained_tokens=2399, **pods).kind is DiagnosisKind.UNKNOWN
    assert found(waiting_sustained=15, **pods).kind is DiagnosisKind.QUEUE_BOUND
    assert found(waiting_sustained=14, **pods).kind is DiagnosisKind.UNKNOWN


def test_engines_that_hold_nothing_are_under_no_pressure_of_memory() -> None:
    nothing = {"held_tokens": 0, "demanded_sustained_tokens": 0, "ready": 0}
    assert kind_and_reason(**nothing) == (DiagnosisKind.UNKNOWN, DecisionReason.REPLICAS_STARTING)


def test_nobody_ready_is_said_with_the_number() -> None:
    assert found(ready=0, pods=(), state=SignalState.MISSING) == Diagnosis(
        DiagnosisKind.UNKNOWN, DecisionReason.REPLICAS_STARTING, (("replicas", 2), ("ready", 0))
    )


def test_the_least_known_pod_is_named_with_its_age_and_the_bounds() -> None:
    pods = (PodState("a", SignalState.COLD, 3.0), PodState("b", SignalState.STALE, 70.9))
    assert found(pods=pods, state=SignalState.STALE, held_tokens=0) == Diagnosis(
        DiagnosisKind.UNKNOWN,
        DecisionReason.METRICS_STALE,
        (
            ("fresh", 0),
            ("ready", 2),
            ("pod", "b"),
            ("age_seconds", 70),
            ("bound_seconds", 60),
            ("window_seconds", 300),
        ),
    )
    ageless = (FRESH[0], PodState("b", SignalState.MISSING))
    numbers = dict(found(pods=ageless, state=SignalState.MISSING, held_tokens=1000).numbers)
    assert (numbers["pod"], numbers["fresh"]) == ("b", 1)
    assert "age_seconds" not in numbers


def test_a_ready_pod_that_nobody_knows_is_missing_without_a_name() -> None:
    assert found(pods=FRESH[:1], held_tokens=1000, demanded_sustained_tokens=0) == Diagnosis(
        DiagnosisKind.UNKNOWN, DecisionReason.METRICS_MISSING, (("fresh", 1), ("ready", 2), ("pod", ""))
    )
    nobody = found(pods=(), state=SignalState.UNAVAILABLE)
    assert (nobody.reason, dict(nobody.numbers)["pod"]) == (DecisionReason.METRICS_UNAVAILABLE, "")


IDLE = {"demanded_sustained_tokens": 100, "demanded_peak_tokens": 500}


def test_slack_ends_at_its_bound_on_the_replicas_that_remain() -> None:
    assert found(**IDLE) == Diagnosis(
        DiagnosisKind.IDLE,
        DecisionReason.SUSTAINED_SLACK,
        (
            ("pressure_percent", 50),
            ("bound_percent", 50),
            ("demanded_tokens", 500),
            ("held_tokens", 1000),
            ("replicas", 2),
            ("remaining", 1),
            ("seconds", 300),
        ),
    )
    assert kind_and_reason(**IDLE | {"demanded_peak_tokens": 501}) == HEALTHY
    assert dict(found(**IDLE | {"demanded_peak_tokens": 401}).numbers)["pressure_percent"] == 41


def test_the_only_replica_is_never_superfluous() -> None:
    one = {"replicas": 1, "ready": 1, "min_replicas": 1, "pods": FRESH[:1], "held_tokens": 1000}
    assert kind_and_reason(**IDLE, **one) == HEALTHY
    assert kind_and_reason(demanded_sustained_tokens=0, demanded_peak_tokens=0, **one) == HEALTHY
    updating = one | {"ready": 2, "pods": FRESH, "held_tokens": 2000}
    assert kind_and_reason(**IDLE, **updating) == HEALTHY, "an update runs a second pod only for a while"


def test_a_replica_that_does_not_start_is_superfluous_where_all_that_serve_may_stay() -> None:
    stuck = {"replicas": 3, "min_replicas": 3, "max_replicas": 3}
    diagnosis = found(demanded_sustained_tokens=100, demanded_peak_tokens=1000, **stuck)
    numbers = dict(diagnosis.numbers)
    assert (diagnosis.kind, numbers["held_tokens"], numbers["remaining"]) == (DiagnosisKind.IDLE, 2000, 2)
    assert found(demanded_sustained_tokens=100, demanded_peak_tokens=1001, **stuck) == Diagnosis(
        DiagnosisKind.UNKNOWN, DecisionReason.REPLICAS_STARTING, (("replicas", 3), ("ready", 2))
    )


@pytest.mark.parametrize("whose", ["prompt_tokens_per_second", "generation_tokens_per_second"])
def test_traffic_near_the_ceiling_keeps_a_replica_that_memory_could_spare(whose: str) -> None:
    """A ceiling of 16 a replica at 80 % load leaves 10 for the one that would remain at 50 %."""
    history = ChangeHistory((), Ceiling(NOW - 4000, 16.0, 16.0))
    assert kind_and_reason(history=history, **IDLE) == (DiagnosisKind.IDLE, DecisionReason.SUSTAINED_SLACK)
    needed = DiagnosisKind.HEALTHY, DecisionReason.THROUGHPUT_NEEDED
    assert kind_and_reason(history=history, **IDLE, **{whose: 10.1}) == needed
    forgotten = ChangeHistory((), Ceiling(NOW - 86_400, 1.0, 1.0))
    assert found(history=forgotten, **IDLE).kind is DiagnosisKind.IDLE
    assert kind_and_reason(history=ChangeHistory((), Ceiling(NOW - 86_399, 1.0, 1.0)), **IDLE) == needed
    ahead = ChangeHistory((), Ceiling(NOW + 9, 1.0, 1.0))
    assert kind_and_reason(history=ahead, **IDLE) == needed, "a clock that was set back forgets nothing"
