"""From some replicas to none and back: what must be true for it, and what forbids it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.placement.transition.hypothesis import WhatIf
from plimsoll.rebalance.decide import LoopResult, decide
from plimsoll.rebalance.diagnosis.diagnose import DiagnosisKind, diagnose
from plimsoll.rebalance.diagnosis.judging import judged
from plimsoll.rebalance.signals.gateway import GatewayQueue, with_queue
from plimsoll.rebalance.signals.gateway_scrapes import queue_of
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Keep, RemoveReplica, Wait
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.why import sentence
from tests.support.engine_loads import NOW, Serves
from tests.support.hypotheses import no_room, room_for_all
from tests.support.live_situations import AUTO, BUSY, CAPACITY, loads_of, situation
from tests.support.tables import every_case

IDLE_SECONDS = 1200
SLEEPS = replace(AUTO, min_replicas=0, idle_seconds=IDLE_SECONDS, wakes=True)
BY_HAND = replace(SLEEPS, wakes=False)
NOBODY = Serves(rate=0.0, running=0, kv_usage=0.0)
QUIET = LoopMemory(quiet_since=NOW - IDLE_SECONDS, quiet_at=NOW - 5)
EMPTY = queue_of([{NOW - 1: 0.0, NOW - 16: 0.0}], NOW)
NOTHING = LoadSummary(SignalState.MISSING)


def held(waiting: float) -> GatewayQueue:
    return queue_of([{NOW - 1: waiting, NOW - 16: waiting}], NOW)


def made(
    *loads: Serves, gateway: GatewayQueue | None = EMPTY, what_if: WhatIf | None = None, **changed: Any
) -> LoopResult:
    load = loads_of(*loads)
    traffic = None if load.traffic is None else with_queue(load.traffic, gateway or GatewayQueue())
    load = replace(load, gateway=gateway, traffic=traffic)
    usual: dict[str, Any] = {"policy": SLEEPS, "memory": QUIET, "load": load}
    where = situation(*loads, **usual | changed)
    return decide(where, what_if or room_for_all(where.placement.replicas))


def asleep(gateway: GatewayQueue | None, **changed: Any) -> LoopResult:
    load = replace(NOTHING, gateway=gateway)
    usual: dict[str, Any] = {"load": load, "replicas": 0, "settled_since": None, "memory": LoopMemory()}
    return made(**usual | changed)


@pytest.mark.parametrize("replicas", [1, 2])
def test_all_replicas_go_where_no_request_came_for_long_enough(replicas: int) -> None:
    decided = made(*[NOBODY] * replicas)
    assert isinstance(decided.decision, RemoveReplica)
    assert (decided.decision.reason, decided.decision.count) == (DecisionReason.NO_REQUESTS, replicas)
    assert sentence(decided.decision) == "No replica is needed: no request has come for 1,200 s."
    assert decided.answer is not None
    assert decided.answer.tenant.request.replicas == 0


@pytest.mark.parametrize("policy", [SLEEPS, BY_HAND])
def test_a_deployment_without_a_gateway_sleeps_as_well(policy: Any) -> None:
    assert isinstance(made(NOBODY, gateway=None, policy=policy).decision, RemoveReplica)


@every_case(
    "changed",
    [
        {"memory": replace(QUIET, quiet_since=NOW - IDLE_SECONDS + 1)},
        {"memory": LoopMemory()},
        {"memory": replace(QUIET, quiet_at=NOW - 100)},
        {"policy": AUTO},
        {"gateway": held(1)},
        {"gateway": GatewayQueue()},
        {"gateway": replace(EMPTY, state=SignalState.INVALID)},
        {"settled_since": NOW - 100},
    ],
)
def test_the_last_replica_stays_where_anything_is_missing(changed: dict[str, Any]) -> None:
    assert not isinstance(made(NOBODY, **changed).decision, RemoveReplica)


@pytest.mark.parametrize(
    "loads",
    [(NOBODY, Serves(rate=0.01)), (Serves(rate=0.0, running=1),), (Serves(rate=0.0, running=0, waiting=1),)],
)
def test_the_last_replica_stays_while_a_request_runs_or_waits(loads: tuple[Serves, ...]) -> None:
    decision = made(*loads).decision
    assert not isinstance(decision, RemoveReplica) or len(loads) - decision.count > 0


def test_a_silent_pod_or_an_outage_is_never_idle() -> None:
    one_known = made(NOBODY, NOBODY, ready=3, replicas=3)
    assert one_known.decision.reason is DecisionReason.METRICS_MISSING
    away = made(NOBODY, load=LoadSummary(SignalState.UNAVAILABLE, gateway=EMPTY))
    assert away.decision.reason is DecisionReason.METRICS_UNAVAILABLE
    assert away.memory.quiet_at == QUIET.quiet_at, "an outage is not part of the quiet time"


def test_the_cooldown_and_the_reversals_apply() -> None:
    added = ChangeHistory((ChangeRecord(NOW - 599, ChangeKind.ADD),))
    assert made(NOBODY, history=added).decision.reason is DecisionReason.COOLING_DOWN
    woken = [ChangeRecord(NOW - 3000, ChangeKind.REMOVE), ChangeRecord(NOW - 2900, ChangeKind.ADD)]
    once = ChangeHistory(tuple(woken))
    assert once.reversals(NOW) == 1
    assert not isinstance(made(NOBODY, history=once).decision, RemoveReplica), "the time is half as long again"
    longer = replace(QUIET, quiet_since=NOW - 1.5 * IDLE_SECONDS)
    assert isinstance(made(NOBODY, history=once, memory=longer).decision, RemoveReplica)
    twice = ChangeHistory(
        (*woken, ChangeRecord(NOW - 2000, ChangeKind.REMOVE), ChangeRecord(NOW - 1900, ChangeKind.ADD))
    )
    later = replace(QUIET, quiet_since=NOW - 2 * IDLE_SECONDS)
    assert made(NOBODY, history=twice, memory=later).decision.reason is DecisionReason.REVERSALS_SPENT


def test_a_request_at_the_gateway_starts_a_replica() -> None:
    decided = asleep(held(1))
    assert isinstance(decided.decision, AddReplica)
    assert (decided.decision.reason, decided.decision.count) == (DecisionReason.REQUESTS_WAIT_AT_GATEWAY, 1)
    assert sentence(decided.decision) == (
        "1 request waits at the gateway, and no serving engine is known: 1 replica instead of 0 replicas."
    )


def test_a_long_queue_starts_as_many_as_can_run_it_at_the_same_time() -> None:
    decision = asleep(held(600)).decision
    assert isinstance(decision, AddReplica)
    assert decision.count == 3, "256 requests on each"


@pytest.mark.parametrize("forged", [1e6, 2.0**53])
def test_a_forged_queue_gets_no_more_than_the_maximum(forged: float) -> None:
    decision = asleep(held(forged)).decision
    assert isinstance(decision, AddReplica)
    assert decision.count == SLEEPS.max_replicas
    running = made(Serves(rate=0.5 * CAPACITY), gateway=held(forged)).decision
    assert isinstance(running, AddReplica)
    assert 1 <= running.count < SLEEPS.max_replicas


def test_the_first_replica_is_wanted_although_it_has_no_place_yet() -> None:
    decided = asleep(held(600), what_if=no_room(0))
    assert isinstance(decided.decision, AddReplica)
    assert decided.decision.count == 1, "it waits as a new deployment does"
    assert decided.answer is not None
    assert decided.answer.decision.missing == 1
    served = made(BUSY, gateway=None, what_if=no_room(1))
    assert served.decision.reason is DecisionReason.NO_PLACE_FOUND, "with a replica, more need a place"


@pytest.mark.parametrize(
    ("gateway", "policy", "kind", "reason"),
    [
        (EMPTY, SLEEPS, Keep, DecisionReason.NO_REQUEST_WAITS),
        (GatewayQueue(), SLEEPS, Keep, DecisionReason.NO_REQUEST_WAITS),
        (None, BY_HAND, Keep, DecisionReason.NO_REQUEST_WAITS),
        (held(5), BY_HAND, Keep, DecisionReason.NO_REQUEST_WAITS),
        (GatewayQueue(SignalState.UNAVAILABLE), SLEEPS, Wait, DecisionReason.METRICS_UNAVAILABLE),
    ],
)
def test_nothing_starts_without_a_request_that_is_known_to_wait(
    gateway: GatewayQueue | None, policy: Any, kind: type, reason: DecisionReason
) -> None:
    decision = asleep(gateway, policy=policy).decision
    assert (type(decision), decision.reason) == (kind, reason)


def test_while_the_first_replica_starts_a_growing_queue_gets_more() -> None:
    starting: dict[str, Any] = {"load": replace(NOTHING, gateway=held(600)), "replicas": 1, "ready": 0}
    decision = made(**starting).decision
    assert isinstance(decision, AddReplica)
    assert (decision.reason, decision.count) == (DecisionReason.REQUESTS_WAIT_AT_GATEWAY, 2)
    short = made(**starting | {"load": replace(NOTHING, gateway=held(20))}).decision
    assert short.reason is DecisionReason.REPLICAS_STARTING


def test_what_was_learned_outlives_the_sleep() -> None:
    known = LoopMemory(slowness=1.4, startup_seconds=90.0, most_work=77.0)
    assert asleep(EMPTY, memory=known).memory.learned == known.learned


def test_requests_at_the_gateway_are_a_queue() -> None:
    steady = made(Serves(rate=0.5 * CAPACITY), gateway=EMPTY).decision
    assert not isinstance(steady, AddReplica)
    waits = made(Serves(rate=0.5 * CAPACITY), gateway=held(40 * CAPACITY)).decision
    assert isinstance(waits, AddReplica)
    assert waits.reason is DecisionReason.SUSTAINED_QUEUE
    assert "; 880 requests wait, 880 of them at the gateway" in sentence(waits)


@pytest.mark.parametrize("load", [BUSY, NOBODY])
def test_an_external_scaler_keeps_the_number(load: Serves) -> None:
    outside = replace(AUTO, min_replicas=0, max_replicas=1000, scales=False)
    assert not isinstance(made(load, policy=outside).decision, AddReplica | RemoveReplica)
    busy = made(BUSY, policy=outside).decision
    assert (type(busy), busy.reason) == (Wait, DecisionReason.SCALED_EXTERNALLY)
    assert isinstance(made(BUSY, policy=AUTO).decision, AddReplica)


def test_two_that_write_the_number_do_not_fight() -> None:
    contested = made(BUSY, policy=replace(AUTO, contested=True)).decision
    assert (type(contested), contested.reason) == (Wait, DecisionReason.SCALE_CONTESTED)
    assert "spec.replicas is changed again and again" in sentence(contested)
    woken = asleep(held(1), policy=replace(SLEEPS, contested=True)).decision
    assert isinstance(woken, AddReplica), "a request that waits is served all the same"


@pytest.mark.parametrize(
    ("memory", "is_read", "idle"),
    [(QUIET, True, True), (replace(QUIET, quiet_since=None), True, False), (QUIET, False, False)],
    ids=["all is known", "since when is not known", "the scrapes do not say"],
)
def test_all_replicas_stay_if_nobody_knows_since_when_no_request_came(
    memory: LoopMemory, *, is_read: bool, idle: bool
) -> None:
    where = situation(NOBODY, policy=SLEEPS, memory=memory)
    where = where if is_read else replace(where, load=replace(where.load, quiet=None))
    look = judged(where)
    look = look if is_read else replace(look, memory=replace(look.memory, quiet_at=where.now, quiet_since=NOW - 2000))
    assert (diagnose(where, look).kind is DiagnosisKind.IDLE) is idle
