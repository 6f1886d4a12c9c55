"""Whole passes over moves whose new replicas do not serve: what is taken back, what is remembered, and what stays."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, PODS
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.write.notes import notes_of
from plimsoll.domain.units import from_rfc3339
from plimsoll.placement.demands.clocks import LEAST_SECONDS
from plimsoll.placement.demands.failed_moves import FIRST_PAUSE_SECONDS
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from plimsoll.rebalance.signals.reading import Reading
from tests.support.bodies import Body
from tests.support.live_passes import AUTO, EASY, H100, L4, L40S, LivePasses, Open, live_part, pools

MOVES = AUTO | {"cooldownSeconds": 30}
STAYS, MOVED, BEGUN = {(L4, "Active"): 1}, {(L40S, "Active"): 1}, {(L40S, "Active"): 1, (L4, "Retiring"): 1}
CRASHED: Body = {
    "containerStatuses": [
        {"restartCount": 3, "lastState": {"terminated": {"exitCode": 1, "message": "RuntimeError: no such file"}}}
    ]
}
NO_IMAGE: Body = {
    "containerStatuses": [
        {"restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no vllm:9"}}}
    ]
}
MESSAGE = "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node affinity/selector."


async def begun(there: LivePasses, *kinds: str, **spec: Any) -> Desired:
    """A deployment whose engine got too little cache on an L4, and which the live loop moves elsewhere."""
    there.put("asks", *(kinds or (L4, L40S)), rebalancing=MOVES, **spec)
    await there.settle()
    there.load(there.make()["asks"], EASY, capacity=1000)
    case = there.make()["asks"]
    assert live_part(case)["decision"] == "Move"
    return case


def carry_out(there: LivePasses, case: Desired, kind: str = L40S, **status: Any) -> None:
    """Let the cluster do what was decided, but let the pods of this GPU type not get ready."""
    there.carry_out([case])
    assert case.outcome.decision is not None
    kept = {pool.name for pool in case.outcome.decision.pools}
    for what in (DEPLOYMENTS, PODS):
        for body in there.store.all(what):
            if body["metadata"]["labels"]["plimsoll.dev/pool"] not in kept:
                there.store.observe(what, "DELETED", body)
    for body in there.store.all(PODS):
        if body["metadata"]["labels"]["plimsoll.dev/pool"].startswith(kind):
            there.store.observe(PODS, "MODIFIED", unready(there, body, **status))


def unready(there: LivePasses, body: Any, **status: Any) -> Body:
    there.version += 1
    conditions = [{**body["status"]["conditions"][0]}, {"type": "Ready", "status": "False"}]
    head = {**body["metadata"], "resourceVersion": str(there.version)}
    return {**body, "metadata": head, "status": {"phase": "Running", "conditions": conditions, **status}}


def outgrown(there: LivePasses) -> Desired:
    """A pass in which the engine on the L4 reports too little cache again."""
    there.passes.live.readings.clear()
    case = there.make()["asks"]
    [pod] = [pod.name for pod in case.outcome.deployment.placed.around.ready_pods()]
    samples = tuple(
        EngineSample(there.now - ago, 0.6, 0, 1, 0, 1000, there.now - ago, there.now - ago) for ago in (19.0, 10.0, 1.0)
    )
    there.passes.live.readings[case.key] = Reading({pod: PodSignals(pod, samples)})
    return there.make()["asks"]


def late(there: LivePasses, seconds: float = LEAST_SECONDS + 1) -> Desired:
    """A pass so much later. Prometheus says nothing then."""
    there.now += seconds
    there.passes.live.readings.clear()
    return there.make()["asks"]


def status(case: Desired) -> Body:
    assert case.new_status is not None
    return dict(case.new_status)


def planned(case: Desired) -> str:
    [message] = [each["message"] for each in status(case)["conditions"] if each["type"] == "Planned"]
    return str(message)


async def test_a_move_that_does_not_come_up_is_taken_back_and_remembered(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    there.put("honest", L4, L40S, created="04:00:00", replicas=0)
    case = await begun(there)
    assert (pools(case), from_rfc3339(status(case)["move"]["dueAt"])) == (BEGUN, int(there.now + LEAST_SECONDS))
    carry_out(there, case, **CRASHED)

    before = late(there, LEAST_SECONDS - 1)
    assert pools(before) == BEGUN
    assert "failedMoves" not in status(before)

    case = late(there, 2)
    assert pools(case) == STAYS
    assert "move" not in status(case)
    [failed] = status(case)["failedMoves"]
    assert {name: failed[name] for name in ("gpuType", "tensorParallel", "times", "reason", "message")} == {
        "gpuType": L40S,
        "tensorParallel": 1,
        "times": 1,
        "reason": "EngineCrashed",
        "message": "RuntimeError: no such file",
    }
    assert from_rfc3339(failed["until"]) == int(there.now) + FIRST_PAUSE_SECONDS
    assert "A move to l40s-48gb x 1 was taken back at " in planned(case)
    assert "(EngineCrashed: RuntimeError: no such file)" in planned(case)
    notes = {note.reason: note for note in notes_of(case)}
    assert notes["MoveRolledBack"].warning
    assert "The replicas stay on l4-24gb-tp1." in notes["MoveRolledBack"].message
    workloads = [each["metadata"]["name"] for each in case.manifests if each["kind"] == "Deployment"]
    assert workloads == [], "the engines on the L4 run on as they are"


async def test_the_place_is_refused_with_its_reason_while_the_pause_lasts_and_tried_again_after_it(
    opened: Open,
) -> None:
    there = opened(l4=1, l40s=1)
    carry_out(there, await begun(there), **NO_IMAGE)
    carry_out(there, late(there))

    there.now += 60
    case = outgrown(there)
    assert pools(case) == STAYS
    reported = live_part(case)
    assert (reported["decision"], reported["reason"]) == ("Wait", "NoPlaceFound")
    assert "l40s-48gb x 1 fits, but a move there did not come up in time (ImageNotAvailable) at " in reported["message"]
    assert [each["kind"] for each in reported["changes"]] == ["Move", "RollBack"]

    there.now += FIRST_PAUSE_SECONDS
    case = outgrown(there)
    assert (pools(case), live_part(case)["decision"]) == (BEGUN, "Move")
    carry_out(there, case, **NO_IMAGE)
    [failed] = status(late(there))["failedMoves"]
    assert failed["times"] == 2
    assert from_rfc3339(failed["until"]) == int(there.now) + 2 * FIRST_PAUSE_SECONDS


async def test_another_candidate_is_tried_after_the_cool_down(opened: Open) -> None:
    there = opened(l4=1, l40s=1, h100=1)
    carry_out(there, await begun(there, L4, L40S, H100), **CRASHED)
    carry_out(there, late(there))
    there.now += 10
    assert live_part(outgrown(there))["reason"] == "CoolingDown"
    there.now += 60
    case = outgrown(there)
    assert pools(case) == {(H100, "Active"): 1, (L4, "Retiring"): 1}
    assert {each["reason"] for each in status(case)["rejections"] if each["gpuType"] == L40S} >= {"MoveFailed"}
    there.carry_out([case])
    for _ in range(2):
        there.carry_out([case := there.make()["asks"]])
    assert pools(case) == {(H100, "Active"): 1}
    assert "move" not in status(case)


async def test_a_move_that_serves_in_time_is_not_taken_back(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    there.carry_out([await begun(there)])
    case = late(there)
    assert pools(case) == MOVED
    assert {"move", "failedMoves"}.isdisjoint(status(case))
    assert "taken back" not in planned(case)


async def test_pods_without_a_node_count_as_well_and_the_scheduler_is_quoted(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    carry_out(there, await begun(there))
    for body in there.store.all(PODS):
        if L40S in body["metadata"]["name"]:
            since = {"type": "PodScheduled", "status": "False", "lastTransitionTime": "2026-11-22T00:00:00Z"}
            waits = unready(there, body, conditions=[since | {"reason": "Unschedulable", "message": MESSAGE}])
            there.store.observe(PODS, "MODIFIED", {**waits, "spec": {**body["spec"], "nodeName": None}})
    case = late(there)
    assert pools(case) == STAYS
    [failed] = status(case)["failedMoves"]
    assert (failed["reason"], failed["message"]) == ("InsufficientGpus", MESSAGE)


async def test_another_process_keeps_the_clock(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    carry_out(there, await begun(there), **CRASHED)
    late(there, LEAST_SECONDS - 60)
    again = opened(l4=1, l40s=1)
    for kind in (INFERENCE_DEPLOYMENTS, DEPLOYMENTS, PODS):
        again.store.replace(kind, list(there.store.all(kind)))
    again.passes.live.readings.clear()
    again.now = there.now
    again.result()
    await again.passes.reader.models.close()
    again.passes.reader.models = there.passes.reader.models
    assert pools(again.make()["asks"]) == BEGUN
    due = min(again.result().due_in_seconds)
    assert 0 < due <= 62, "a pass is made when the time is over"
    again.now += due
    assert pools(again.make()["asks"]) == STAYS


async def test_a_changed_start_forgets_the_failure_and_other_changes_do_not(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    carry_out(there, await begun(there), **CRASHED)
    carry_out(there, late(there))
    there.change("asks", gpu={"allow": [L4, L40S, H100]})
    assert len(status(there.make()["asks"])["failedMoves"]) == 1
    there.change("asks", 3, engine={"image": "registry.example.com/vllm:mended"})
    assert "failedMoves" not in status(there.make()["asks"])


async def test_a_place_that_the_user_forces_is_taken_and_it_is_said_what_happened_there(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    carry_out(there, await begun(there), **CRASHED)
    carry_out(there, late(there))
    there.change("asks", overrides={"gpuType": L40S})
    case = there.make()["asks"]
    assert pools(case) == BEGUN
    assert "A move to l40s-48gb x 1 did not come up in time at " in planned(case)
    carry_out(there, case, **CRASHED)
    case = late(there)
    assert pools(case) == BEGUN, "the old place is not what the user asks for"
    said = {each["type"]: each for each in status(case)["conditions"]}
    assert (said["Available"]["status"], said["Available"]["reason"]) == ("True", "ReplacementLate")
    assert "The replicas on l40s-48gb x 1 do not serve in time (EngineCrashed: " in said["Available"]["message"]
    assert (said["Ready"]["status"], said["Stalled"]["reason"]) == ("False", "ReplacementLate")
    carry_out(there, case, **CRASHED)
    again = late(there)
    assert (pools(again), status(again)["move"]) == (BEGUN, status(case)["move"])


async def test_a_changed_spec_whose_old_pool_is_ruled_out_is_not_taken_back(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    there.put("asks", L4, rebalancing=MOVES)
    await there.settle()
    there.change("asks", gpu={"allow": [L40S]})
    case = there.make()["asks"]
    assert pools(case) == BEGUN
    carry_out(there, case, **NO_IMAGE)
    case = late(there)
    assert pools(case) == BEGUN
    assert "failedMoves" not in status(case)
    [available] = [each for each in status(case)["conditions"] if each["type"] == "Available"]
    assert available["reason"] == "ReplacementLate"
    assert "(ImageNotAvailable: ImagePullBackOff: no vllm:9)" in available["message"]


async def test_a_changed_spec_whose_old_pool_is_allowed_again_is_taken_back(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    there.put("asks", L4, rebalancing=MOVES)
    await there.settle()
    there.change("asks", gpu={"allow": [L40S]})
    carry_out(there, there.make()["asks"], **NO_IMAGE)
    there.change("asks", 3, gpu={"allow": [L4, L40S]})
    assert pools(there.make()["asks"]) == BEGUN
    case = late(there)
    assert pools(case) == STAYS
    assert [each["reason"] for each in status(case)["failedMoves"]] == ["ImageNotAvailable"]


async def test_a_changed_spec_that_leaves_only_a_place_that_failed_waits_and_says_why(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    carry_out(there, await begun(there), **CRASHED)
    carry_out(there, late(there))
    there.change("asks", gpu={"allow": [L40S]})
    case = there.make()["asks"]
    assert pools(case) == STAYS
    assert "The previous placement keeps serving. Nearest: l40s-48gb x 1 fits, but a move there did not" in planned(
        case
    )


async def test_what_serves_of_the_new_pool_stays_and_the_old_one_gives_the_rest(opened: Open) -> None:
    there = opened(l4=2, l40s=2)
    carry_out(there, await begun(there, replicas=2), **CRASHED)
    [first, _] = [body for body in there.store.all(PODS) if L40S in body["metadata"]["name"]]
    served = [{**first["status"]["conditions"][0]}, {"type": "Ready", "status": "True"}]
    served[1]["lastTransitionTime"] = "2026-11-21T03:05:00Z"
    there.store.observe(PODS, "MODIFIED", unready(there, first, conditions=served))
    case = late(there)
    assert pools(case) == {(L40S, "Active"): 1, (L4, "Active"): 1}
    assert [each["gpuType"] for each in status(case)["failedMoves"]] == [L40S]


@pytest.mark.parametrize("mode", ["Off", "Recommend"])
async def test_a_move_is_taken_back_whatever_the_live_loop_may_do_by_then(opened: Open, mode: str) -> None:
    there = opened(l4=1, l40s=1)
    carry_out(there, await begun(there), **CRASHED)
    there.change("asks", rebalancing=MOVES | {"mode": mode})
    case = late(there)
    assert pools(case) == STAYS
    assert len(status(case)["failedMoves"]) == 1


async def test_a_forged_clock_and_a_forged_failure_are_refused(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    carry_out(there, await begun(there), **CRASHED)
    [body] = there.store.all(INFERENCE_DEPLOYMENTS)
    move = body["status"]["move"]
    entry = {"gpuType": L4, "tensorParallel": 1, "at": move["beganAt"], "times": 1, "reason": "X", "spec": move["spec"]}
    forged = {
        "move": move | {"dueAt": "2099-01-01T00:00:00Z"},
        "failedMoves": [entry | {"until": "2099-01-01T00:00:00Z"}],
    }
    there.version += 1
    head = {**body["metadata"], "resourceVersion": str(there.version)}
    written = {**body, "metadata": head, "status": {**body["status"], **forged}}
    there.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", written)
    case = late(there, 1)
    assert len(case.outcome.deployment.record.complaints) == 2
    assert from_rfc3339(status(case)["move"]["dueAt"]) == int(there.now + LEAST_SECONDS), "it begins anew, once"
    assert "failedMoves" not in status(case)


async def test_nothing_is_written_while_a_failure_is_only_remembered(opened: Open) -> None:
    there = opened(l4=1, l40s=1)
    carry_out(there, await begun(there), **CRASHED)
    carry_out(there, late(there))
    carry_out(there, late(there, 5))
    case = late(there, 5)
    assert status(case) == dict(case.body["status"])
    assert notes_of(case) == []
