from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, InferenceDeploymentStatus, PoolStatus, RebalancingMode
from plimsoll.app.live.wanted import wanted_signals
from plimsoll.decision.observing import observed_capacities, reported_now, reported_tokens
from plimsoll.decision.surroundings import Surroundings
from plimsoll.decision.turns import (
    LoopTurn,
    Running,
    Standing,
    kept_sentence,
    load_of,
    placement_of,
    policy_of,
    take_turn,
)
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.outcomes import MemoryEstimate, Split, Target
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.engines.failures import EngineFailure, StartFailure
from plimsoll.domain.requests.serving import ObservedCapacity
from plimsoll.domain.units import to_rfc3339
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.facts.cluster.scheduler_words import Obstacle
from plimsoll.placement.demands.pools import Pool, PoolState
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.transition.hypothesis import WhatIf
from plimsoll.rebalance.inbox import AnsweredProposals, PendingProposals, StandingRejection
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals, SignalState
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Keep, Move, RemoveReplica, Retune, Wait
from plimsoll.rebalance.state.history import Called, ChangeHistory, ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import Learned, LoopMemory, Suspect
from plimsoll.rebalance.state.replacement import LONGEST_SECONDS, Replacement
from plimsoll.rebalance.state.situation import Newcomer
from plimsoll.status.record.reading import Record, read
from plimsoll.status.record.report import RebalancingReport, Report
from plimsoll.status.writing import document_of, new_status
from tests.support.engine_loads import Serves, moments, replica_model
from tests.support.engine_loads import pod as pod_signals
from tests.support.hypotheses import no_room, room_for_all
from tests.support.live_passes import AUTO, L40S, Open
from tests.support.live_situations import enough_for
from tests.support.planning import ENGINE, H100, fleet, node, pool, request, tenant
from tests.support.terms import terms_of
from tests.support.world_plans import planned

NOW = 1_700_000_000.0
CAPACITY = 100_000
FIGURES = MemoryEstimate(
    terms=terms_of(weights=10, kv_cache=10),
    margin_bytes=0,
    outside_bytes=0,
    usable_bytes=100,
    budget_bytes=90,
    kv_bytes_per_token=1,
    kv_needed_tokens=65_536,
    kv_capacity_tokens=CAPACITY,
)
PRESSURE, SLACK, EASY = 1.0, 0.0, 0.6
ENOUGH = enough_for(1, 30, now=NOW)
L40S_TARGET = Target("l40s-48gb", Split(1), ("k", "v"), "nvidia.com/gpu")


def spec_of(replicas: int = 1, **rebalancing: Any) -> InferenceDeploymentSpec:
    given = {"mode": "Auto", "minReplicas": 1, "maxReplicas": 3, "windowSeconds": 20, "cooldownSeconds": 30}
    document = {
        "model": {"name": "Qwen/Qwen2.5-7B-Instruct"},
        "contextLength": 4096,
        "concurrency": 16,
        "replicas": replicas,
        "rebalancing": given | rebalancing,
    }
    return InferenceDeploymentSpec.model_validate(document)


def pods_of(count: int, pool: str = "a") -> Surroundings:
    pods = tuple(
        PodFacts(f"{pool}-{index}", bound=True, ready=True, ended=False, terminating=False, ready_since=NOW - 3600)
        for index in range(count)
    )
    return Surroundings({pool: pods}, {})


def reading_of(around: Surroundings, usage: float, *, capacity: int = CAPACITY) -> Reading:
    def sample(ago: float) -> EngineSample:
        return EngineSample(
            at=NOW - ago,
            kv_usage=usage,
            waiting=0,
            running=1,
            preemptions_total=0,
            kv_capacity_tokens=capacity,
            prompt_tokens_total=1000 - ago,
            generation_tokens_total=1000 - ago,
        )

    samples = tuple(sample(ago) for ago in (19.0, 10.0, 1.0))
    return Reading({pod.name: PodSignals(pod.name, samples) for pod in around.ready_pods()})


def turn_of(
    spec: InferenceDeploymentSpec,
    status: Mapping[str, Any] | None = None,
    *,
    usage: float = EASY,
    replicas: int = 1,
    figures: MemoryEstimate | None = FIGURES,
    reading: Reading | None = None,
    moving: bool = False,
    memory: LoopMemory | None = None,
    what_if: Callable[[int], WhatIf] = room_for_all,
    pending: PendingProposals | None = None,
) -> LoopTurn:
    around = pods_of(replicas)
    standing = Standing.read(spec, recorded(status or {}))
    if memory is not None:
        standing = replace(standing, memory=memory)
    signals = reading_of(around, usage) if reading is None else reading
    about = what_if(standing.target_replicas)
    return take_turn(spec, standing, Running(figures, moving=moving), around, signals, about, now=NOW, pending=pending)


def destination(turn: LoopTurn) -> dict[str, int]:
    """Replicas by GPU type after the change that is carried out."""
    assert turn.answer is not None
    return {pool.gpu_type: pool.replicas for pool in turn.answer.decision.pools}


def status_of(report: RebalancingReport) -> dict[str, Any]:
    return document_of(new_status(Report("x", 1, 1, rebalancing=report), Record(), ""))


def recorded(status: Mapping[str, Any]) -> Record:
    """A status as it is read; a decision is added where a test needs none."""
    loop = {"decision": "Keep", "reason": "WithinBand", "message": ""}
    return read({**status, "rebalancing": loop | status["rebalancing"]} if "rebalancing" in status else status)


# -- where the loop stands, as the status tells ------------------------------------------------------------------------


def test_without_a_status_the_target_is_the_users_number() -> None:
    assert Standing.read(spec_of(2), Record()) == Standing(2, 2, ChangeHistory())


def test_the_target_is_kept_while_the_user_says_the_same() -> None:
    previous = {"rebalancing": {"baseReplicas": 1, "targetReplicas": 3}}
    assert Standing.read(spec_of(1), recorded(previous)).target_replicas == 3


