"""Whatever one object provokes, in whatever step, stays with it: its neighbour is served in the same pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, PODS, RESOURCE_QUOTAS
from plimsoll.app.reading import deployments
from plimsoll.decision import observing
from plimsoll.decision.results import manifests
from plimsoll.decision.supervisor import PassStep
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.placement.transition import make_before_break
from tests.support.bodies import Body, inference_deployment_body, pod_body
from tests.support.desk import Desk
from tests.support.eventually import eventually

POISON, HONEST = "a-poison", "b-honest"
"""The poisoned one comes first in every loop."""


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    yield made
    await made.writers.close()
    await made.book.close()


def poisoned(real: Callable[..., Any], name_of: Callable[..., str]) -> Callable[..., Any]:
    """The function, raising for the poisoned object."""

    def call(*arguments: Any, **options: Any) -> Any:
        if name_of(*arguments) == POISON:
            raise KeyError("name")
        return real(*arguments, **options)

    return call


STEPS: dict[PassStep, tuple[Any, str, Callable[..., str]]] = {
    PassStep.READ: (deployments, "parse_inference_deployment", lambda body: str(body["metadata"]["name"])),
    PassStep.OBSERVE: (observing, "observed_now", lambda request, *_: request.key.name),
    PassStep.LISTEN: (observing, "failed_starts", lambda request, *_: request.key.name),
    PassStep.PLAN: (make_before_break, "warnings_for", lambda request, *_: request.key.name),
    PassStep.RENDER: (manifests, "service", lambda options: options.key.name),
}


@pytest.mark.parametrize("step", STEPS)
async def test_an_exception_names_its_step_and_leaves_the_neighbour_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, step: PassStep
) -> None:
    where, name, name_of = STEPS[step]
    monkeypatch.setattr(where, name, poisoned(getattr(where, name), name_of))
    await desk.settle(POISON, HONEST)
    assert desk.recorder.reason(POISON) == step.value
    assert desk.recorder.reason(POISON, "Stalled") == step.value
    assert desk.recorder.made() == [f"{HONEST}-h100-sxm-80gb-tp1"]
    assert f'plimsoll_object_faults_total{{step="{step.value}"}}' in page(desk)


async def test_it_is_tried_again_after_a_pause_and_at_once_when_the_spec_changes(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        where, name, name_of = STEPS[PassStep.READ]
        broken.setattr(where, name, poisoned(getattr(where, name), name_of))
        await desk.settle(POISON, HONEST)
        tries = desk.faults.latest(f"uid-{POISON}", 1)
        assert tries is not None
        assert desk.faults.standing(f"uid-{POISON}", 1) == tries, "a pause lasts"
        assert desk.faults.standing(f"uid-{POISON}", 2) is None, "another generation is another try"
        await desk.planner.one_pass()
        assert desk.recorder.reason(POISON) == "ReadFailed", "and it says so meanwhile"
    desk.faults.backoff.succeeded(f"uid-{POISON}")  # the pause is over
    await desk.planner.one_pass()
    await desk.look_up()
    await desk.planner.one_pass()
    assert desk.recorder.reason(POISON) != "ReadFailed"
    assert f"{POISON}-h100-sxm-80gb-tp1" in desk.recorder.made()
    assert desk.faults.latest(f"uid-{POISON}", 1) is None


@pytest.mark.parametrize("error", [TypeError("lots"), RecursionError(), UnicodeError("x")], ids=repr)
async def test_a_write_that_raises_is_on_record_in_the_next_pass(desk: Desk, error: Exception) -> None:
    def refuse(owner: Body, _: Body) -> None:
        if owner["metadata"]["name"] == POISON:
            raise error

    desk.recorder.before_apply = refuse
    await desk.settle(POISON, HONEST)
    assert desk.wake.is_set(), "the next pass comes at once"
    await desk.planner.one_pass()
    assert desk.recorder.reason(POISON) == "WriteFailed"
    assert set(desk.recorder.made()) == {f"{HONEST}-h100-sxm-80gb-tp1"}


async def placed_after_a_refusal(desk: Desk, refusal: ClusterRefused) -> dict[str, Any]:
    """Let the API server refuse one object's Deployment; return its Placed condition."""

    def refuse(owner: Body, manifest: Body) -> None:
        if owner["metadata"]["name"] == POISON and manifest["kind"] == "Deployment":
            raise refusal

    desk.recorder.before_apply = refuse
    await desk.settle(POISON, HONEST)
    found = (each for each in desk.recorder.statuses[POISON]["conditions"] if each["type"] == "Placed")
    return dict(next(found))


