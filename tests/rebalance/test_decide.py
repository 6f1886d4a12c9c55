"""From a situation to a decision: each kind of decision, and what comes before what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.rebalance.decide import LoopResult, decide, kind_of
from plimsoll.rebalance.diagnosis.diagnose import DiagnosisKind
from plimsoll.rebalance.signals.load import LoadSummary
from plimsoll.rebalance.signals.metrics import PodState, SignalState
from plimsoll.rebalance.state.allowance import Allowance, Opening, Scope, Spent
from plimsoll.rebalance.state.decisions import (
    AddReplica,
    DecisionReason,
    Keep,
    LoopDecision,
    Move,
    RemoveReplica,
    Retune,
    Wait,
)
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.rebalance.state.policy import Mode
from tests.support.engine_loads import KV_TOKENS, LONG_AGO, NOW, Serves, pod, replica_model, summary
from tests.support.hypotheses import room_for_all
from tests.support.live_situations import AUTO, BUSY, EASY, IDLE, NEED, enough_for, loads_of, situation
from tests.support.planning import H100, fleet, node, pool, request, tenant
from tests.support.world_plans import planned

LONG_ENOUGH = enough_for(1, 600)
AWAY = LoadSummary(SignalState.UNAVAILABLE)


def made(*loads: Serves, **changed: Any) -> LoopResult:
    where = situation(*(loads or (EASY, EASY)), **changed)
    return decide(where, room_for_all(where.placement.replicas))


def said(*loads: Serves, **changed: Any) -> tuple[type[LoopDecision], DecisionReason]:
    decision = made(*loads, **changed).decision
    return type(decision), decision.reason


def marks(*changes: tuple[float, ChangeKind]) -> ChangeHistory:
    return ChangeHistory(tuple(ChangeRecord(NOW - age, kind) for age, kind in changes))


def test_off_means_off() -> None:
    off = made(BUSY, BUSY, policy=replace(AUTO, mode=Mode.OFF))
    assert (type(off.decision), off.decision.reason) == (Keep, DecisionReason.MODE_OFF)
    assert off.memory == LoopMemory(), "nothing is learned"


def test_while_the_clusters_switch_is_set_the_load_is_looked_at_and_nothing_is_decided() -> None:
    where = situation(BUSY, BUSY)
    free = decide(where, room_for_all(2))
    held = decide(replace(where, allowance=Allowance(suspended=True)), room_for_all(2))
    assert isinstance(free.decision, AddReplica)
    assert held.decision == Wait(DecisionReason.SUSPENDED_FOR_CLUSTER)
    assert (held.proposal, held.answer) == (None, None)
    assert (held.kind, held.wish, held.memory) == (free.kind, free.wish, free.memory), "people still see what is wrong"
    assert held.memory != LoopMemory()


@pytest.mark.parametrize(
    ("changed", "usual"),
    [
        ({"policy": replace(AUTO, mode=Mode.RECOMMEND)}, DecisionReason.ARRIVALS_EXCEED_CAPACITY),
        ({"load": AWAY}, DecisionReason.METRICS_UNAVAILABLE),
        ({"moving": True}, DecisionReason.MOVE_UNDER_WAY),
    ],
    ids=["Recommend", "without metrics", "in a move"],
)
def test_the_clusters_switch_comes_before_all_but_off(changed: dict[str, Any], usual: DecisionReason) -> None:
    where = situation(BUSY, BUSY, **changed)
    assert decide(where, room_for_all(2)).decision.reason is usual
    where = replace(where, allowance=Allowance(suspended=True))
    assert decide(where, room_for_all(2)).decision == Wait(DecisionReason.SUSPENDED_FOR_CLUSTER)
    off = replace(where, policy=replace(AUTO, mode=Mode.OFF))
    assert decide(off, room_for_all(2)).decision == Keep(DecisionReason.MODE_OFF)


@pytest.mark.parametrize(
    "allowance",
    [
        Allowance(opening=Opening(is_open=False, opens_at=NOW + 3600)),
        Allowance(spent=Spent(Scope.CLUSTER, 12, 12)),
    ],
    ids=["no window", "no move left"],
)
def test_where_a_change_of_settings_has_to_wait_replicas_are_added_at_once(allowance: Allowance) -> None:
    runs = tenant(request(concurrency=8), pool(H100, limits=StepLimits(sequences=8)))
    what_if = planned([runs], fleet(node("h", H100, 8, held=1))).what_if(runs.request.key)
    narrow = replica_model(max_sequences=8)
    where = situation(Serves(rate=8.0, running=8), model=narrow, most_sequences=64)
    assert isinstance(decide(where, what_if).decision, Retune)
    assert isinstance(decide(replace(where, allowance=allowance), what_if).decision, AddReplica)


def test_a_load_that_fits_is_kept() -> None:
    assert said() == (Keep, DecisionReason.WITHIN_BAND)


def test_all_that_is_needed_is_added_at_once() -> None:
    decision = made(BUSY, BUSY).decision
    assert isinstance(decision, AddReplica)
    assert decision.reason is DecisionReason.ARRIVALS_EXCEED_CAPACITY
    assert decision.count == int(decision.number("needed")) - 2 >= 2


def test_an_addition_waits_for_nothing_but_the_maximum() -> None:
    spent = marks((900, ChangeKind.REMOVE), (5, ChangeKind.ADD), (4, ChangeKind.REMOVE), (1, ChangeKind.ADD))
    tight = replace(AUTO, changes_per_hour=0, reversals_per_hour=0)
    assert said(BUSY, BUSY, history=spent, policy=tight)[0] is AddReplica
    for maximum, count in ((2, 0), (3, 1), (99, 2)):
        decision = made(BUSY, BUSY, history=spent, policy=replace(tight, max_replicas=maximum)).decision
        assert isinstance(decision, AddReplica) is (count > 0)
        assert not isinstance(decision, AddReplica) or decision.count >= count
    assert said(BUSY, BUSY, policy=replace(AUTO, max_replicas=2)) == (Wait, DecisionReason.AT_MAX_REPLICAS)


def test_a_removal_waits_for_the_time_the_reversals_and_the_budget() -> None:
    assert said(EASY, IDLE, memory=LONG_ENOUGH) == (RemoveReplica, DecisionReason.SUSTAINED_SLACK)
    assert said(EASY, IDLE, memory=enough_for(1, 300)) == (Keep, DecisionReason.WITHIN_BAND)
    added = marks((599, ChangeKind.ADD))
    assert said(EASY, IDLE, memory=LONG_ENOUGH, history=added) == (Wait, DecisionReason.COOLING_DOWN)
    reversals = marks(*((age, kind) for age in (3400, 2400) for kind in (ChangeKind.REMOVE, ChangeKind.ADD)))
    patient = enough_for(1, 1200)
    assert said(EASY, IDLE, memory=patient, history=reversals) == (Wait, DecisionReason.REVERSALS_SPENT)
    spent = marks(*((age, ChangeKind.REMOVE) for age in (3000, 2500, 2000, 1500, 1000, 500)))
    assert said(EASY, IDLE, memory=LONG_ENOUGH, history=spent) == (Wait, DecisionReason.HOURLY_BUDGET_SPENT)


def test_a_reversal_asks_for_slack_that_lasts_longer() -> None:
    once = marks((3400, ChangeKind.REMOVE), (2400, ChangeKind.ADD))
    assert said(EASY, IDLE, memory=LONG_ENOUGH, history=once) == (Keep, DecisionReason.WITHIN_BAND)
    assert said(EASY, IDLE, memory=enough_for(1, 900), history=once)[0] is RemoveReplica


def test_removals_leave_what_is_enough_and_what_the_user_wants() -> None:
    decision = made(EASY, IDLE, IDLE, IDLE, memory=LONG_ENOUGH).decision
    assert isinstance(decision, RemoveReplica)
    assert decision.count == 2, "at most half at once"
    at_least = made(EASY, IDLE, IDLE, IDLE, memory=LONG_ENOUGH, policy=replace(AUTO, min_replicas=3)).decision
    assert isinstance(at_least, RemoveReplica)
    assert at_least.count == 1
    assert said(EASY, IDLE, memory=LONG_ENOUGH, policy=replace(AUTO, min_replicas=2)) == (
        Wait,
        DecisionReason.AT_MIN_REPLICAS,
    )


def test_an_unknown_pod_forbids_removals_and_no_additions() -> None:
    known = loads_of(EASY, IDLE)
    load = replace(known, state=SignalState.STALE, pods=(*known.pods, PodState("z", SignalState.STALE, 70.0)))
    where: dict[str, Any] = {"replicas": 3, "ready": 3, "memory": enough_for(1, 600)}
    assert said(EASY, IDLE, load=load, **where) == (Wait, DecisionReason.METRICS_STALE)
    busy = replace(load, traffic=loads_of(BUSY, BUSY).traffic)
    assert said(EASY, IDLE, load=busy, **where)[0] is AddReplica


def test_a_replica_that_has_just_begun_to_serve_is_supply_although_nobody_has_seen_it() -> None:
    """It was added for the load of the known ones; to count it as unknown would add another one each time."""
    needed = int(made(BUSY).decision.number("needed"))
    seen = pod("p0", BUSY)
    names = [f"p{index}" for index in range(needed)]
    for ready_since, kind in ((NOW - 10, Wait), (LONG_AGO, AddReplica)):
        since = dict.fromkeys(names, ready_since) | {"p0": LONG_AGO}
        load = summary(seen, expected=names, ready_since=since)
        assert said(BUSY, load=load, replicas=needed, ready=needed)[0] is kind


def test_nothing_is_changed_while_metrics_are_unavailable() -> None:
    assert said(load=AWAY, memory=LONG_ENOUGH) == (Wait, DecisionReason.METRICS_UNAVAILABLE)


def test_what_the_user_and_the_declared_load_ask_for_needs_no_metrics() -> None:
    assert said(load=AWAY, policy=replace(AUTO, min_replicas=3)) == (AddReplica, DecisionReason.BELOW_MIN_REPLICAS)
    assert said(load=AWAY, policy=replace(AUTO, max_replicas=1)) == (RemoveReplica, DecisionReason.ABOVE_MAX_REPLICAS)
    assert said(load=AWAY, need=replace(NEED, bytes_per_gpu=81)) == (Move, DecisionReason.NEED_OUTGREW_PLACEMENT)


def test_all_replicas_beyond_the_bounds_are_added_or_removed_at_once() -> None:
    more = made(load=AWAY, policy=replace(AUTO, min_replicas=5)).decision
    less = made(load=AWAY, replicas=7, policy=replace(AUTO, max_replicas=3)).decision
    assert isinstance(more, AddReplica)
    assert isinstance(less, RemoveReplica)
    assert (more.count, less.count) == (3, 4)


def test_an_engine_with_less_kv_cache_than_declared_moves() -> None:
    assert said(need=replace(NEED, kv_tokens=KV_TOKENS + 1)) == (Move, DecisionReason.PLACEMENT_TOO_SMALL)
    assert said(need=replace(NEED, kv_tokens=KV_TOKENS))[0] is Keep
    starting = {"need": replace(NEED, kv_tokens=KV_TOKENS + 1), "replicas": 3}
    assert said(**starting) == (Wait, DecisionReason.REPLICAS_STARTING)


def test_a_move_under_way_is_waited_for_and_off_comes_before_it() -> None:
    assert said(BUSY, BUSY, moving=True) == (Wait, DecisionReason.MOVE_UNDER_WAY)
    assert said(BUSY, BUSY, moving=True, policy=replace(AUTO, mode=Mode.OFF))[1] is DecisionReason.MODE_OFF


def test_a_bound_is_only_named_when_something_would_have_been_done() -> None:
    assert said(history=marks((1, ChangeKind.ADD))) == (Keep, DecisionReason.WITHIN_BAND)


def test_a_decision_comes_with_its_diagnosis_its_wish_and_its_memory() -> None:
    decided = made(BUSY, BUSY)
    assert decided.kind is DiagnosisKind.BATCH_BOUND
    assert decided.wish is not None
    assert decided.wish.replicas == decided.decision.number("needed")
    assert [look.at for look in decided.memory.looks] == [NOW]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (AddReplica(DecisionReason.SUSTAINED_QUEUE), ChangeKind.ADD),
        (RemoveReplica(DecisionReason.SUSTAINED_SLACK), ChangeKind.REMOVE),
        (Move(DecisionReason.PLACEMENT_TOO_SMALL), ChangeKind.MOVE),
        (Retune(DecisionReason.BATCH_LIMIT_BINDS), ChangeKind.RETUNE),
    ],
    ids=str,
)
def test_every_change_is_recorded_as_its_kind(change: Any, kind: ChangeKind) -> None:
    assert kind_of(change) is kind