ADDED = {"at": to_rfc3339(NOW), "kind": "Add", "reason": "SustainedQueue", "replicas": 3}


def test_a_new_number_of_the_users_resets_the_target_and_not_the_budget() -> None:
    previous = {"rebalancing": {"baseReplicas": 1, "targetReplicas": 3, "changes": [ADDED]}}
    standing = Standing.read(spec_of(2), recorded(previous))
    assert (standing.base_replicas, standing.target_replicas) == (2, 2)
    assert standing.history.changes == (ChangeRecord(NOW, ChangeKind.ADD, "SustainedQueue", 3),)


@pytest.mark.parametrize("mode", ["Off", "Recommend"])
def test_the_target_outlives_the_mode_and_ends_with_the_number(mode: str) -> None:
    previous = {"rebalancing": {"baseReplicas": 1, "targetReplicas": 3, "approved": True}}
    kept = Standing.read(spec_of(1, mode=mode), recorded(previous))
    assert (kept.target_replicas, kept.approved) == (3, mode == "Recommend")
    assert "spec.replicas is 1, and 3 are kept: in mode " + mode in kept_sentence(spec_of(1, mode=mode), kept)
    ended = Standing.read(spec_of(2, mode=mode), recorded(previous), unread=3)
    assert (ended.target_replicas, ended.approved) == (2, False)
    assert kept_sentence(spec_of(2, mode=mode), ended) == ""
    auto = Standing.read(spec_of(1), recorded(previous))
    assert (auto.target_replicas, auto.approved) == (3, False)
    assert kept_sentence(spec_of(1), auto) == ""
    asleep = {"rebalancing": {"baseReplicas": 1, "targetReplicas": 0}}
    assert Standing.read(spec_of(1, mode=mode), recorded(asleep)).target_replicas == 1, "nothing else would wake it"


@pytest.mark.parametrize(
    ("number", "unread", "base", "target"),
    [
        (2, 9, 1, 9),
        (2, 5, 1, 5),
        (2, 2, 2, 2),
        (2, 0, 2, 2),
        (0, 9, 0, 0),
        (12, 9, 12, 12),
    ],
)
def test_in_auto_a_smaller_number_waits_until_the_load_of_what_serves_is_known(
    number: int, unread: int, base: int, target: int
) -> None:
    previous = recorded({"rebalancing": {"baseReplicas": 1, "targetReplicas": 9}})
    spec = spec_of(number, maxReplicas=20)
    standing = Standing.read(spec, previous, unread=unread)
    assert (standing.base_replicas, standing.target_replicas) == (base, target)
    assert ("until metrics are read" in kept_sentence(spec, standing)) is (base != number)


def test_answers_read_back_as_they_were_and_one_without_a_time_is_left_out() -> None:
    answered = AnsweredProposals(
        (StandingRejection("1" * 12, "alex", "no budget", NOW, 2), StandingRejection("2" * 12, "kim", "", NOW, 2)),
        ("uid-1",),
    )
    standing = Standing(1, 1, ChangeHistory(), answered=answered)
    written = status_of(LoopTurn(standing, Keep(DecisionReason.MODE_OFF)).report(Record(), RebalancingMode.RECOMMEND))
    assert Standing.read(spec_of(1, mode="Recommend"), recorded(written)).answered == answered
    written["rebalancing"]["rejected"][0]["until"] = "some day"
    assert Standing.read(spec_of(1), recorded(written)).answered.refusals == answered.refusals[1:]


def test_what_a_status_says_reads_back_as_it_was_and_what_is_no_change_is_left_out() -> None:
    history = ChangeHistory(
        (ChangeRecord(NOW - 60, ChangeKind.REMOVE, "SustainedSlack", 1), ChangeRecord(NOW, ChangeKind.ADD))
    )
    learned = Learned("a", 1.25, 90.0, others=(("b", 1.5), ("c", 0.9)))
    standing = Standing(1, 2, history, "the last one", memory=LoopMemory.of(learned), learned=learned)
    written = status_of(LoopTurn(standing, Keep(DecisionReason.MODE_OFF)).report(Record(), RebalancingMode.AUTO))
    assert Standing.read(spec_of(1), recorded(written)) == standing
    changes = written["rebalancing"]["changes"]
    written["rebalancing"]["changes"] = [{**changes[0], "at": "yesterday"}, {**changes[0], "kind": "Guess"}, changes[1]]
    assert Standing.read(spec_of(1), recorded(written)).history.changes == history.changes[1:]


def test_a_speed_that_nobody_could_have_measured_is_not_believed() -> None:
    for percent, known in ((125, True), (0, False), (-5, False)):
        entry = {"learned": {"pool": "a", "tokenTimePercent": percent}}
        standing = Standing.read(spec_of(1), recorded({"rebalancing": entry}))
        assert (standing.learned is not None) is known
        assert standing.memory.slowness == (1.25 if known else 1.0)


@pytest.mark.parametrize(("percent", "slowness"), [(125, 1.25), (900, 3.0), (1, 1 / 3), (0, 1.5), (-5, 1.5)])
def test_a_place_that_was_left_is_as_slow_as_the_status_says_within_what_can_be_learned(
    percent: int, slowness: float
) -> None:
    """Where the status says nothing usable, it is as slow as the present place."""
    learned = {"pool": "a", "tokenTimePercent": 150, "elsewhere": [{"pool": "b", "tokenTimePercent": percent}]}
    standing = Standing.read(spec_of(1), recorded({"rebalancing": {"learned": learned}}))
    assert standing.memory.slowness_at("b") == pytest.approx(slowness)
    assert standing.memory.slowness_at("c") == 1.5


# -- one turn ----------------------------------------------------------------------------------------------------------