async def test_a_refusal_is_in_the_status_in_the_servers_words_within_the_pass(desk: Desk) -> None:
    placed = await placed_after_a_refusal(
        desk, ClusterRefused("apply deployments", 422, "spec.template: Invalid value: mountPath must be unique")
    )
    assert placed["reason"] == "PodsNotCreated"
    assert "mountPath must be unique" in placed["message"]
    assert desk.recorder.reason(POISON, "Stalled") == "PodsNotCreated"
    assert "PodsNotCreated" in desk.recorder.notes
    assert desk.recorder.made() == [f"{HONEST}-h100-sxm-80gb-tp1"]
    refusal = desk.passes.noticed.refusals.of(f"uid-{POISON}")
    assert refusal is not None
    assert refusal.since_by_pool(["h100-sxm-80gb-tp1"]).keys() == {"h100-sxm-80gb-tp1"}

    desk.recorder.before_apply = lambda *_: None
    desk.writers.backoff.succeeded(f"uid-{POISON}")
    await desk.planner.one_pass()
    await desk.planner.one_pass()
    assert desk.recorder.reason(POISON, "Placed") != "PodsNotCreated"


@pytest.mark.parametrize("status", [404, 409])
async def test_a_refusal_about_a_picture_that_is_old_is_no_word_in_the_status(desk: Desk, status: int) -> None:
    """The object or its namespace is gone, or somebody was faster: the next pass sees it."""

    def refuse(owner: Body, _: Body) -> None:
        if owner["metadata"]["name"] == POISON:
            raise ClusterRefused("apply deployments", status, "changed meanwhile")

    desk.recorder.before_apply = refuse
    await desk.settle(POISON, HONEST)
    assert desk.recorder.reason(POISON, "Placed") == "CreatingPods"
    assert desk.recorder.made() == [f"{HONEST}-h100-sxm-80gb-tp1"]


async def test_an_event_is_recorded_when_the_status_says_something_new_and_not_again(desk: Desk) -> None:
    desk.put(POISON, HONEST, gpu={"allow": ["h100"]})
    await desk.planner.one_pass()
    said = list(desk.recorder.notes)
    assert said.count("InvalidSpec") == 2
    for body in desk.store.all(INFERENCE_DEPLOYMENTS):
        name = body["metadata"]["name"]
        head = {**body["metadata"], "resourceVersion": "9"}
        written = {**body, "metadata": head, "status": desk.recorder.statuses[name]}
        desk.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", written)
    await desk.planner.one_pass()
    assert desk.recorder.notes == said


async def test_a_refusal_that_may_pass_is_in_the_status_and_not_stalled(desk: Desk) -> None:
    placed = await placed_after_a_refusal(desk, ClusterRefused("apply deployments", 503, "etcd leader changed"))
    assert placed["reason"] == "PodsNotCreated"
    assert "etcd leader changed" in placed["message"]
    assert desk.recorder.reason(POISON, "Stalled") == ""
    assert desk.recorder.made() == [f"{HONEST}-h100-sxm-80gb-tp1"]


async def test_an_api_server_that_is_away_for_one_object_is_no_word_in_its_status(desk: Desk) -> None:
    def away(owner: Body, _: Body) -> None:
        if owner["metadata"]["name"] == POISON:
            raise SourceUnavailable("apply: TimeoutError")

    desk.recorder.before_apply = away
    await desk.settle(POISON, HONEST)
    assert desk.recorder.reason(POISON, "Stalled") == ""
    assert desk.recorder.made() == [f"{HONEST}-h100-sxm-80gb-tp1"]
    assert next(iter(desk.writers.due_in_seconds())) <= 1.0


