"""Weights on a claim: engines start when a Job has copied them, and not before; what serves goes on meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, Listing
from plimsoll.adapters.cluster.kinds import JOBS
from plimsoll.app.lookups.weights_watch import ASK_SECONDS, WeightsWatch
from plimsoll.app.watch.store import uid_of
from plimsoll.decision.weights import RETRY_SECONDS
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.weights import WEIGHTS_PATH
from plimsoll.domain.units import GIB, MIB
from tests.support.api_in_memory import CLUSTER, ApiInMemory, Clock
from tests.support.bodies import Body
from tests.support.honest import honest_nodes, honest_spec
from tests.support.installed import LLAMA_8B, condition, inference_deployment
from tests.support.operator_in_memory import OperatorInMemory
from tests.support.volumes import MANY, ONCE, ZONE, claim, volume

TENANT, HONEST = "cached", "honest"
OLD, NEW = "s3://models/llama-8b/1", "s3://models/llama-8b/2"


@dataclass
class World:
    """A cluster with a claim, and an operator."""

    api: ApiInMemory
    operator: OperatorInMemory

    @staticmethod
    async def open(clock: Clock, cache: Path, mode: str = MANY) -> World:
        api = ApiInMemory(clock)
        for node in (*honest_nodes(1, TENANT), *honest_nodes(1, HONEST)):
            api.put({**node, "metadata": {**node["metadata"], "labels": {**node["metadata"]["labels"], ZONE: "a"}}})
        for name in ("weights", "other"):
            api.put(volume(f"disk-{name}", "a", mode, of=(TENANT, name)))
            api.put(claim(TENANT, name, mode, volume=f"disk-{name}"))
        operator = OperatorInMemory(api, cache, [(tenant, LLAMA_8B) for tenant in (TENANT, HONEST)])
        await operator.start()
        return World(api, operator)

    def put(self, source: str = OLD, claim_name: str = "weights", **spec: Any) -> None:
        """Create the object, or change it."""
        model = {"name": LLAMA_8B, "source": source, "cache": {"claimName": claim_name}}
        body = inference_deployment(
            "llama", TENANT, **{**honest_spec(TENANT), "overrides": None, "model": model, **spec}
        )
        self.api.put(body)

    @property
    def body(self) -> Body:
        return self.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(TENANT, "llama")) or {}

    def jobs(self) -> list[Body]:
        return self.api.all(JOBS, TENANT)

    def end(self, job: Body, kind: str = "Complete", message: str = "") -> None:
        """Let the Job controller report an end."""
        ended = {"type": kind, "status": "True", "lastTransitionTime": self.api.clock.text, "message": message}
        key = ObjectKey(TENANT, job["metadata"]["name"])
        self.api.put_status(JOBS, key, {"conditions": [ended]}, CLUSTER)

    def folders(self) -> list[str]:
        """The folders from which engines are to load."""
        return [each["spec"]["template"]["spec"]["containers"][0]["args"][0] for each in self.workloads()]

    def workloads(self) -> list[Body]:
        return self.api.all(DEPLOYMENTS, TENANT)

    async def go_on(self, passes: int = 4) -> None:
        await self.operator.go_on(passes)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock.read)
    monkeypatch.setattr(time, "monotonic", clock.read)
    made = await World.open(clock, tmp_path)
    yield made
    await made.operator.close()


async def test_engines_start_when_their_weights_are_there_and_the_next_version_waits_while_the_last_one_serves(
    world: World,
) -> None:
    world.put()
    world.api.put(inference_deployment("n", HONEST, **honest_spec(HONEST)))
    await world.go_on()
    [job] = world.jobs()
    assert world.workloads() == []
    assert condition(world.body, "Ready")["reason"] == "WeightsArriving"
    assert condition(world.body, "Reconciling")["status"] == "True"
    assert world.body["status"]["weights"]["state"] == "Arriving"
    assert condition(world.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(HONEST, "n")) or {}, "Ready")["reason"] == "Serving"
    world.end(job)
    await world.go_on()
    assert condition(world.body, "Ready")["reason"] == "Serving"
    assert world.body["status"]["weights"]["state"] == "Ready"
    [first] = world.folders()
    assert first.startswith(f"{WEIGHTS_PATH}/models-llama-8b-1-")
    world.put(NEW)
    await world.go_on()
    assert world.folders() == [first]
    ready = condition(world.body, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "WeightsArriving")
    assert ready["message"].startswith("The replicas serve on with the weights of before.")
    [newer] = [each for each in world.jobs() if each["metadata"]["name"] != job["metadata"]["name"]]
    world.end(newer)
    await world.go_on()
    assert world.folders() != [first]
    assert condition(world.body, "Ready")["reason"] == "Serving"
    assert [each["metadata"]["name"] for each in world.jobs()] == [newer["metadata"]["name"]], "the old one is gone"
    assert world.api.trespasses == []


@pytest.mark.parametrize("statuses", ["containerStatuses", "initContainerStatuses"])
async def test_a_failed_download_is_named_and_goes_on_after_a_pause(world: World, statuses: str) -> None:
    world.put()
    await world.go_on()
    [job] = world.jobs()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "copy",
            "namespace": TENANT,
            "ownerReferences": [{"kind": "Job", "name": "j", "uid": uid_of(job), "controller": True}],
        },
        "spec": {},
        "status": {
            "phase": "Failed",
            statuses: [{"state": {"terminated": {"message": "model.safetensors\nerror: no room"}}}],
        },
    }
    watch = WeightsWatch(_listing(pod), clock=world.api.clock.read)
    world.operator.passes.reader.downloads = watch
    world.end(job, "Failed", "Job has reached the specified backoff limit")
    await world.go_on()
    watch.start_wanted()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await world.go_on()
    stalled = condition(world.body, "Stalled")
    assert stalled["reason"] == "WeightsFailed"
    assert stalled["message"].startswith("The weights were not copied to the claim weights: no room. It is tried again")
    assert world.body["status"]["weights"]["message"] == "no room"
    assert [uid_of(each) for each in world.jobs()] == [uid_of(job)]
    world.api.clock.now += RETRY_SECONDS + 1
    await world.go_on()
    [again] = world.jobs()
    assert (again["metadata"]["name"], uid_of(again) == uid_of(job)) == (job["metadata"]["name"], False)
    assert condition(world.body, "Ready")["reason"] == "WeightsArriving"


def _listing(*pods: Body) -> Any:
    async def listed(*_: Any, **__: Any) -> Listing:
        return Listing([dict(each) for each in pods], 1, is_whole=True)

    return listed


async def test_progress_is_asked_of_the_pods_of_the_job_alone_and_nonsense_is_none() -> None:
    now, answers = 0.0, [{"copiedBytes": 4 * GIB, "totalBytes": 16 * GIB, "bytesPerSecond": 200 * MIB}, [], {"x": 1}]
    asked: list[str] = []

    async def fetch(url: str) -> object:
        asked.append(url)
        return answers[len(asked) - 1] if len(asked) <= len(answers) else {"copiedBytes": -1}

    def pod(uid: str, address: str) -> Body:
        owner = {"kind": "Job", "uid": uid, "controller": True}
        head = {"name": address, "namespace": "n", "ownerReferences": [owner], "creationTimestamp": "2026-11-30"}
        return {"metadata": head, "status": {"phase": "Running", "podIP": address}}

    job = {"metadata": {"name": "j", "namespace": "n", "uid": "u"}}
    watch = WeightsWatch(_listing(pod("u", "10.0.0.1"), pod("v", "10.6.6.6")), fetch=fetch, clock=lambda: now)
    shares = []
    for _ in range(4):
        watch.of(job)
        watch.start_wanted()
        for _ in range(5):
            await asyncio.sleep(0)
        progress = watch.of(job).progress
        shares.append(None if progress is None else (progress.copied_bytes / GIB, progress.remaining_seconds))
        now += ASK_SECONDS
    assert shares == [(4, 62), None, None, None]
    assert set(asked) == {"http://10.0.0.1:8000/progress"}
    await watch.close()


async def test_a_claim_for_one_node_is_refused_for_two_replicas_with_the_field_and_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock.read)
    world = await World.open(clock, tmp_path, ONCE)
    world.put(replicas=2)
    await world.go_on()
    stalled = condition(world.body, "Stalled")
    assert stalled["reason"] == "InvalidSpec"
    assert "spec.model.cache.claimName" in stalled["message"]
    assert "ReadWriteMany" in stalled["message"]
    assert world.jobs() == []
    world.put(replicas=1)
    await world.go_on()
    [job] = world.jobs()
    placed = job["spec"]["template"]["spec"]
    assert placed["affinity"]["nodeAffinity"], "its volume is made near this pod, so that engines can reach it"
    assert "resources" in placed["containers"][0]
    assert "nvidia.com/gpu" not in placed["containers"][0]["resources"]["limits"]
    await world.operator.close()


EVENTS = (
    *("complete", "delete the job", "restart", "wait"),
    *("fail", "new", "old", "other claim", "no claim", "suspend"),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(EVENTS), min_size=3, max_size=9))
def test_no_engine_is_ever_asked_to_load_what_is_not_whole(
    tmp_path_factory: pytest.TempPathFactory, events: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock()
        patch.setattr(time, "time", clock.read)
        patch.setattr(time, "monotonic", clock.read)
        asyncio.run(_walk(clock, tmp_path_factory.mktemp("hub"), events))


async def _walk(clock: Clock, cache: Path, events: list[str]) -> None:
    world = await World.open(clock, cache)
    world.put()
    world.api.put(inference_deployment("n", HONEST, **honest_spec(HONEST)))
    await world.go_on()
    whole: set[str] = set()
    for event in events:
        await _happen(world, event, whole)
        await world.go_on()
        for folder in world.folders():
            assert folder in whole or not folder.startswith(WEIGHTS_PATH), (events, folder)
    served = condition(world.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(HONEST, "n")) or {}, "Ready")
    assert served["reason"] == "Serving"
    assert world.api.trespasses == []
    world.put()
    for _ in range(3):
        for job in world.jobs():
            world.end(job)
        await world.go_on()
    assert condition(world.body, "Ready")["reason"] == "Serving", events
    assert len(world.jobs()) == 1
    await world.operator.close()


def _ended(world: World, kind: str) -> list[Body]:
    running = [each for each in world.jobs() if not (each.get("status") or {}).get("conditions")]
    for job in running:
        world.end(job, kind)
    return running


async def _happen(world: World, event: str, whole: set[str]) -> None:
    if event == "complete":
        whole |= {each["spec"]["template"]["spec"]["containers"][0]["args"][-3] for each in _ended(world, "Complete")}
    elif event == "delete the job":
        for job in world.jobs():
            world.api.delete(JOBS, ObjectKey(TENANT, job["metadata"]["name"]))
    elif event == "restart":
        await world.operator.restart()
    elif event == "wait":
        world.api.clock.now += RETRY_SECONDS + 1
    else:
        CHANGES[event](world)


CHANGES: Mapping[str, Callable[[World], object]] = {
    "fail": lambda world: _ended(world, "Failed"),
    "new": lambda world: world.put(NEW),
    "old": lambda world: world.put(OLD),
    "other claim": lambda world: world.put(claim_name="other"),
    "no claim": lambda world: world.put(model={"name": LLAMA_8B}),
    "suspend": lambda world: world.put(suspend=True),
}
