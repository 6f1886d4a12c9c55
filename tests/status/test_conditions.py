"""From what is known to conditions that kubectl, Flux and Argo CD understand."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from plimsoll.api.crd.schema import root_schema
from plimsoll.domain.decisions.outcomes import Rejection, Split
from plimsoll.domain.engines.engine_choice import NO_LIMITS, StepLimits
from plimsoll.domain.engines.failures import EngineFailure, StartFailure
from plimsoll.domain.public_words import ConditionReason, LiveTrouble, Reason
from plimsoll.placement.demands.clocks import EarlierSettings, RetuneClock
from plimsoll.placement.demands.failed_moves import Delay, FailedMove
from plimsoll.placement.demands.pools import Decision, PlannedPool, PoolState
from plimsoll.status.conditions import Since, conditions
from plimsoll.status.record.report import DeploymentProblem, PoolView, RebalancingReport, Report
from tests.render.workloads import decision
from tests.support.planning import H100, L4, LLAMA_70B_FP8, fleet, node, pool, request
from tests.support.tables import every_case

NOW, EARLIER = "2026-01-01T00:10:00Z", "2026-01-01T00:00:00Z"
POOL = "h100-sxm-80gb-tp1"
PLACED = decision()
FULL = decision(where=fleet(node("h", H100, 8, held=8)))
NOWHERE = decision(request(LLAMA_70B_FP8), fleet(node("l4", L4, 1)))


def report(decided: Decision | None = PLACED, *views: PoolView, replicas: int = 1, **more: Any) -> Report:
    return Report("llama", 3, replicas, decision=decided, pools=views, **more)


def view(pods: int = 1, ready: int = 1, **more: Any) -> PoolView:
    return PoolView(POOL, pods=pods, ready=ready, **more)


def shown(about: Report, **earlier: Since) -> dict[str, dict[str, Any]]:
    listed = conditions(about, earlier, NOW)
    assert len({each["type"] for each in listed}) == len(listed)
    return {each["type"]: each for each in listed}


def words(about: Report) -> dict[str, str]:
    """Each condition as ``status reason``."""
    return {kind: f"{each['status']} {each['reason']}" for kind, each in shown(about).items()}


OOM = EngineFailure(StartFailure.OUT_OF_MEMORY, "CUDA out of memory")
CRASHED = view(1, 0, failure=OOM, restarts=1)
TOKENS = (("have_tokens", 1), ("need_tokens", 2))
OUTGROWN = replace(PLACED, outgrown=Rejection(H100, Split(1), Reason.OBSERVED_TOO_SMALL, TOKENS))

RETUNE = RetuneClock((EarlierSettings(POOL, StepLimits(sequences=8)),), 1_767_225_600.0, 900.0, "s")
DUE = 1_767_226_210.0
"""Ten seconds after ``NOW``."""

MISSES = RebalancingReport("Keep", "PromiseMissed", "A token takes 90 ms.", trouble=LiveTrouble.PROMISE_MISSED)

TABLE: list[tuple[str, Report, dict[str, str | None]]] = [
    (
        "it serves",
        report(PLACED, view()),
        {
            "Ready": "True Serving",
            "Planned": "True PlacementDecided",
            "Placed": "True PodsScheduled",
            "Available": "True AllReplicasServe",
        },
    ),
    (
        "nobody has planned yet",
        report(None),
        {
            "Ready": "Unknown Pending",
            "Planned": "Unknown Pending",
            "Placed": "False NotPlanned",
            "Available": "False NoReplicaServes",
            "Reconciling": "True Pending",
        },
    ),
    (
        "the pods are not made yet",
        report(PLACED),
        {
            "Ready": "False CreatingPods",
            "Planned": "True PlacementDecided",
            "Placed": "False CreatingPods",
            "Available": "False NoReplicaServes",
        },
    ),
    (
        "the scheduler looks for a node",
        report(PLACED, view(1, 0, unbound=1, scheduler_message="0/3 nodes")),
        {"Ready": "False WaitingForScheduler", "Placed": "False WaitingForScheduler"},
    ),
    (
        "a quota forbids the pods",
        report(PLACED, view(0, 0, workload_error="exceeded quota")),
        {"Ready": "False PodsNotCreated", "Placed": "False PodsNotCreated"},
    ),
    (
        "weights are loading",
        report(PLACED, view(1, 0)),
        {"Ready": "False EnginesStarting", "Placed": "True PodsScheduled", "Available": "False EnginesStarting"},
    ),
    (
        "one of two serves",
        report(decision(request(replicas=2)), view(2, 1), replicas=2),
        {"Ready": "False SomeReplicasServe", "Available": "True SomeReplicasServe"},
    ),
    (
        "the engine died",
        report(PLACED, CRASHED),
        {
            "Ready": "False EngineOutOfMemory",
            "Available": "False EngineOutOfMemory",
            "Stalled": "True EngineOutOfMemory",
        },
    ),
    (
        "the engine died for the first time and is being started again",
        report(PLACED, replace(CRASHED, restarts=0)),
        {"Ready": "False EngineOutOfMemory", "Reconciling": "True EngineOutOfMemory"},
    ),
    (
        "a change rolls out while the old replica serves",
        report(PLACED, view(2, 1, updating=True)),
        {"Ready": "False RollingOut", "Available": "True RollingOut", "Reconciling": "True RollingOut"},
    ),
    (
        "a change crashes while the old replica serves",
        report(PLACED, view(2, 1, updating=True, failure=OOM, restarts=1)),
        {
            "Ready": "False EngineOutOfMemory",
            "Available": "True EngineOutOfMemory",
            "Stalled": "True EngineOutOfMemory",
        },
    ),
    (
        "the only new pod of a change crashes in the place that was added for it",
        report(PLACED, view(2, 1, updating=True, failure=OOM, restarts=0)),
        {"Ready": "False EngineOutOfMemory", "Reconciling": "True EngineOutOfMemory"},
    ),
    (
        "a change of the live loop crashes and will be taken back",
        report(PLACED, view(2, 1, updating=True, failure=OOM, restarts=9), retune=RETUNE, retune_due=DUE),
        {"Available": "True EngineOutOfMemory", "Reconciling": "True EngineOutOfMemory"},
    ),
    (
        "a change of the live loop crashes and cannot be taken back",
        report(PLACED, view(2, 1, updating=True, failure=OOM, restarts=9), retune=RETUNE, retune_due=DUE - 600),
        {"Available": "True EngineOutOfMemory", "Stalled": "True EngineOutOfMemory"},
    ),
    (
        "a replica of a change takes too long",
        report(PLACED, view(2, 1, updating=True), late_updates=frozenset({POOL})),
        {"Ready": "False ReplacementLate", "Available": "True ReplacementLate", "Stalled": "True ReplacementLate"},
    ),
    (
        "a replica of the same template takes long",
        report(decision(request(replicas=2)), view(2, 1), replicas=2, late_updates=frozenset({POOL})),
        {"Available": "True SomeReplicasServe"},
    ),
    (
        "the GPUs are taken",
        report(FULL),
        {"Ready": "False WaitingForGpus", "Planned": "False WaitingForGpus", "Reconciling": "True WaitingForGpus"},
    ),
    (
        "nothing fits",
        report(NOWHERE),
        {"Ready": "False NoGpuFits", "Planned": "False NoGpuFits", "Stalled": "True NoGpuFits"},
    ),
    (
        "a change waits for GPUs while the old placement serves",
        report(replace(FULL, pools=PLACED.pools, change_blocked=True), view()),
        {"Ready": "False ChangeWaitsForGpus", "Available": "True AllReplicasServe"},
    ),
    (
        "the placement was outgrown and serves on",
        report(OUTGROWN, view()),
        {"Ready": "True Serving", "Planned": "True PlacementTooSmall"},
    ),
    (
        "zero replicas are wanted",
        report(decision(request(replicas=0)), view(0, 0), replicas=0),
        {"Ready": "True ScaledToZero", "Available": "False ScaledToZero"},
    ),
    (
        "a field cannot be used",
        report(None, problem=DeploymentProblem(ConditionReason.INVALID_SPEC, "spec.precision: ...", permanent=True)),
        {"Ready": "False InvalidSpec", "Planned": "False InvalidSpec", "Stalled": "True InvalidSpec"},
    ),
    (
        "the hub does not answer",
        report(None, problem=DeploymentProblem(ConditionReason.MODEL_SOURCE_UNAVAILABLE, "no answer", permanent=False)),
        {"Ready": "Unknown ModelSourceUnavailable", "Planned": "Unknown ModelSourceUnavailable"},
    ),
    (
        "the Service's name is somebody else's",
        report(PLACED, name_conflict="Service ml/llama is not ours"),
        {"Ready": "False NameConflict", "Stalled": "True NameConflict"},
    ),
    (
        "it is suspended",
        report(PLACED, view(), suspended=True),
        {"Ready": "True Suspended", "Planned": "Unknown Suspended"},
    ),
    (
        "it is suspended and does not serve",
        report(PLACED, view(1, 0), suspended=True),
        {"Ready": "True Suspended", "Planned": "Unknown Suspended", "Available": "False EnginesStarting"},
    ),
    (
        "it is suspended and has no pods",
        report(None, suspended=True, replicas=1),
        {"Ready": "True Suspended", "Planned": "Unknown Suspended", "Available": "False NoReplicaServes"},
    ),
    (
        "it is suspended and its engine died",
        report(PLACED, CRASHED, suspended=True),
        {"Ready": "False EngineOutOfMemory", "Stalled": "True EngineOutOfMemory"},
    ),
    (
        "it serves and misses its promise",
        report(PLACED, view(), rebalancing=MISSES),
        {"Ready": "True Serving", "Troubled": "True PromiseMissed"},
    ),
    (
        "it missed its promise before its engine died",
        report(PLACED, CRASHED, rebalancing=MISSES),
        {"Ready": "False EngineOutOfMemory", "Stalled": "True EngineOutOfMemory", "Troubled": None},
    ),
]


@every_case(("about", "expected"), [each[1:] for each in TABLE], ids=[each[0] for each in TABLE])
def test_what_is_known_becomes_conditions(about: Report, expected: dict[str, str | None]) -> None:
    seen = words(about)
    assert {kind: seen.get(kind) for kind in expected} == expected


@every_case("about", [each[1] for each in TABLE], ids=[each[0] for each in TABLE])
def test_the_rules_of_kstatus_hold_whatever_is_known(about: Report) -> None:
    seen = shown(about)
    assert {"Ready", "Planned", "Placed", "Available"} <= seen.keys()
    assert all(each["observed_generation"] == 3 for each in seen.values())
    assert all(each["last_transition_time"] == NOW for each in seen.values())
    assert all(each["reason"].isalnum() for each in seen.values())
    assert all(seen[kind]["status"] == "True" for kind in ("Reconciling", "Stalled", "Troubled") if kind in seen)
    assert not {"Reconciling", "Stalled"} <= seen.keys()
    settled = seen["Ready"]["status"] == "True"
    assert settled is not bool({"Reconciling", "Stalled"} & seen.keys())


@every_case("about", [each[1] for each in TABLE], ids=[each[0] for each in TABLE])
def test_every_condition_that_is_not_well_says_what_helps(about: Report) -> None:
    for kind, each in shown(about).items():
        is_well = each["status"] == "True" and kind not in ("Reconciling", "Stalled", "Troubled")
        assert is_well or re.search("What helps: |What starts one: ", each["message"]), f"{kind}: {each['message']}"


def test_scaled_to_zero_is_not_ready_while_pods_stay_because_the_change_is_refused() -> None:
    for pods, refused, ready in ((1, "denied", "False PodsNotCreated"), (0, "denied", "True ScaledToZero")):
        held = report(PLACED, view(pods, pods), replicas=0, refused=refused)
        assert words(held)["Ready"] == ready
    assert words(report(PLACED, view(1, 1), replicas=0))["Ready"] == "True ScaledToZero"


@pytest.mark.parametrize(("passes", "shown_as"), [({}, "Stalled"), ({"refusal_passes": True}, "Reconciling")])
def test_who_waits_is_told_that_nothing_will_change_unless_a_refusal_passes(
    passes: dict[str, bool], shown_as: str
) -> None:
    seen = words(report(PLACED, view(1, 0), refused="denied", **passes))
    assert {"Stalled", "Reconciling"} & seen.keys() == {shown_as}


@pytest.mark.parametrize(
    ("more", "words"),
    [({}, "All replicas move away from nodes that go soon (h)"), ({"replacing": 2}, "go soon (h): 2 in all")],
    ids=["moves", "starts more"],
)
def test_nodes_that_go_soon_are_named_with_what_is_done(more: dict[str, int], words: str) -> None:
    assert words in shown(report(PLACED, view(), leaving=("h",), **more))["Placed"]["message"]
    assert "go soon" not in shown(report(PLACED, view(), **more))["Placed"]["message"]


def test_a_transition_time_is_kept_while_the_status_stays() -> None:
    before = {"Ready": "False", "Planned": "True", "Available": "Unknown"}
    seen = shown(report(PLACED, view(1, 0)), **{kind: Since(status, EARLIER) for kind, status in before.items()})
    assert {kind: each["last_transition_time"] for kind, each in seen.items()} == {
        "Ready": EARLIER,
        "Planned": EARLIER,
        "Placed": NOW,
        "Available": NOW,
        "Reconciling": NOW,
    }


def test_the_plan_is_told_with_its_working() -> None:
    message = shown(report(PLACED, view()))["Planned"]["message"]
    assert message.startswith("h100-sxm-80gb x 1: weights 14.99 GiB + KV cache 4.00 GiB + ")
    assert message.endswith("per GPU.")


def test_a_refusal_names_the_nearest_candidate_and_a_way_out() -> None:
    message = shown(report(NOWHERE))["Planned"]["message"]
    assert message.startswith("1 of 1 replica has no place. Nearest: l4-24gb x 1 ")
    assert message.endswith("no single change of the spec is enough.")
    taken = shown(report(FULL))["Planned"]["message"]
    assert "Nearest: h100-sxm-80gb x " in taken
    assert "What helps: free 1 h100-sxm-80gb on one node" in taken


@pytest.mark.parametrize(("known", "said"), [(1, 1), (3, 3), (4, 3)])
def test_a_refusal_names_three_ways_out_at_most(known: int, said: int) -> None:
    (remedy, *_) = FULL.remedies
    message = shown(report(replace(FULL, remedies=(remedy,) * known)))["Planned"]["message"]
    assert message.count("; or ") == said - 1


def test_a_crash_is_told_in_the_engines_words() -> None:
    message = shown(report(PLACED, CRASHED))["Available"]["message"]
    assert message == (
        f"CUDA out of memory (pool {POOL}, 1 restart). What helps: lower spec.engine.gpuMemoryUtilizationPercent or "
        "spec.engine.maxBatchedTokens."
    )


@pytest.mark.parametrize("reason", [*StartFailure])
def test_every_failed_start_names_node_and_what_helps_in_fields_that_exist(reason: StartFailure) -> None:
    failed = replace(CRASHED, failure=EngineFailure(reason, "Its last line."), failed_on="node-7")
    message = shown(report(PLACED, failed))["Available"]["message"]
    assert message.startswith(f"Its last line (pool {POOL} on node node-7, 1 restart). What helps: ")
    for path in re.findall(r"spec(?:\.\w+)+", message):
        part: Any = root_schema()
        for name in path.split("."):
            part = part["properties"][name] if "properties" in part else part["additionalProperties"]


def test_the_schedulers_words_are_passed_on() -> None:
    about = report(PLACED, view(1, 0, unbound=1, scheduler_message="0/3 nodes are available"))
    assert shown(about)["Placed"]["message"].startswith("1 pod waits for a node: 0/3 nodes are available. What")


def test_what_the_scheduler_waits_for_is_said_in_plain_words_too() -> None:
    about = report(PLACED, view(1, 0, unbound=1, scheduler_message="0/3 nodes are available", waits_for="free CPU"))
    said = shown(about)["Placed"]["message"]
    assert said.startswith("1 pod waits for a node (it waits for free CPU): 0/3 nodes are available. What helps: ")


def test_whoever_was_moved_too_often_is_told_that_the_pods_stay() -> None:
    spent = replace(PLACED, rehomings_spent=True)
    message = shown(report(spent, view(1, 0, unbound=1, scheduler_message="0/3 nodes.")))["Placed"]["message"]
    assert message.startswith("1 pod waits for a node: 0/3 nodes. It stays where it is: ")
    assert "4 placements within the last hour" in message
    assert "stay" not in shown(report(PLACED, view(1, 0, unbound=1)))["Placed"]["message"]


def test_a_retiring_pool_that_serves_keeps_the_deployment_available() -> None:
    old = replace(PLACED.pools[0], name="old", state=PoolState.RETIRING, choice=None)
    moving = replace(PLACED, pools=(*PLACED.pools, old))
    about = report(moving, view(1, 0, failure=OOM, restarts=3), PoolView("old", pods=1, ready=1))
    seen = shown(about)
    assert (seen["Available"]["status"], seen["Available"]["reason"]) == ("True", "EngineOutOfMemory")
    assert "Stalled" not in seen
    assert isinstance(old, PlannedPool)


def test_a_deployment_that_sleeps_is_current_and_says_what_wakes_it() -> None:
    words = "No request has come for a while, so no replica runs. What starts one: spec.replicas."
    about = report(decision(request(replicas=0)), view(0, 0), replicas=0, asleep=words)
    found = shown(about)
    assert {kind: each["status"] for kind, each in found.items()} == {
        "Ready": "True",
        "Planned": "True",
        "Placed": "True",
        "Available": "False",
    }
    assert found["Ready"]["message"] == found["Available"]["message"] == words


CRASH = Delay("EngineCrashed", "no such file.")
FAILED = FailedMove("l40s-48gb", Split(1), CRASH, at=1_767_225_600.0, until=1_767_226_201.0, times=1, spec="s")


def test_a_move_that_was_taken_back_is_said_with_the_plan_until_its_pause_is_over() -> None:
    message = shown(report(PLACED, view(), failed_moves=(FAILED,)))["Planned"]["message"]
    assert message.endswith(
        " A move to l40s-48gb x 1 was taken back at 2026-01-01T00:00:00Z (EngineCrashed: no such file). It is not "
        "moved there again before 2026-01-01T00:10:01Z."
    )
    over = replace(FAILED, until=FAILED.until - 1)
    plain = shown(report(PLACED, view()))["Planned"]["message"]
    assert shown(report(PLACED, view(), failed_moves=(over,)))["Planned"]["message"] == plain


def test_replicas_that_should_serve_by_now_are_named_while_the_previous_ones_serve() -> None:
    late = pool("l40s-48gb", ready=0, delay=CRASH)
    said = shown(report(PLACED, view(), late=late))
    assert (said["Available"]["status"], said["Available"]["reason"]) == ("True", "ReplacementLate")
    assert said["Available"]["message"].startswith(
        "The replicas on l40s-48gb x 1 do not serve in time (EngineCrashed: no such file). The previous replicas serve"
    )
    assert (said["Ready"]["status"], said["Stalled"]["reason"]) == ("False", "ReplacementLate")
    assert words(report(PLACED, view(ready=0), late=late))["Available"] == "False EnginesStarting"


SINCE = 1_767_225_700.0
STUCK = view(2, 1, updating=True, failure=OOM, restarts=3, starting_since=SINCE)


def test_a_change_that_does_not_come_up_is_named_with_its_pod_and_with_what_to_do() -> None:
    assert shown(report(PLACED, STUCK))["Available"]["message"] == (
        "Replicas with the last change have not come up since 2026-01-01T00:01:40Z (pool h100-sxm-80gb-tp1, "
        "CrashLoopBackOff, 3 restarts: CUDA out of memory). 1 of 1 replica serves. The change is not taken back by "
        "itself. What helps: lower spec.engine.gpuMemoryUtilizationPercent or spec.engine.maxBatchedTokens."
    )
    waits = view(2, 1, updating=True, unbound=1, scheduler_message="0/3 nodes.", starting_since=SINCE)
    said = shown(report(PLACED, waits, late_updates=frozenset({POOL})))["Available"]["message"]
    assert "(pool h100-sxm-80gb-tp1: 0/3 nodes). 1 of 1" in said
    refused = replace(waits, workload_error="exceeded quota")
    said = shown(report(PLACED, refused, late_updates=frozenset({POOL})))["Available"]["message"]
    assert "(pool h100-sxm-80gb-tp1: exceeded quota). 1 of 1" in said


def test_a_change_of_the_live_loop_is_named_as_such_with_the_time_at_which_it_is_taken_back() -> None:
    said = shown(report(PLACED, STUCK, retune=RETUNE, retune_due=DUE))["Available"]["message"]
    assert said.startswith("Engines with the settings of the live loop's last change have not come up since 2026-")
    assert "The change is taken back at 2026-01-01T00:10:10Z unless they serve by then. What helps: " in said
    elsewhere = replace(RETUNE, before=(EarlierSettings("another", StepLimits(sequences=8)),))
    said = shown(report(PLACED, STUCK, retune=elsewhere, retune_due=DUE))["Available"]["message"]
    assert said.startswith("Replicas with the last change have not come up since")


def test_the_last_pods_of_settings_that_were_taken_back_are_no_change_that_does_not_come_up() -> None:
    undone = FailedMove(
        "h100-sxm-80gb", Split(1), CRASH, StepLimits(sequences=64), at=SINCE + 60, until=SINCE + 900, times=1, spec="s"
    )
    said = shown(report(PLACED, STUCK, failed_moves=(undone,)))
    assert said["Available"]["reason"] == "RollingOut"
    assert said["Planned"]["message"].endswith(
        " A change of h100-sxm-80gb x 1 to --max-num-seqs 64 was taken back at 2026-01-01T00:02:40Z (EngineCrashed: no "
        "such file). The settings are not changed there again before 2026-01-01T00:16:40Z."
    )
    at_once = shown(report(PLACED, STUCK, failed_moves=(replace(undone, at=SINCE),)))
    assert at_once["Available"]["reason"] == "RollingOut"
    elsewhere = replace(undone, gpu_type="l4-24gb")
    for other in (replace(undone, at=SINCE - 1), elsewhere, replace(undone, limits=NO_LIMITS)):
        assert shown(report(PLACED, STUCK, failed_moves=(other,)))["Available"]["reason"] == "EngineOutOfMemory"