async def test_a_status_that_is_refused_is_our_defect_and_is_said_in_a_plain_one(desk: Desk) -> None:
    refused: list[str] = []

    def refuse(owner: Body) -> None:
        if owner["metadata"]["name"] == POISON and not refused:
            refused.append("once")
            raise ClusterRefused("status", 422, "status.pools: Invalid value")

    await desk.settle(HONEST)
    desk.recorder.before_status = refuse
    await desk.settle(POISON, HONEST)
    await desk.planner.one_pass()
    assert desk.recorder.reason(POISON) == "WriteFailed"


async def test_a_slow_write_holds_up_nobody_and_its_decision_counts_meanwhile(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plimsoll.app.write.writers.PATIENCE_SECONDS", 0.1)
    desk.recorder.hold[POISON] = asyncio.Event()
    await desk.settle(POISON, gpus=1)
    assert desk.recorder.made() == []
    desk.put(POISON, HONEST, gpus=1)
    await desk.planner.one_pass()
    await desk.planner.one_pass()
    assert desk.recorder.made() == [], "the only GPU is promised to a decision that is being written"
    assert desk.recorder.reason(HONEST) == "WaitingForGpus"
    desk.recorder.hold.pop(POISON).set()
    await asyncio.gather(*desk.writers.running())
    assert f"{POISON}-h100-sxm-80gb-tp1" in desk.recorder.made()
    assert desk.wake.is_set(), "it was left out of a pass, so it gets one of its own"


async def test_an_object_that_waits_for_its_turn_is_written_as_the_last_pass_decided(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plimsoll.app.write.writers.PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr("plimsoll.app.write.writers.AT_ONCE_PER_NAMESPACE", 1)
    desk.recorder.hold[POISON] = asyncio.Event()
    await desk.settle(POISON, HONEST)
    assert desk.recorder.made() == [], "one of them is being written, and the other waits"
    (honest,) = (body for body in desk.store.all(INFERENCE_DEPLOYMENTS) if body["metadata"]["name"] == HONEST)
    head = honest["metadata"] | {"resourceVersion": "2", "generation": 2}
    changed = {**honest, "metadata": head, "spec": honest["spec"] | {"replicas": 2}}
    desk.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", changed)
    await desk.planner.one_pass()
    desk.recorder.hold.pop(POISON).set()
    while desk.writers.running():
        await asyncio.gather(*desk.writers.running())
    made = [each for each in desk.recorder.applied if each["metadata"]["name"].startswith(f"{HONEST}-h100")]
    assert [each["spec"]["replicas"] for each in made] == [2]


async def test_a_namespace_whose_writes_hang_holds_up_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll.app.write.writers.PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr("plimsoll.app.write.writers.AT_ONCE_PER_NAMESPACE", 2)
    slow = [f"slow-{number}" for number in range(4)]
    for name in slow:
        desk.recorder.hold[name] = asyncio.Event()
    desk.put(*slow, HONEST)
    bodies = [dict(body) for body in desk.store.all(INFERENCE_DEPLOYMENTS)]
    for body in bodies:
        body["metadata"] = body["metadata"] | {"namespace": "other" if body["metadata"]["name"] == HONEST else "ns"}
    desk.store.replace(INFERENCE_DEPLOYMENTS, [])
    desk.store.replace(INFERENCE_DEPLOYMENTS, bodies)
    await desk.planner.one_pass()
    await desk.look_up()
    await desk.planner.one_pass()
    await eventually(lambda: desk.recorder.made() == [f"{HONEST}-h100-sxm-80gb-tp1"])
    for hold in desk.recorder.hold.values():
        hold.set()
    while desk.writers.running():
        await asyncio.gather(*desk.writers.running())
    assert len(desk.recorder.made()) == len(slow) + 1


def page(desk: Desk) -> str:
    return generate_latest(desk.metrics.registry).decode()


def changed(desk: Desk, name: str, **spec: Any) -> None:
    """Let the author of one object change parts of its spec."""
    [body] = [each for each in desk.store.all(INFERENCE_DEPLOYMENTS) if each["metadata"]["name"] == name]
    head = {**body["metadata"], "generation": 2, "resourceVersion": "9"}
    desk.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", {**body, "metadata": head, "spec": {**body["spec"], **spec}})


HOST = {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"podTemplate": HOST}, "NotPermitted"),
        ({"gpu": {"allow": ["no-such-gpu"]}}, "InvalidSpec"),
    ],
    ids=["not permitted", "not valid"],
)
async def test_an_object_that_only_its_author_can_mend_is_stalled_and_its_neighbour_is_not(
    desk: Desk, spec: dict[str, Any], reason: str
) -> None:
    await desk.settle(POISON, HONEST)
    changed(desk, POISON, **spec)
    await desk.planner.one_pass()
    assert (desk.recorder.reason(POISON), desk.recorder.reason(POISON, "Stalled")) == (reason, reason)
    assert reason in desk.recorder.notes
    assert desk.recorder.reason(HONEST, "Stalled") != reason


