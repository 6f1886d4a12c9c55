"""Engines that answer nothing although their cache has room: models with a recurrent state, and all others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.rebalance.diagnosis.diagnose import Diagnosis, DiagnosisKind, diagnose
from plimsoll.rebalance.diagnosis.engine_troubles import page_livelock
from plimsoll.rebalance.diagnosis.judging import judged
from plimsoll.rebalance.signals.traffic import PodLoad
from plimsoll.rebalance.state.decisions import DecisionReason, Keep
from plimsoll.rebalance.why import sentence
from tests.support.engine_loads import Serves, traffic
from tests.support.live_situations import BUSY, EASY, situation

FULL_CACHE = 0.95

IDLE = traffic(Serves(rate=0.0)).loads[0]
STALLED = replace(IDLE, pod="p", waiting=4.0, running=0.0, kv_use=0.33, is_stalled=True)
LOCKED = Serves(rate=0.0, waiting=4, running=0, kv_usage=0.33)
FEW = replace(LOCKED, waiting=1)


def test_a_stalled_pod_with_room_is_found_with_its_figures() -> None:
    assert page_livelock([STALLED], has_states=True) == (
        ("pod", "p"),
        ("pod_waiting", 4),
        ("pod_running", 0),
        ("pod_percent", 33),
    )


@pytest.mark.parametrize(
    "load",
    [replace(STALLED, kv_use=FULL_CACHE), replace(STALLED, is_stalled=False)],
    ids=["the cache is full", "tokens come"],
)
def test_a_full_cache_and_a_slow_engine_are_no_livelock(load: PodLoad) -> None:
    assert page_livelock([load], has_states=True) == ()


def test_without_a_recurrent_state_it_is_something_else() -> None:
    assert page_livelock([STALLED], has_states=False) == ()
    assert page_livelock([], has_states=True) == ()


def test_the_pod_with_the_longest_queue_is_named() -> None:
    pods = [STALLED, replace(STALLED, pod="q", waiting=9.0), replace(STALLED, pod="r", waiting=99.0, kv_use=0.99)]
    assert dict(page_livelock(pods, has_states=True))["pod"] == "q"


# -- as a diagnosis ----------------------------------------------------------------------------------------------------


def found(*loads: Serves, has_states: bool = True, **more: Any) -> Diagnosis:
    where = situation(*loads, has_states=has_states, **more)
    return diagnose(where, judged(where))


@pytest.mark.parametrize("load", [LOCKED, FEW, replace(LOCKED, waiting=40)], ids=["some", "one", "many"])
def test_a_livelock_is_named_and_not_called_a_stuck_replica(load: Serves) -> None:
    locked, other = found(load), found(load, has_states=False)
    assert (locked.kind, locked.reason) == (DiagnosisKind.PAGE_LIVELOCK, DecisionReason.PAGE_LIVELOCK)
    assert other.kind in (DiagnosisKind.STUCK_REPLICA, DiagnosisKind.QUEUE_BOUND)
    assert locked.replicas == other.replicas > 1, "others serve in its place, as before"


def test_it_says_what_to_do() -> None:
    diagnosis = found(EASY, LOCKED)
    words = sentence(Keep(diagnosis.reason, diagnosis.numbers))
    assert "at pod p1 4 requests wait, 0 run, and 33 % of the KV cache is in use" in words
    assert (
        "Lower spec.contextLength, or turn the prefix cache off in spec.engine.extraArgs, and restart pod p1." in words
    )


def test_it_stays_named_while_others_serve_in_its_place() -> None:
    diagnosis = found(EASY, EASY, EASY, LOCKED, replicas=4)
    assert (diagnosis.kind, diagnosis.replicas) == (DiagnosisKind.PAGE_LIVELOCK, 0)
    assert found(EASY, EASY, EASY, LOCKED, replicas=4, has_states=False).kind is not DiagnosisKind.PAGE_LIVELOCK


def test_it_hides_no_pressure_on_the_replicas_that_serve() -> None:
    assert found(BUSY, BUSY, LOCKED).reason is DecisionReason.ARRIVALS_EXCEED_CAPACITY


def test_a_model_with_states_that_serves_is_healthy() -> None:
    assert found(EASY, EASY).kind is DiagnosisKind.NOTHING_TO_CHANGE