def test_auto_carries_a_change_into_the_target_and_the_history() -> None:
    turn = turn_of(spec_of(), usage=PRESSURE)
    assert isinstance(turn.decision, AddReplica)
    assert (turn.acted, turn.standing.target_replicas, destination(turn)) == (True, 2, {"l40s-48gb": 2})
    # 18 tokens of one answer in 18 s, each of which reads 9 on average
    called = Called("kv_percent", 100, seconds=18, read_tokens=18 * 9 * 60 // 18)
    made = ChangeRecord(NOW, ChangeKind.ADD, "SustainedKvPressure", 2, added=1, called=called)
    assert turn.standing.history.changes == (made,)
    assert turn.standing.last_change is not None
    assert turn.standing.last_change.startswith(f"{to_rfc3339(NOW)}: 2 replicas are needed")


def test_a_replacement_that_ends_in_vain_and_an_addition_in_the_same_turn_are_both_recorded() -> None:
    slow = DecisionReason.REPLICA_SLOW
    memory = LoopMemory("a", suspects=(Suspect("a-0", slow, NOW - 5000, 2.0, 0.1, 0.05),))
    replacing = Replacement("a-0", "node", slow, NOW - LONGEST_SECONDS)
    standing = Standing(1, 1, ChangeHistory(), memory=memory, replacement=replacing)
    around = pods_of(1)
    turn = take_turn(
        spec_of(), standing, Running(FIGURES, pool="a"), around, reading_of(around, PRESSURE), room_for_all(1), now=NOW
    )
    assert [(each.kind, each.at) for each in turn.standing.history.changes] == [
        (ChangeKind.ROLL_BACK, NOW),
        (ChangeKind.ADD, NOW),
    ]


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_new_pod_on_the_node_of_a_slow_replica_ends_before_it_serves_three_times_at_most(*, is_ready: bool) -> None:
    slow, spec = DecisionReason.REPLICA_SLOW, spec_of()
    memory = LoopMemory("a", suspects=(Suspect("a-0", slow, NOW - 500, 2.0, 0.1, 0.05),))
    standing = Standing(1, 1, ChangeHistory(), memory=memory, replacement=Replacement("a-0", "bad", slow, NOW - 60))
    here = pods_of(1)
    old = replace(here.pods["a"][0], node="bad", bound_since=NOW - 3600)
    ended = []
    for number in range(1, 6):
        new = replace(old, name=f"a-{number}", ready=is_ready, ready_since=None, bound_since=NOW - 1)
        elsewhere = replace(new, name="a-9", node="good")
        around = Surroundings({"a": (old, elsewhere, new)}, {})
        for _ in range(2):  # an eviction that is refused is tried again
            signals = reading_of(here, EASY)
            turn = take_turn(spec, standing, Running(FIGURES, pool="a"), around, signals, room_for_all(1), now=NOW)
            ended.append(turn.ends)
            kept = recorded(status_of(turn.report(Record(), RebalancingMode.AUTO))).replacing
            assert kept == turn.standing.replacement
            standing = turn.standing
    assert ended == [""] * 10 if is_ready else ["a-1", "a-1", "a-2", "a-2", "a-3", "a-3", *[""] * 4]


REPLACED = DecisionReason.REPLICA_SLOW, DecisionReason.REPLICA_SILENT


@pytest.mark.parametrize(
    ("reason", "known", "is_heard", "given_up", "cleared"),
    [
        (REPLACED[0], (REPLACED[0],), False, "", set()),
        (REPLACED[1], (REPLACED[1], REPLACED[0]), True, "it is like the others again", set()),
        (REPLACED[0], (), True, "it is like the others again", {"bad"}),
        (DecisionReason.MAKES_ROOM, (), True, "nobody needs its room", set()),
    ],
)
def test_a_node_is_cleared_by_a_replica_that_is_well_again_and_by_no_other_end(
    reason: DecisionReason, known: Sequence[DecisionReason], given_up: str, cleared: set[str], *, is_heard: bool
) -> None:
    """Not by one that is slow and falls silent, nor by one that speaks again and is slow, nor by room for others."""
    pods = tuple(replace(pod, node=node) for pod, node in zip(pods_of(2).pods["a"], ("bad", "good"), strict=True))
    around, old = Surroundings({"a": pods}, {}), pods[0].name
    signals = reading_of(around, EASY)
    heard = signals if is_heard else replace(signals, pods={pods[1].name: signals.pods[pods[1].name]})
    memory = LoopMemory("a", suspects=tuple(Suspect(old, each, NOW - 500, 2.0, 0.1, 0.05) for each in known))
    standing = Standing(2, 2, ChangeHistory(), memory=memory, replacement=Replacement(old, "bad", reason, NOW - 60))
    left = [Rehoming("l4-24gb", Split(1), REPLACED[0].value, node, at=NOW - 60) for node in ("bad", "other")]
    running = Running(FIGURES, pool="a")
    turn = take_turn(spec_of(), standing, running, around, heard, room_for_all(2), now=NOW, left=left)
    assert turn.cleared == cleared
    assert turn.given_up == (f"Pod {old} is not replaced: {given_up}." if given_up else "")
    assert (turn.standing.replacement is None) is bool(given_up)


@pytest.mark.parametrize(
    ("reason", "wanted", "said"),
    [(DecisionReason.GIVES_WAY, 2, "does not end"), (DecisionReason.MAKES_ROOM, 1, "is not replaced")],
)
def test_a_replica_whose_room_nobody_needs_is_wanted_again_if_it_was_to_end(
    reason: DecisionReason, wanted: int, said: str
) -> None:
    """One that gives way is wanted no more while it ends; one that moves for others is wanted all along."""
    around = pods_of(2)
    old = around.pods["a"][0]
    standing = Standing(1, 1, ChangeHistory(), replacement=Replacement(old.name, "", reason, NOW - 60))
    signals, running = reading_of(around, SLACK), Running(FIGURES, pool="a")
    turn = take_turn(spec_of(), standing, running, around, signals, room_for_all(2), now=NOW)
    assert turn.given_up == f"Pod {old.name} {said}: nobody needs its room."
    assert turn.standing.target_replicas == wanted


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_of_an_engine_of_which_nothing_was_learned_nothing_is_written(engine: str) -> None:
    around = pods_of(1)
    silent = replace(reading_of(around, EASY), pods={})
    running = Running(FIGURES, pool="a", engine=engine)
    turn = take_turn(spec_of(), Standing(1, 1, ChangeHistory()), running, around, silent, room_for_all(1), now=NOW)
    assert turn.standing.learned is None


def test_auto_takes_a_replica_away_under_slack() -> None:
    previous = {"rebalancing": {"baseReplicas": 1, "targetReplicas": 2}}
    turn = turn_of(spec_of(), previous, usage=SLACK, replicas=2, memory=ENOUGH)
    assert isinstance(turn.decision, RemoveReplica)
    assert (turn.acted, turn.standing.target_replicas, destination(turn)) == (True, 1, {"l40s-48gb": 1})


@pytest.mark.parametrize("what_if", [room_for_all, no_room])
def test_recommend_says_the_same_and_does_nothing(what_if: Callable[[int], WhatIf]) -> None:
    """It says so without a place as well: the reader may make one."""
    turn = turn_of(spec_of(mode="Recommend"), usage=PRESSURE, what_if=what_if)
    assert isinstance(turn.decision, AddReplica)
    assert (turn.acted, turn.answer, turn.standing.history) == (False, None, ChangeHistory())
    assert turn.standing.target_replicas == 1
    assert (turn.proposal is None) is (what_if is no_room)


def test_without_a_desk_nothing_can_be_approved_and_no_id_is_given() -> None:
    turn = turn_of(spec_of(mode="Recommend"), usage=PRESSURE)
    assert (turn.offered_id, turn.offered) == (None, None)
    with_desk = turn_of(spec_of(mode="Recommend"), usage=PRESSURE, pending=PendingProposals("uid", 1))
    assert with_desk.offered_id is not None
    assert with_desk.offered is not None
    assert [pool.replicas for pool in with_desk.offered.then.pools] == [2]
    full = turn_of(spec_of(mode="Recommend"), usage=PRESSURE, pending=PendingProposals("uid", 1), what_if=no_room)
    assert full.offered_id is None, "what has no place cannot be carried out"
    assert turn_of(spec_of(), usage=PRESSURE, pending=PendingProposals("uid", 1)).offered_id is None


@pytest.mark.parametrize(("moves", "acted"), [(None, True), ("Auto", True), ("Recommend", False)])
def test_auto_leaves_moves_to_people_where_the_spec_says_so(moves: str | None, *, acted: bool) -> None:
    signals = reading_of(pods_of(1), EASY, capacity=60_000)
    turn = turn_of(spec_of(moves=moves), reading=signals)
    assert (isinstance(turn.decision, Move), turn.acted) == (True, acted)
    proposal = turn.report(Record(), RebalancingMode.AUTO).proposal
    assert (proposal is None) is acted
    assert acted or str(proposal).startswith("Set spec.rebalancing.moves to Auto to move. ")
    assert turn_of(spec_of(moves=moves), usage=PRESSURE).acted, "scaling is carried out"


def test_nothing_is_decided_while_old_replicas_serve_for_new_ones() -> None:
    turn = turn_of(spec_of(), usage=PRESSURE, moving=True)
    assert (type(turn.decision), turn.decision.reason) == (Wait, DecisionReason.MOVE_UNDER_WAY)
    assert not turn.acted


def test_an_engine_with_too_little_kv_cache_is_a_reason_to_move() -> None:
    signals = reading_of(pods_of(1), EASY, capacity=60_000)
    turn = turn_of(spec_of(), reading=signals)
    assert (type(turn.decision), turn.decision.reason) == (Move, DecisionReason.PLACEMENT_TOO_SMALL)
    assert (turn.acted, turn.standing.target_replicas, destination(turn)) == (True, 1, {"h100-sxm-80gb": 1})


@pytest.mark.parametrize("figures", [None, replace(FIGURES, forced_bytes=80)], ids=["unknown", "overridden"])
def test_it_does_not_move_where_the_placement_would_not_call_it_too_small(figures: MemoryEstimate | None) -> None:
    signals = reading_of(pods_of(1), EASY, capacity=60_000)
    assert turn_of(spec_of(), reading=signals, figures=figures).decision.reason is DecisionReason.WITHIN_BAND


def test_prometheus_away_is_a_wait_that_keeps_the_standing() -> None:
    previous = {
        "rebalancing": {"baseReplicas": 1, "targetReplicas": 2, "changes": [{**ADDED, "at": to_rfc3339(NOW - 60)}]}
    }
    turn = turn_of(
        spec_of(), previous, replicas=2, reading=Reading(state=SignalState.UNAVAILABLE, error="Connection refused")
    )
    assert turn.decision.reason is DecisionReason.METRICS_UNAVAILABLE
    assert turn.standing.target_replicas == 2
    assert [mark.at for mark in turn.standing.history.changes] == [NOW - 60]
    report = turn.report(recorded(previous), RebalancingMode.AUTO)
    assert report.message == "Waiting: there are no usable metrics. Connection refused."


def test_only_a_deployment_that_may_sleep_has_an_idle_time() -> None:
    zero = policy_of(spec_of(minReplicas=0, gateway={"inferencePool": "chat"}))
    assert (zero.min_replicas, zero.idle_seconds, zero.wakes) == (0, 1800, True)
    by_hand = policy_of(spec_of(minReplicas=0, gateway={"inferencePool": "chat"}, wake="Manual", idleSeconds=60))
    assert (by_hand.idle_seconds, by_hand.wakes) == (60, False)
    assert policy_of(spec_of(minReplicas=1, gateway={"inferencePool": "chat"})).idle_seconds is None


def test_with_an_external_scaler_no_bound_of_replicas_counts() -> None:
    outside = policy_of(spec_of(scale="External", minReplicas=2, maxReplicas=3))
    assert (outside.scales, outside.min_replicas, outside.max_replicas) == (False, 0, 1000)
    assert outside.idle_seconds is None
    assert policy_of(spec_of(scale="Plimsoll", minReplicas=2)).min_replicas == 2


def test_an_external_scalers_number_is_the_target_whatever_the_loop_wanted_before() -> None:
    previous = {"baseReplicas": 1, "targetReplicas": 3}
    entry = {"decision": "Keep", "reason": "WithinBand", "message": "", **previous}
    status = recorded({"rebalancing": entry})
    assert Standing.read(spec_of(1, scale="External"), status).target_replicas == 1
    assert Standing.read(spec_of(1), status).target_replicas == 3


@pytest.mark.parametrize(
    ("target", "said", "wanted"),
    [(0, {}, 0), (0, {"came_back": False}, 0), (0, {"came_back": True}, 1), (3, {"came_back": True}, 3)],
)
def test_who_scales_to_zero_and_back_wakes_a_deployment_without_replicas(
    target: int, said: dict[str, bool], wanted: int
) -> None:
    status = recorded({"rebalancing": {"baseReplicas": 1, "targetReplicas": target}})
    sleeper = spec_of(1, minReplicas=0, wake="Manual")
    assert Standing.read(sleeper, status, **said).target_replicas == wanted


# -- the words of a report ---------------------------------------------------------------------------------------------


def test_the_words_stay_while_the_decision_does_whatever_the_figures() -> None:
    spec = spec_of(mode="Recommend")
    first = turn_of(spec, usage=0.98).report(Record(), RebalancingMode.RECOMMEND)
    later = turn_of(spec, usage=0.99).report(read(status_of(first)), RebalancingMode.RECOMMEND)
    assert "98 %" in first.message
    assert later == first


def test_another_change_that_waits_deserves_new_words() -> None:
    full = turn_of(spec_of(maxReplicas=1), usage=PRESSURE)
    first = full.report(Record(), RebalancingMode.AUTO)
    assert first.message == "Waiting (SustainedKvPressure): there are as many replicas as allowed, 1."
    earlier = replace(first, message="Waiting (BacklogTooLong): there are as many replicas as allowed, 1.")
    assert full.report(read(status_of(earlier)), RebalancingMode.AUTO) == first


def test_another_fault_of_prometheus_deserves_new_words() -> None:
    def seen(error: str, before: Record) -> RebalancingReport:
        reading = Reading(state=SignalState.UNAVAILABLE, error=error)
        return turn_of(spec_of(), reading=reading).report(before, RebalancingMode.AUTO)

    first = seen("Connection refused", Record())
    assert seen("Connection refused", read(status_of(first))) == first
    assert seen("No answer", read(status_of(first))).message.endswith("No answer.")


def test_another_number_of_replicas_deserves_new_words() -> None:
    first = turn_of(spec_of(mode="Recommend"), usage=0.98).report(Record(), RebalancingMode.RECOMMEND)
    second = turn_of(spec_of(2, mode="Recommend"), usage=0.99, replicas=2)
    previous = second.report(read(status_of(first)), RebalancingMode.RECOMMEND)
    assert previous.proposal is not None
    assert previous.proposal.startswith("Set spec.replicas to 3. ")
    assert "2 replicas wanted so far" in previous.message


def test_a_change_carried_out_is_told_anew() -> None:
    previous = {
        "rebalancing": {
            "decision": "AddReplica",
            "reason": "SustainedKvPressure",
            "message": "an earlier one",
            "baseReplicas": 1,
            "targetReplicas": 2,
        }
    }
    report = turn_of(spec_of(), previous, usage=PRESSURE, replicas=2).report(recorded(previous), RebalancingMode.AUTO)
    assert report.target_replicas == 3
    assert report.message.startswith("3 replicas are needed")


def test_proposals_are_for_recommend_mode_and_for_changes_only() -> None:
    recommend = spec_of(2, mode="Recommend")
    slack = turn_of(recommend, usage=SLACK, replicas=2, memory=ENOUGH).report(Record(), RebalancingMode.RECOMMEND)
    assert (slack.proposal or "").startswith("Set spec.replicas to 1. 1 of 2 replicas has been enough")
    assert turn_of(recommend, replicas=2).report(Record(), RebalancingMode.RECOMMEND).proposal is None
    assert turn_of(spec_of(), usage=PRESSURE).report(Record(), RebalancingMode.AUTO).proposal is None
    small = reading_of(pods_of(1), EASY, capacity=60_000)
    move = turn_of(spec_of(mode="Recommend"), reading=small).report(Record(), RebalancingMode.RECOMMEND)
    assert (move.proposal or "").startswith("Set spec.rebalancing.mode to Auto to move. Another placement is needed")


def test_a_change_without_a_place_is_not_made_is_said_with_its_reason_and_costs_no_budget() -> None:
    turn = turn_of(spec_of(), usage=PRESSURE, what_if=no_room)
    assert (turn.acted, turn.proposal, turn.standing.history) == (False, None, ChangeHistory())
    assert turn.standing.target_replicas == 1
    report = turn.report(Record(), RebalancingMode.AUTO)
    assert (report.decision, report.reason, report.target_replicas) == ("Wait", "NoPlaceFound", 1)
    assert report.message == (
        "Waiting (SustainedKvPressure): no place was found for it; nearest: l4-24gb x 1 fits, but takes 1 GPU on one "
        "node and at most 0 are free."
    )
    again = turn_of(spec_of(), usage=0.99, what_if=partial(no_room, nearest="h100-sxm-80gb"))
    assert again.decision != turn.decision
    assert again.report(read(status_of(report)), RebalancingMode.AUTO) == report


# -- what a pass without a turn leaves ---------------------------------------------------------------------------------


def test_a_pass_without_a_turn_forgets_nothing_unless_the_loop_is_off() -> None:
    previous = status_of(turn_of(spec_of(), usage=PRESSURE).report(Record(), RebalancingMode.AUTO))
    report = Report("x", 1, 1)
    assert document_of(new_status(report, read(previous), ""))["rebalancing"] == previous["rebalancing"]
    assert new_status(replace(report, rebalancing_off=True), read(previous), "").rebalancing is None


# -- what engines report -----------------------------------------------------------------------------------------------


def reports(generation: int, **tokens: int | None) -> Record:
    """The pools of a status with what their engines reported."""
    pools = [
        PoolStatus.model_construct(name=name, generation=generation, kv_tokens_reported=tokens[name]) for name in tokens
    ]
    return Record(status=InferenceDeploymentStatus(pools=pools))


def test_a_pool_is_as_large_as_its_smallest_engine_and_stays_so_while_nobody_reports() -> None:
    around = pods_of(2)
    reading = Reading(
        {
            **reading_of(pods_of(1), EASY, capacity=70_000).pods,
            "a-1": PodSignals("a-1", (EngineSample(at=NOW - 9, kv_capacity_tokens=None),)),
        }
    )
    previous = reports(4, a=65_000, b=1, c=None)
    assert reported_now(around, reading) == {"a": 70_000}
    assert reported_tokens(previous, 4, {"a": 70_000}) == {"a": 70_000, "b": 1}
    for nobody in (Reading(state=SignalState.UNAVAILABLE), None):
        assert reported_now(around, nobody) == {}
    assert reported_tokens(previous, 4, {}) == {"a": 65_000, "b": 1}


def test_what_engines_said_under_another_spec_is_not_said_of_those_that_follow() -> None:
    assert reported_tokens(reports(4, a=65_000), 5, {}) == {}


def test_what_proved_too_small_is_remembered_until_the_spec_changes_and_never_against_what_runs() -> None:
    entry = {"gpuType": "l4-24gb", "tensorParallel": 1, "kvTokens": 30_000, "spec": "before"}
    previous = read({"tooSmall": [entry]})
    large = Pool("b", L40S_TARGET, PoolState.ACTIVE, 4, 1)
    small = replace(large, name="a", target=replace(L40S_TARGET, gpu_type="l4-24gb"))
    remembered = ObservedCapacity("l4-24gb", Split(1), 30_000)
    seen = ObservedCapacity("l40s-48gb", Split(1), 90_000)
    around = Surroundings({}, {})
    assert observed_capacities(previous, "before", [large], around, {"b": 90_000}) == (seen, remembered)
    assert observed_capacities(previous, "after", [large], around, {"b": 90_000}) == (seen,)
    here = ObservedCapacity("l4-24gb", Split(1), 80_000)
    assert observed_capacities(previous, "before", [small], around, {"a": 80_000}) == (here,)
    other = replace(here, engine="sglang")
    of_sglang = replace(small, engine="sglang")
    assert observed_capacities(previous, "before", [of_sglang], around, {"a": 80_000}) == (other, remembered)


def test_engines_that_are_being_replaced_say_nothing_of_those_to_come() -> None:
    body = {"metadata": {"generation": 2}, "spec": {"replicas": 1}, "status": {"observedGeneration": 1}}
    pool = Pool("b", L40S_TARGET, PoolState.ACTIVE, 4, 1)
    assert observed_capacities(Record(), "x", [pool], Surroundings({}, {"b": body}), {"b": 90_000}) == ()


# -- limits and loads --------------------------------------------------------------------------------------------------


def test_without_an_upper_limit_recommend_mode_proposes_up_to_1000_replicas() -> None:
    open_ended = spec_of(mode="Recommend", maxReplicas=None)
    assert policy_of(open_ended).max_replicas == 1000
    assert policy_of(spec_of(maxReplicas=3)).max_replicas == 3


def test_no_more_are_kept_than_the_upper_limit_allows() -> None:
    assert policy_of(spec_of(minReplicas=2, maxReplicas=3)).min_replicas == 2


def test_only_auto_with_the_number_that_it_began_with_keeps_its_target() -> None:
    entry = {"rebalancing": {"baseReplicas": 1, "targetReplicas": 3, "lastChange": "03:00: one replica more"}}
    kept = Standing.read(spec_of(1), recorded(entry))
    assert (kept.target_replicas, kept.last_change) == (3, "03:00: one replica more")
    undecided = {"rebalancing": {"baseReplicas": 1}}
    assert Standing.read(spec_of(1), recorded(undecided)).target_replicas == 1
    unknown = {"rebalancing": {"targetReplicas": 3}}
    assert Standing.read(spec_of(1), recorded(unknown)).target_replicas == 1


def test_an_engine_counts_with_its_latest_figure_and_a_pool_with_its_smallest_engine() -> None:
    around = pods_of(2)
    first = (EngineSample(at=NOW - 1, kv_capacity_tokens=500), EngineSample(at=NOW - 9, kv_capacity_tokens=900))
    second = (EngineSample(at=NOW - 1, kv_capacity_tokens=700),)
    reading = Reading({"a-0": PodSignals("a-0", first), "a-1": PodSignals("a-1", second)})
    assert reported_now(around, reading) == {"a": 500}
    starting = Surroundings({"a": (replace(around.pods["a"][0], ready=False), around.pods["a"][1])}, {})
    assert reported_now(starting, reading) == {"a": 700}


def test_a_silent_engine_has_the_cache_of_the_estimate() -> None:
    standing = Standing(2, 2, ChangeHistory())
    around = pods_of(2)
    silent = reading_of(around, PRESSURE)
    samples = tuple(replace(each, kv_capacity_tokens=None) for each in silent.pods["a-1"].samples)
    reading = Reading({**silent.pods, "a-1": PodSignals("a-1", samples)})
    policy = policy_of(spec_of(2))
    for figures, held in ((None, CAPACITY), (FIGURES, 2 * CAPACITY)):
        load = load_of(Running(figures), around, reading, policy, standing.history, now=NOW)
        assert load.held_tokens == held


# -- what the turn reads of the pods, and what it learns ---------------------------------------------------------------


def starting_pod(name: str, **changes: Any) -> PodFacts:
    return replace(
        PodFacts(name, bound=True, ready=False, ended=False, terminating=False, bound_since=NOW - 9999), **changes
    )


@pytest.mark.parametrize(
    ("pod", "added"),
    [
        (starting_pod("b"), True),
        (starting_pod("b", bound_since=NOW - 60), False),
        (starting_pod("b", bound_since=NOW - 500), False),
        (starting_pod("b", bound_since=NOW - 500, restarts=1), True),
        (starting_pod("b", bound_since=NOW - 500, failure=EngineFailure(StartFailure.OUT_OF_MEMORY, "")), True),
        (starting_pod("b", bound_since=None), False),
        (starting_pod("b", terminating=True), False),
        (starting_pod("b", ended=True), False),
    ],
    ids=["stuck", "starts", "a long first start", "started again", "failed", "waits for a node", "ends", "ended"],
)
def test_a_pod_that_does_not_get_ready_is_no_supply(pod: PodFacts, added: bool) -> None:  # noqa: FBT001
    """Two replicas are needed and two are wanted; one of these serves."""
    one = pods_of(1)
    around = Surroundings({"a": (*one.pods["a"], pod)}, {})
    standing = Standing(2, 2, ChangeHistory())
    full = reading_of(one, PRESSURE)
    turn = take_turn(spec_of(2), standing, Running(FIGURES), around, full, room_for_all(2), now=NOW)
    assert isinstance(turn.decision, AddReplica) is added
    assert (turn.decision.reason is DecisionReason.REPLICAS_STUCK) is added


OUT_OF_MEMORY = EngineFailure(StartFailure.OUT_OF_MEMORY, "no room")


@pytest.mark.parametrize(
    ("pod", "newcomer"),
    [
        (starting_pod("b"), Newcomer(NOW - 9999)),
        (starting_pod("b", bound_since=None), None),
        (starting_pod("b", bound_since=None, unscheduled_since=NOW - 7), Newcomer(NOW - 7)),
        (starting_pod("b", unscheduled_since=NOW - 7, scheduler_message="0/3 nodes"), Newcomer(NOW - 7, "0/3 nodes")),
        (starting_pod("b", unscheduled_since=NOW - 7, obstacles=(Obstacle.GATES,)), None),
        (starting_pod("b", failure=OUT_OF_MEMORY), Newcomer(NOW - 9999, "no room", 2)),
        (starting_pod("b", failure=OUT_OF_MEMORY, restarts=1), Newcomer(NOW - 9999, "no room", 1)),
        (starting_pod("b", failure=OUT_OF_MEMORY, restarts=2), Newcomer(NOW - 9999, "no room", 2)),
        (starting_pod("b", failure=replace(OUT_OF_MEMORY, message="")), Newcomer(NOW - 9999, "EngineOutOfMemory", 2)),
        (starting_pod("b", restarts=1), Newcomer(NOW - 9999)),
        (starting_pod("b", ready=True, ready_since=NOW - 5), None),
        (starting_pod("b", terminating=True), None),
        (starting_pod("b", ended=True), None),
    ],
)
def test_the_placement_says_of_each_pod_how_far_it_is(pod: PodFacts, newcomer: Newcomer | None) -> None:
    one, standing = pods_of(1), Standing(2, 2, ChangeHistory())
    found = placement_of(standing, Running(FIGURES), Surroundings({"a": (*one.pods["a"], pod)}, {}), room_for_all(2))
    starts = not (pod.ready or pod.terminating or pod.ended)
    assert found.newcomers == (() if newcomer is None else (newcomer,))
    assert found.starting_since == ((pod.bound_since,) if starts and pod.bound_since else ())
    is_failing = starts and (pod.restarts > 0 or pod.failure is not None)
    assert found.failing_since == ((pod.bound_since,) if is_failing else ())
    assert (found.replicas, found.ready, len(found.serving)) == (2, 1 + pod.ready, 1 + pod.ready)
    assert found.settled_since == (pod.ready_since if pod.ready else NOW - 3600)


@pytest.mark.parametrize(
    ("wanted", "leaving", "is_updating"), [(3, 0, False), (2, 0, True), (2, 1, False), (1, 1, True)]
)
def test_pods_beyond_those_that_are_wanted_are_those_of_an_update(
    wanted: int, leaving: int, *, is_updating: bool
) -> None:
    pods = [replace(pod, terminating=index < leaving) for index, pod in enumerate(pods_of(3).pods["a"])]
    around, standing = Surroundings({"a": tuple(pods)}, {}), Standing(wanted, wanted, ChangeHistory())
    assert placement_of(standing, Running(FIGURES), around, room_for_all(wanted)).updating is is_updating


def test_without_an_estimate_nothing_is_known_of_the_cache() -> None:
    standing = Standing(1, 1, ChangeHistory())
    known, unknown = (placement_of(standing, Running(each), pods_of(1), room_for_all(1)) for each in (FIGURES, None))
    assert (known.kv_capacity_tokens, known.budget_bytes_per_gpu) == (CAPACITY, 90)
    assert (unknown.kv_capacity_tokens, unknown.budget_bytes_per_gpu, unknown.has_states) == (0, 0, False)


def test_a_removed_replica_takes_its_traffic_out_of_the_window() -> None:
    around, policy = pods_of(1), policy_of(spec_of(windowSeconds=120))
    reading = reading_of(around, EASY)
    removed = ChangeHistory((ChangeRecord(NOW - 10, ChangeKind.REMOVE),))
    for history, seconds in ((ChangeHistory(), 18.0), (removed, 15.0)):
        load = load_of(Running(FIGURES), around, reading, policy, history, now=NOW)
        assert load.traffic is not None
        assert load.traffic.steady.seconds == seconds


def learned_after(standing: Standing, startup: float | None, pool: str = "a") -> Standing:
    around = pods_of(1)
    pods = tuple(replace(pod, startup_seconds=startup) for pod in around.pods["a"])
    around = Surroundings({"a": pods}, {})
    reading = reading_of(around, EASY)
    running = Running(FIGURES, pool=pool)
    return take_turn(spec_of(), standing, running, around, reading, room_for_all(1), now=NOW).standing


def test_what_is_learned_is_written_and_small_differences_are_not() -> None:
    fresh = Standing(1, 1, ChangeHistory())
    assert learned_after(fresh, None).learned is None, "nothing was learned"
    first = learned_after(fresh, 100.0)
    assert first.learned == Learned("a", 1.0, 100.0)
    similar = learned_after(first, 104.0)
    assert (similar.learned, similar.memory.startup_seconds) == (first.learned, 104.0)
    assert learned_after(similar, 200.0).learned == Learned("a", 1.0, 200.0)


def test_of_the_replicas_of_another_pool_nothing_is_known() -> None:
    first = learned_after(Standing(1, 1, ChangeHistory()), 100.0)
    other = learned_after(first, None, pool="b")
    assert (other.memory.startup_seconds, other.learned) == (None, Learned("b"))


def test_a_turn_that_changes_nothing_writes_nothing_new() -> None:
    """A settled object causes no writes, whatever its figures do."""
    spec, status = spec_of(), dict[str, Any]()
    for usage in (0.5, 0.52, 0.49, 0.51):
        turn = turn_of(spec, status, usage=usage)
        written = status_of(turn.report(recorded(status), RebalancingMode.AUTO))
        assert not status or written == status
        status = written


@pytest.mark.parametrize(("fixed", "change", "known"), [(None, Retune, False), (8, AddReplica, True)])
def test_after_a_larger_limit_the_most_work_of_a_replica_is_known_no_more(
    fixed: int | None,
    change: type,
    known: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Else what the old engines did at most would bring a replica while the new ones start."""
    wanted = request(concurrency=8, engine=replace(ENGINE, max_sequences=fixed))
    runs = tenant(wanted, pool(H100, limits=StepLimits(sequences=8)))
    what_if = planned([runs], fleet(node("h", H100, 4, held=1))).what_if(runs.request.key)
    running = Running(model=replica_model(max_sequences=8), most_sequences=64, pool="a")
    full = Serves(rate=8.0, running=8, waiting=6)
    reading = Reading({"a-0": pod_signals("a-0", full, moments(end=NOW))})
    standing = Standing(1, 1, ChangeHistory(), memory=LoopMemory("a", queued_since=NOW - 60))
    turn = take_turn(spec_of(), standing, running, pods_of(1), reading, what_if, now=NOW)
    assert (type(turn.decision), turn.acted) == (change, True)
    assert (turn.standing.memory.most_work is not None) == known


def test_a_change_of_settings_is_proposed_by_its_field() -> None:
    numbers = (("replicas", 1), ("needed", 2), ("waiting", 0), ("prompt_tokens", 9), ("output_tokens", 9))
    turn = LoopTurn(
        Standing(1, 1, ChangeHistory()), Retune(DecisionReason.BATCH_LIMIT_BINDS, numbers, StepLimits(sequences=64))
    )
    report = turn.report(Record(), RebalancingMode.RECOMMEND)
    assert (report.proposal or "").startswith("Set spec.engine.maxSequences to 64. ")
    more = (("prompt_percent", 70), ("step", 2048), ("to_step", 8192), ("to_capacity_per_minute", 9))
    change = Retune(DecisionReason.PROMPT_STEP_TOO_SMALL, (*numbers, *more), StepLimits(8192))
    report = replace(turn, decision=change).report(Record(), RebalancingMode.RECOMMEND)
    assert (report.proposal or "").startswith("Set spec.engine.maxBatchedTokens to 8192. ")


@pytest.mark.parametrize(
    ("slo", "mode", "asks"),
    [
        ({"ttftMilliseconds": 2000}, "Auto", False),
        ({"ttftMilliseconds": 2000, "percentile": "P95"}, "Auto", True),
        ({"ttftMilliseconds": 2000, "percentile": "P95"}, "Off", False),
    ],
)
async def test_buckets_are_wanted_where_a_percentile_is_promised_and_looked_at(
    opened: Open,
    slo: dict[str, Any],
    mode: str,
    asks: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    there = opened(l40s=2)
    there.put("chat", L40S, slo=slo, rebalancing=AUTO | {"mode": mode})
    await there.settle()
    deployment = there.make()["chat"].outcome.deployment
    assert wanted_signals(deployment).buckets is asks
    assert deployment.asked.request is not None
    assert deployment.asked.request.slo == Slo(2.0, None, 95 if "percentile" in slo else None)


@pytest.mark.parametrize(("value", "said"), [("P90", "P50"), ("95", "P50"), (95, "P50"), ("p95", "P50")])
def test_an_unknown_percentile_is_refused_with_those_that_are_known(value: object, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        InferenceDeploymentSpec.model_validate(
            {"model": {"name": "a/b"}, "contextLength": 4096, "concurrency": 4}
            | {"slo": {"ttftMilliseconds": 1, "percentile": value}}
        )
