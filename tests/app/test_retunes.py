"""Whole passes over changes of settings in a pool: what comes up, what is taken back, and what the user's wish is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, PODS
from plimsoll.app.plan import rendered as rendered_module
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.write.notes import notes_of
from plimsoll.decision.outcome import Ready
from plimsoll.decision.planning import running_of
from plimsoll.decision.pools import retune_after, with_retune
from plimsoll.domain.requests.workload import Manifest
from plimsoll.domain.units import from_rfc3339, to_rfc3339
from plimsoll.placement.demands.clocks import RetuneClock
from plimsoll.placement.demands.failed_moves import FIRST_PAUSE_SECONDS
from plimsoll.placement.memo import Memo
from plimsoll.rebalance.signals.metrics import PodSignals
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.render.inputs import INPUTS_ANNOTATION
from plimsoll.status.record.report import Report
from plimsoll.status.writing import new_status
from tests.app.test_rolled_back import CRASHED, NO_IMAGE, planned, status, unready
from tests.support.bodies import Body
from tests.support.engine_loads import Serves, moments
from tests.support.live_passes import AUTO, L4, L40S, LivePasses, Open, live_part

NAME, POOL = "asks", "l4-24gb-tp1"
RETUNES = AUTO | {"cooldownSeconds": 30, "minReplicas": 2, "maxReplicas": 2, "changesPerHour": 20}
LENIENT = {"ttftMilliseconds": 600_000, "tpotMilliseconds": 60_000}
EACH = 900.0
"""Three times the start-up of five minutes that the pods of the pictures had."""


def full(sequences: int) -> Serves:
    """Short requests that fill the batch and not the cache."""
    return Serves(
        rate=4.0, prompt=60, output=100, token_seconds=0.05, running=sequences, waiting=20, kv_usage=0.05, capacity=None
    )


def press(there: LivePasses, case: Desired, sequences: int) -> None:
    """Let all pods that serve run as many requests as they may."""
    samples = tuple(full(sequences).sample(at) for at in moments(600, end=there.now - 1))
    pods = [pod.name for pod in case.outcome.deployment.placed.around.ready_pods()]
    there.passes.live.readings[case.key] = Reading({name: PodSignals(name, samples) for name in pods})


def limit(case: Desired) -> int:
    """The limit of the pool's engines, as the status has it."""
    [pool] = status(case)["pools"]
    return int(pool["maxSequences"])


def rendered(case: Desired) -> Manifest:
    [manifest] = [each for each in case.manifests if each["kind"] == "Deployment"]
    return manifest


def ready(case: Desired) -> Ready:
    """The deployment as the live loop sees it."""
    outcome = case.outcome
    assert outcome.request is not None
    assert outcome.standing is not None
    return Ready(outcome.deployment, outcome.request, outcome.standing, outcome.observed)


async def settled(there: LivePasses, **spec: Any) -> Desired:
    """Two replicas that serve, with few requests at the same time, as their cache holds few of full length."""
    wanted: dict[str, Any] = {
        "contextLength": 16_384,
        "concurrency": 1,
        "replicas": 2,
        "slo": LENIENT,
        "rebalancing": RETUNES,
    }
    there.put(NAME, L4, **(wanted | spec))
    await there.settle()
    return there.make()[NAME]


async def begun(there: LivePasses, **spec: Any) -> tuple[int, Desired]:
    """The pass in which the live loop gives the engines another limit, and the earlier limit."""
    before = await settled(there, **spec)
    press(there, before, limit(before))
    case = there.make()[NAME]
    assert live_part(case)["decision"] == "Retune"
    return limit(before), case


def roll(there: LivePasses, case: Desired, *, new: int = 1, serving: int = 0, pod: Body | None = None) -> None:
    """Write what was decided, and let Kubernetes start ``new`` pods with it, of which so many serve.

    A new pod that serves replaces an old one. ``pod`` is the status of those that do not.
    """
    there.version += 1
    for body in there.store.all(INFERENCE_DEPLOYMENTS):
        if body["metadata"]["name"] == NAME:
            head = {**body["metadata"], "resourceVersion": str(there.version)}
            there.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", {**body, "metadata": head, "status": status(case)})
    old = [body for body in there.store.all(PODS) if "-new-" not in body["metadata"]["name"]]
    template = old[0]
    for body in old[: len(old) - 2 + serving]:
        there.store.observe(PODS, "DELETED", body)
    began = {"type": "PodScheduled", "status": "True", "lastTransitionTime": to_rfc3339(there.now)}
    for index in range(new):
        serves = {"type": "Ready", "status": "True", "lastTransitionTime": to_rfc3339(there.now)}
        ready = serves if index < serving else {"type": "Ready", "status": "False"}
        name = f"{NAME}-{POOL}-new-{index}"
        head = {**template["metadata"], "name": name, "uid": name, "resourceVersion": str(there.version)}
        shown = {"phase": "Running", "conditions": [began, ready], **({} if index < serving else pod or {})}
        there.store.observe(PODS, "ADDED", {**template, "metadata": head, "status": shown})
    show(there, rendered(case), updated=new, existing=2 - serving + new)