@pytest.mark.parametrize(("version", "reason"), [("0.9.2", "InvalidSpec"), ("0.10.1", "")])
async def test_a_release_that_cannot_load_the_model_stalls_its_object_alone(
    desk: Desk, version: str, reason: str
) -> None:
    desk.put(POISON, HONEST)
    changed(desk, POISON, model={"name": "openai/gpt-oss-20b"}, engine={"version": version})
    for _ in range(2):
        await desk.planner.one_pass()
        await desk.look_up()
    await desk.planner.one_pass()
    assert desk.recorder.reason(POISON, "Stalled") == reason
    assert desk.recorder.reason(HONEST, "Stalled") == ""


async def test_a_status_that_cannot_be_trusted_is_logged_once_and_again_when_it_comes_back(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    body = inference_deployment_body(HONEST, uid=f"uid-{HONEST}")
    with caplog.at_level("WARNING", "plimsoll.passes"):
        for version, status in enumerate((["x"], ["x"], {}, ["x"])):
            head = {**body["metadata"], "resourceVersion": str(version)}
            desk.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", {**body, "metadata": head, "status": status})
            await desk.planner.one_pass()
    said = [record.getMessage() for record in caplog.records if record.name == "plimsoll.passes"]
    assert said == [f"ns/{HONEST}: status is ignored: it is no mapping"] * 2


async def test_an_object_that_is_being_deleted_is_no_longer_planned_and_those_after_it_are(desk: Desk) -> None:
    await desk.settle(POISON, HONEST)
    gone, _ = desk.store.all(INFERENCE_DEPLOYMENTS)
    head = {**gone["metadata"], "deletionTimestamp": "2026-11-21T04:00:00Z", "resourceVersion": "9"}
    desk.store.observe(INFERENCE_DEPLOYMENTS, "MODIFIED", {**gone, "metadata": head})
    await desk.planner.one_pass()
    assert desk.planner.latest is not None
    assert [key.name for key in desk.planner.latest.reports] == [HONEST]


async def test_false_pods_and_quotas_that_cannot_be_evaluated_are_logged_and_the_object_is_placed(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    head = {"name": "q", "namespace": "ns", "uid": "q", "resourceVersion": "1"}
    quota = {"hard": {"requests.nvidia.com/gpu": "8"}, "scopes": ["Unknown"]}
    desk.store.replace(RESOURCE_QUOTAS, [{"metadata": head, "spec": quota}])
    forged = pod_body("forged", owner=HONEST)
    forged["metadata"]["ownerReferences"] = []
    desk.store.replace(PODS, [forged])
    with caplog.at_level("WARNING", "plimsoll.passes"):
        await desk.settle(HONEST)
    said = [record.getMessage() for record in caplog.records if record.name == "plimsoll.passes"]
    assert [each.split(" limits ")[0].split(" is ignored")[0] for each in said] == [
        "Pod ns/forged",
        "ResourceQuota ns/q",
    ]
    assert desk.recorder.made() == [f"{HONEST}-h100-sxm-80gb-tp1"]