def show(there: LivePasses, manifest: Mapping[str, Any], *, updated: int, existing: int) -> None:
    """Let the Deployment have this manifest, and these pods."""
    there.version += 1
    [live] = [body for body in there.store.all(DEPLOYMENTS) if body["metadata"]["name"] == f"{NAME}-{POOL}"]
    head = {**live["metadata"], **manifest["metadata"], "resourceVersion": str(there.version)}
    head["ownerReferences"] = live["metadata"]["ownerReferences"]
    shown = {"observedGeneration": 1, "updatedReplicas": updated, "replicas": existing}
    there.store.observe(DEPLOYMENTS, "MODIFIED", {**manifest, "metadata": head, "status": shown})


def later(there: LivePasses, seconds: float) -> Desired:
    """A pass so much later. Prometheus says nothing then."""
    there.now += seconds
    there.passes.live.readings.clear()
    return there.make()[NAME]


def available(case: Desired) -> dict[str, Any]:
    [found] = [each for each in status(case)["conditions"] if each["type"] == "Available"]
    return dict(found)


async def test_a_change_that_does_not_come_up_is_taken_back_and_remembered(opened: Open) -> None:
    there = opened(l4=3)
    earlier, case = await begun(there)
    template = rendered(there.make()[NAME])["spec"]["template"]
    old = [body["spec"] for body in there.store.all(DEPLOYMENTS) if body["metadata"]["name"] == f"{NAME}-{POOL}"]
    retune = status(case)["retune"]
    assert (limit(case) > earlier, retune["pools"][0]["maxSequences"]) == (True, earlier)
    assert from_rfc3339(retune["dueAt"]) == int(there.now + EACH)
    assert template != old[0]["template"]
    roll(there, case, pod=CRASHED)

    before = later(there, EACH - 1)
    assert (limit(before), status(before)["retune"]) == (limit(case), retune)
    assert "failedMoves" not in status(before)
    assert rendered(before)["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}

    back = later(there, 2)
    assert limit(back) == earlier
    assert "retune" not in status(back)
    [failed] = status(back)["failedMoves"]
    found = {name: failed[name] for name in ("gpuType", "maxSequences", "times", "reason", "message")}
    assert found == {
        "gpuType": L4,
        "maxSequences": limit(case),
        "times": 1,
        "reason": "EngineCrashed",
        "message": "RuntimeError: no such file",
    }
    assert from_rfc3339(failed["until"]) == int(there.now) + FIRST_PAUSE_SECONDS
    assert rendered(back)["spec"]["template"] == old[0]["template"], "so Kubernetes keeps the old pods"
    assert rendered(back)["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    flags = f"--max-num-seqs {limit(case)}, --max-num-batched-tokens {failed['batchedTokens']}"
    assert f"A change of l4-24gb x 1 to {flags} was taken back at " in planned(back)
    assert (available(back)["status"], available(back)["reason"]) == ("True", "RollingOut")
    notes = {note.reason: note for note in notes_of(back)}
    assert notes["RetuneRolledBack"].warning
    assert "RuntimeError: no such file" in notes["RetuneRolledBack"].message


async def test_it_is_not_tried_again_in_the_pause_and_again_after_it(opened: Open) -> None:
    there = opened(l4=3)
    earlier, case = await begun(there)
    roll(there, case, pod=CRASHED)
    back = later(there, EACH + 1)
    roll(there, back, new=0)
    for body in [each for each in there.store.all(PODS) if "-new-" in each["metadata"]["name"]]:
        there.store.observe(PODS, "DELETED", body)
    show(there, rendered(back), updated=2, existing=2)

    there.now += 120
    calm = there.make()[NAME]
    press(there, calm, earlier)
    held = there.make()[NAME]
    assert (limit(held), live_part(held)["decision"]) == (earlier, "Wait")
    assert live_part(held)["reason"] == "AtMaxReplicas", "the load asks for replicas instead"
    assert [each["kind"] for each in live_part(held)["changes"]] == ["Retune", "RollBack"]

    there.now += FIRST_PAUSE_SECONDS
    press(there, there.make()[NAME], earlier)
    again = there.make()[NAME]
    assert (limit(again) > earlier, live_part(again)["decision"]) == (True, "Retune")
    roll(there, again, pod=CRASHED)
    [failed] = status(later(there, EACH + 1))["failedMoves"]
    assert failed["times"] == 2
    assert from_rfc3339(failed["until"]) == int(there.now) + 2 * FIRST_PAUSE_SECONDS


async def test_a_change_that_comes_up_in_time_is_kept(opened: Open) -> None:
    there = opened(l4=3)
    _, case = await begun(there)
    roll(there, case, new=2, serving=2)
    for seconds in (10, EACH):
        done = later(there, seconds)
        assert limit(done) == limit(case)
        assert {"retune", "failedMoves"}.isdisjoint(status(done))


async def test_each_replica_that_gets_ready_begins_the_time_anew(opened: Open) -> None:
    there = opened(l4=3)
    _, case = await begun(there)
    there.now += EACH - 10
    roll(there, case, new=2, serving=1)
    half = later(there, 20)
    assert limit(half) == limit(case), "one serves, and the other one has just begun"
    assert from_rfc3339(status(half)["retune"]["dueAt"]) == int(there.now - 20 + EACH)
    assert limit(later(there, EACH)) < limit(case)


async def test_a_replica_from_before_the_change_that_is_ready_again_gives_no_more_time(opened: Open) -> None:
    there = opened(l4=3)
    _, case = await begun(there)
    due = status(case)["retune"]["dueAt"]
    there.now += 100
    roll(there, case)
    [old, _] = [body for body in there.store.all(PODS) if "-new-" not in body["metadata"]["name"]]
    again = {"type": "Ready", "status": "True", "lastTransitionTime": to_rfc3339(there.now)}
    others = [each for each in old["status"]["conditions"] if each["type"] != "Ready"]
    head = {**old["metadata"], "resourceVersion": str(there.version + 1)}
    there.store.observe(
        PODS, "MODIFIED", {**old, "metadata": head, "status": {**old["status"], "conditions": [*others, again]}}
    )
    assert status(later(there, 10))["retune"]["dueAt"] == due


async def test_a_change_whose_deployment_was_never_written_did_not_come_up(opened: Open) -> None:
    """All pods serve, and none of them has the new settings."""
    there = opened(l4=3)
    earlier, case = await begun(there)
    [live] = [body for body in there.store.all(DEPLOYMENTS) if body["metadata"]["name"] == f"{NAME}-{POOL}"]
    assert status(case)["retune"]["pools"][0]["inputs"] == live["metadata"]["annotations"][INPUTS_ANNOTATION]
    roll(there, case, new=0)
    show(there, live, updated=2, existing=2)
    assert "retune" in status(later(there, 10))
    assert limit(later(there, EACH)) == earlier


async def test_another_process_keeps_the_clock_and_makes_a_pass_when_it_is_over(opened: Open) -> None:
    there = opened(l4=3)
    earlier, case = await begun(there)
    roll(there, case, pod=CRASHED)
    later(there, EACH - 60)
    again = opened(l4=3)
    for kind in (INFERENCE_DEPLOYMENTS, DEPLOYMENTS, PODS):
        again.store.replace(kind, list(there.store.all(kind)))
    again.now = there.now
    await again.passes.reader.models.close()
    again.passes.reader.models = there.passes.reader.models
    assert limit(again.make()[NAME]) == limit(case)
    due = min(again.result().due_in_seconds)
    assert 0 < due <= 62
    again.now += due
    assert limit(again.make()[NAME]) == earlier


@pytest.mark.parametrize("mode", ["Off", "Recommend"])
async def test_it_is_taken_back_whatever_the_live_loop_may_do_by_then(opened: Open, mode: str) -> None:
    there = opened(l4=3)
    earlier, case = await begun(there)
    roll(there, case, pod=CRASHED)
    there.change(NAME, rebalancing=RETUNES | {"mode": mode})
    assert limit(later(there, EACH + 1)) == earlier


async def test_a_change_of_the_spec_in_the_middle_is_the_user_s_wish_and_is_not_undone(opened: Open) -> None:
    there = opened(l4=3)
    _, case = await begun(there)
    roll(there, case, pod=CRASHED)
    there.change(NAME, engine={"image": "registry.example.com/vllm:next"})
    changed = later(there, 10)
    assert "retune" not in status(changed)
    roll(there, changed, pod=NO_IMAGE)
    since = to_rfc3339(there.now)
    late = later(there, 2 * EACH)
    assert rendered(late)["spec"]["template"] == rendered(changed)["spec"]["template"]
    assert "failedMoves" not in status(late)
    said = available(late)
    assert (said["status"], said["reason"]) == ("True", "ImageNotAvailable")
    assert said["message"] == (
        f"Replicas with the last change have not come up since {since} (pool {POOL} on node l4-24gb: ImagePullBackOff: "
        "no vllm:9). 2 of 2 replicas serve. The change is not taken back by itself. "
        "What helps: correct spec.engine.image or spec.podTemplate.imagePullSecrets."
    )
    assert {each["type"]: each["status"] for each in status(late)["conditions"]}["Stalled"] == "True"


async def test_a_revision_that_only_takes_too_long_is_named_when_its_time_is_over(opened: Open) -> None:
    there = opened(l4=3)
    await settled(there)
    there.change(NAME, engine={"image": "registry.example.com/vllm:next"})
    roll(there, there.make()[NAME])
    soon = later(there, EACH - 1)
    assert available(soon)["reason"] == "RollingOut"
    assert any(0 < due <= 2 for due in there.result().due_in_seconds), "a pass is made when the time is over"
    late = later(there, 1)
    said = available(late)
    assert (said["status"], said["reason"]) == ("True", "ReplacementLate")
    assert f"(pool {POOL}: its pods did not get ready). 2 of 2 replicas serve." in said["message"]


async def test_no_settings_are_changed_while_a_changed_spec_rolls_out(opened: Open) -> None:
    there = opened(l4=3)
    calm = await settled(there)
    press(there, calm, limit(calm))
    assert live_part(there.make()[NAME])["decision"] == "Retune", "without a change of the spec"
    there.change(NAME, engine={"image": "registry.example.com/vllm:next"})
    case = there.make()[NAME]
    assert (live_part(case)["decision"], "retune" in status(case)) == ("Wait", False)
    held = there.passes.make(there.store.picture(), {case.uid: status(case)}, there.now).desired[0]
    assert (live_part(held)["reason"], "retune" in status(held)) == ("MoveUnderWay", False), "it is being written"
    there.passes.live.readings.clear()
    roll(there, case, pod=CRASHED)
    there.now += 60
    press(there, there.make()[NAME], limit(case))
    held = there.make()[NAME]
    assert (limit(held), "retune" in status(held)) == (limit(case), False)


async def test_the_replica_that_starts_first_and_finds_no_node_moves_nobody(opened: Open) -> None:
    there = opened(l4=3)
    earlier, case = await begun(there)
    roll(there, case)
    [new] = [body for body in there.store.all(PODS) if "-new-" in body["metadata"]["name"]]
    since = {"type": "PodScheduled", "status": "False", "lastTransitionTime": to_rfc3339(there.now)}
    words = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    waits = unready(there, new, conditions=[since | {"reason": "Unschedulable", "message": words}])
    there.store.observe(PODS, "MODIFIED", {**waits, "spec": {**new["spec"], "nodeName": None}})
    stranded = later(there, EACH - 1)
    assert [pool["replicas"] for pool in status(stranded)["pools"]] == [2]
    back = later(there, 2)
    assert limit(back) == earlier
    [failed] = status(back)["failedMoves"]
    assert (failed["reason"], failed["message"]) == ("InsufficientGpus", words)


async def test_a_forged_change_of_settings_is_refused(opened: Open) -> None:
    there = opened(l4=3)
    _, case = await begun(there)
    roll(there, case, pod=CRASHED)
    [body] = there.store.all(INFERENCE_DEPLOYMENTS)
    retune = body["status"]["retune"]
    forged = retune | {"pools": [retune["pools"][0] | {"maxSequences": 0}]}
    there.version += 1
    head = {**body["metadata"], "resourceVersion": str(there.version)}
    written = {**body, "metadata": head, "status": {**body["status"], "retune": forged}}
    there.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", written)
    found = later(there, 2 * EACH)
    assert any(
        "status.retune is ignored: maxSequences 0" in each for each in found.outcome.deployment.record.complaints
    )
    assert limit(found) == limit(case)


async def test_settings_that_cannot_be_taken_back_stay_and_the_deployment_may_move(opened: Open) -> None:
    """The earlier settings do not fit any more: an engine got less cache than is declared."""
    there = opened(l4=3)
    _, case = await begun(there)
    roll(there, case, pod=CRASHED)
    [body] = there.store.all(INFERENCE_DEPLOYMENTS)
    small = {"gpuType": L4, "tensorParallel": 1, "kvTokens": 100, "spec": body["status"]["retune"]["spec"]}
    there.version += 1
    head = {**body["metadata"], "resourceVersion": str(there.version)}
    known = {**body, "metadata": head, "status": {**body["status"], "tooSmall": [small]}}
    there.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", known)
    fleet = there.snapshot().fleet
    assert running_of(ready(later(there, 10)), None, None, fleet, Memo()).retuning
    late = later(there, EACH)
    assert (limit(late), "failedMoves" in status(late)) == (limit(case), False)
    assert not running_of(ready(late), None, None, fleet, Memo()).retuning
    assert available(late)["message"].endswith("by itself. What helps: read the log of the pod.")


@pytest.mark.parametrize(("sequences", "step"), [(1, 0), (0, 1024), (0, 0)], ids=["limit", "step", "neither"])
async def test_a_change_of_any_setting_has_a_clock_with_the_settings_before(
    opened: Open, sequences: int, step: int
) -> None:
    there = opened(l4=3)
    before, case = await begun(there)
    decision, deployment = case.outcome.decision, case.outcome.deployment
    assert decision is not None
    [pool], [planned] = deployment.placed.pools, decision.pools
    assert planned.choice is not None
    assert pool.limits.step_tokens > 0
    settings = replace(
        planned.choice.settings, max_num_seqs=before + sequences, max_num_batched_tokens=pool.limits.step_tokens + step
    )
    changed = replace(planned, choice=replace(planned.choice, settings=settings))
    decision = replace(decision, pools=(changed,))
    retune, _ = retune_after(deployment, decision, case.outcome.turn, EACH, there.now)
    if not (sequences or step):
        assert retune is None
        return
    assert retune is not None
    [earlier] = retune.before
    assert earlier.limits == replace(pool.limits, sequences=before)


async def test_a_status_that_cannot_be_rendered_keeps_the_clock_and_the_neighbour_goes_on(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = opened(l4=3, l40s=1)
    there.put("honest", L40S, namespace="other")
    _, case = await begun(there)
    roll(there, case, pod=CRASHED)

    def stumbles(report: Report, *more: Any) -> Any:
        if report.name == NAME and report.problem is None:
            raise ZeroDivisionError("by nothing")
        return new_status(report, *more)

    monkeypatch.setattr(rendered_module, "new_status", stumbles)
    there.now += 1
    there.passes.live.readings.clear()
    made = there.make()
    assert made[NAME].outcome.is_faulty
    assert made[NAME].manifests == ()
    assert status(made[NAME])["retune"] == status(case)["retune"]
    assert not made["honest"].outcome.is_faulty
    assert made["honest"].manifests


async def test_a_deployment_that_is_not_seen_ends_no_clock(opened: Open) -> None:
    there = opened(l4=3)
    _, case = await begun(there)
    roll(there, case, pod=CRASHED)
    clock = status(later(there, 1))["retune"]
    [live] = [body for body in there.store.all(DEPLOYMENTS) if body["metadata"]["name"] == f"{NAME}-{POOL}"]
    there.store.observe(DEPLOYMENTS, "DELETED", live)
    assert status(later(there, 1))["retune"] == clock
    there.store.observe(DEPLOYMENTS, "ADDED", live)
    assert status(later(there, 1))["retune"] == clock


async def test_a_clock_ends_in_a_pool_in_which_no_replica_is_wanted_any_more(opened: Open) -> None:
    there = opened(l4=3)
    _, case = await begun(there)
    roll(there, case, new=0)
    show(there, rendered(case), updated=0, existing=0)
    case = later(there, 1)
    deployment = case.outcome.deployment
    [pool] = deployment.placed.pools

    def read(replicas: int) -> RetuneClock | None:
        placed = replace(deployment.placed, pools=(replace(pool, replicas=replicas, ready=0),), retune=None)
        return with_retune(placed, deployment.identity, deployment.record, None, there.now).retune

    assert read(pool.replicas) is not None, "replicas are wanted, and none serves"
    assert read(0) is None
