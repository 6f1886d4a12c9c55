"""Writing, with a cluster that remembers what was asked of it: nothing twice, nothing of anybody else's."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, SERVICES, Cluster, ObjectKind, kind_of
from plimsoll.api.bounds import MOST_MEMBERS
from plimsoll.app.shell import BOUNDS
from plimsoll.app.watch import pruning
from plimsoll.app.watch.store import Store, key_of
from plimsoll.app.write.executor import REMOVED_SECONDS, Executor, NameTaken, Note
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import EventReason
from tests.support.bodies import Body, inference_deployment_body, service_manifest, workload_body

OWNER = inference_deployment_body()


@dataclass
class FakeCluster:
    """Objects by kind and key; ``rewrite`` plays an admission webhook, ``calls`` is what was asked."""

    objects: dict[tuple[ObjectKind, ObjectKey], Body] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    rewrite: Callable[[Body], None] = lambda _: None
    version: int = 100
    newer: dict[str, str] = field(default_factory=dict)

    async def get(self, kind: ObjectKind, key: ObjectKey) -> Body | None:
        return copy.deepcopy(self.objects.get((kind, key)))

    async def apply(self, manifest: Body) -> Body:
        kind, key = kind_of(manifest), key_of(manifest)
        self.calls.append(f"apply {kind.kind}")
        stored = copy.deepcopy(manifest)
        self.version += 1
        stored["metadata"] |= {"uid": f"uid-{key.name}", "resourceVersion": str(self.version)}
        stored.setdefault("spec", {})["clusterIP"] = "10.0.0.1"
        self.rewrite(stored)
        self.objects[kind, key] = stored
        return copy.deepcopy(stored)

    async def put_status(self, kind: ObjectKind, known: Body, status: Body) -> Body:
        key, uid = key_of(known), known["metadata"]["uid"]
        self.calls.append(f"status {key.name} {uid}")
        if self.newer.get(key.name, known["metadata"]["resourceVersion"]) != known["metadata"]["resourceVersion"]:
            raise ClusterRefused(f"status {key}", 409, "the object has been modified")
        self.version += 1
        body = inference_deployment_body(key.name, uid=uid, version=self.version, status=dict(status))
        self.objects[kind, key] = body
        return body

    async def scale(self, kind: ObjectKind, key: ObjectKey, uid: str, replicas: int) -> Body:
        self.calls.append(f"scale {key.name} {uid} {replicas}")
        return self.objects.get((kind, key), workload_body(replicas=replicas))

    async def delete(self, kind: ObjectKind, key: ObjectKey, uid: str) -> None:
        self.calls.append(f"delete {kind.kind} {key.name} {uid}")

    async def create_event(self, event: Body) -> None:
        self.calls.append(f"event {event['reason']} {event['metadata']['name']}")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def executor(cluster: FakeCluster) -> Executor:
    shelves = (INFERENCE_DEPLOYMENTS, SERVICES, DEPLOYMENTS)
    store = Store(dict.fromkeys(shelves, pruning.whole), lambda: None)
    return Executor(cast("Cluster", cluster), store)


def seen_by_watch(executor: Executor, cluster: FakeCluster, change: Callable[[Body], Any]) -> None:
    """Somebody changes the Service, and the watch tells."""
    body = cluster.objects[SERVICES, ObjectKey("ns", "llama")]
    change(body)
    cluster.version += 1
    body["metadata"]["resourceVersion"] = str(cluster.version)
    executor.store.observe(SERVICES, "MODIFIED", copy.deepcopy(body))


async def test_what_is_as_rendered_is_not_sent_again(executor: Executor, cluster: FakeCluster) -> None:
    assert await executor.apply(OWNER, service_manifest())
    assert not await executor.apply(OWNER, service_manifest())
    assert cluster.calls == ["apply Service"]


async def test_a_new_rendering_is_sent(executor: Executor, cluster: FakeCluster) -> None:
    await executor.apply(OWNER, service_manifest(digest="d1"))
    assert await executor.apply(OWNER, service_manifest(digest="d2"))
    assert len(cluster.calls) == 2


async def test_an_edit_of_a_rendered_field_is_taken_back(executor: Executor, cluster: FakeCluster) -> None:
    await executor.apply(OWNER, service_manifest())
    seen_by_watch(executor, cluster, lambda body: body["spec"].update(selector={"app": "else"}))
    assert await executor.apply(OWNER, service_manifest())
    assert not await executor.apply(OWNER, service_manifest())
    assert cluster.calls == ["apply Service", "apply Service"]


async def test_the_same_two_are_compared_once_and_an_edit_is_still_taken_back(
    executor: Executor, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = service_manifest()
    await executor.apply(OWNER, manifest)
    assert not await executor.apply(OWNER, manifest)
    with monkeypatch.context() as patched:
        patched.delattr("plimsoll.app.write.executor._shown")
        assert not await executor.apply(OWNER, manifest)
    seen_by_watch(executor, cluster, lambda body: body["spec"].update(selector={"app": "else"}))
    assert await executor.apply(OWNER, manifest)
    assert cluster.calls == ["apply Service", "apply Service"]


async def test_an_object_that_others_made_too_large_is_written_once_for_each_rendering(cluster: FakeCluster) -> None:
    store = Store({INFERENCE_DEPLOYMENTS: pruning.whole, SERVICES: pruning.owned}, lambda: None, bounds=BOUNDS)
    executor = Executor(cast("Cluster", cluster), store)
    cluster.rewrite = lambda body: body["spec"].update(added=[{"x": "y"}] * MOST_MEMBERS)
    for digest in ("d1", "d1", "d2", "d2"):
        await executor.apply(OWNER, service_manifest(digest=digest))
    assert cluster.calls == ["apply Service", "apply Service"]
    kept = store.get(SERVICES, ObjectKey("ns", "llama"))
    assert kept is not None
    assert "added" not in kept["spec"]


async def test_what_others_add_beside_it_is_left_alone(executor: Executor, cluster: FakeCluster) -> None:
    await executor.apply(OWNER, service_manifest())
    seen_by_watch(executor, cluster, lambda body: body["metadata"].update(labels={"cost-centre": "42"}))
    seen_by_watch(executor, cluster, lambda body: body["spec"]["ports"].append({"name": "metrics", "port": 9000}))
    assert not await executor.apply(OWNER, service_manifest())


async def test_a_webhook_that_rewrites_what_is_sent_is_not_fought(executor: Executor, cluster: FakeCluster) -> None:
    cluster.rewrite = lambda body: body["spec"].update(ports=[{"name": "mesh", "port": 15001}])
    await executor.apply(OWNER, service_manifest())
    for _ in range(3):
        assert not await executor.apply(OWNER, service_manifest())
    seen_by_watch(executor, cluster, lambda body: body["spec"].update(selector={"app": "else"}))
    assert await executor.apply(OWNER, service_manifest())
    assert not await executor.apply(OWNER, service_manifest())


async def test_a_foreign_object_of_the_same_name_is_named_and_not_touched(
    executor: Executor, cluster: FakeCluster
) -> None:
    foreign = service_manifest(uid="other")
    foreign["metadata"]["ownerReferences"][0]["kind"] = "Database"
    cluster.objects[SERVICES, ObjectKey("ns", "llama")] = foreign
    with pytest.raises(NameTaken, match="Service ns/llama exists") as caught:
        await executor.check_names(OWNER, [service_manifest()])
    assert not caught.value.passing
    with pytest.raises(NameTaken):
        await executor.apply(OWNER, service_manifest())
    assert cluster.calls == []


async def test_what_a_deleted_namesake_left_goes_by_itself(executor: Executor, cluster: FakeCluster) -> None:
    cluster.objects[SERVICES, ObjectKey("ns", "llama")] = service_manifest(uid="of-the-namesake")
    with pytest.raises(NameTaken) as caught:
        await executor.check_names(OWNER, [service_manifest()])
    assert caught.value.passing


PLACED: Body = inference_deployment_body(status={"replicas": 1})


def of_another_uid(body: Body) -> None:
    body["metadata"]["uid"] = "of-an-heir"


def leaving(body: Body) -> None:
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("change", [None, of_another_uid, leaving])
async def test_nothing_is_created_again_for_an_owner_that_was_deleted(
    executor: Executor, cluster: FakeCluster, change: Callable[[Body], None] | None
) -> None:
    executor.store.observe(INFERENCE_DEPLOYMENTS, "ADDED", PLACED)
    if change:
        current = copy.deepcopy(PLACED)
        current["metadata"]["resourceVersion"] = "99"
        change(current)
        cluster.objects[INFERENCE_DEPLOYMENTS, key_of(PLACED)] = current
    with pytest.raises(ClusterRefused) as caught:
        await executor.apply(PLACED, service_manifest())
    assert caught.value.status == 404
    assert cluster.calls == []
    held = executor.store.get(INFERENCE_DEPLOYMENTS, key_of(PLACED))
    assert held is None or held["metadata"].get("deletionTimestamp")


async def test_what_goes_with_its_owner_soon_after_it_was_made_is_not_made_again(
    executor: Executor, cluster: FakeCluster
) -> None:
    """The watch has not reported the owner's deletion yet, and the name was free a moment ago."""
    await executor.check_names(OWNER, [service_manifest()])
    await executor.apply(OWNER, service_manifest())
    made = executor.store.get(SERVICES, key_of(service_manifest()))
    assert made is not None
    cluster.objects.clear()
    executor.store.observe(SERVICES, "DELETED", made)
    with pytest.raises(ClusterRefused) as caught:
        await executor.apply(PLACED, service_manifest())
    assert caught.value.status == 404
    assert cluster.calls == ["apply Service"]


@pytest.mark.parametrize("change", [None, of_another_uid, leaving])
async def test_no_owner_reference_is_restored_to_an_owner_that_was_deleted(
    executor: Executor, cluster: FakeCluster, change: Callable[[Body], None] | None
) -> None:
    """``--cascade=orphan`` keeps the engines; Kubernetes would delete them if they named the deleted owner again."""
    executor.store.observe(INFERENCE_DEPLOYMENTS, "ADDED", PLACED)
    executor.store.observe(DEPLOYMENTS, "ADDED", _orphan())
    if change:
        current = copy.deepcopy(PLACED)
        current["metadata"]["resourceVersion"] = "99"
        change(current)
        cluster.objects[INFERENCE_DEPLOYMENTS, key_of(PLACED)] = current
    with pytest.raises(ClusterRefused) as caught:
        await executor.apply(PLACED, workload_body())
    assert caught.value.status == 404
    assert cluster.calls == []


async def test_an_owner_reference_is_restored_to_an_owner_that_exists(executor: Executor, cluster: FakeCluster) -> None:
    cluster.objects[INFERENCE_DEPLOYMENTS, key_of(PLACED)] = copy.deepcopy(PLACED)
    executor.store.observe(DEPLOYMENTS, "ADDED", _orphan())
    assert await executor.apply(PLACED, workload_body())
    assert cluster.calls == ["apply Deployment"]


def _orphan() -> Body:
    body = workload_body()
    del body["metadata"]["ownerReferences"]
    return body


async def test_a_vanished_object_of_an_owner_that_exists_is_created_again(
    executor: Executor, cluster: FakeCluster
) -> None:
    cluster.objects[INFERENCE_DEPLOYMENTS, key_of(PLACED)] = copy.deepcopy(PLACED)
    assert await executor.apply(PLACED, service_manifest())
    assert cluster.calls == ["apply Service"]


async def test_free_and_own_names_pass(executor: Executor, cluster: FakeCluster) -> None:
    await executor.check_names(OWNER, [service_manifest()])
    await executor.apply(OWNER, service_manifest())
    await executor.check_names(OWNER, [service_manifest()])
    assert cluster.calls == ["apply Service"]


async def test_a_status_is_written_only_when_it_says_something_else(executor: Executor, cluster: FakeCluster) -> None:
    owner = inference_deployment_body(status={"replicas": 1, "remedies": []})
    assert not await executor.write_status(owner, {"replicas": 1, "rejections": None})
    assert await executor.write_status(owner, {"replicas": 2})
    held = executor.store.get(INFERENCE_DEPLOYMENTS, ObjectKey("ns", "llama"))
    assert held is not None
    assert held["status"] == {"replicas": 2}
    assert cluster.calls == ["status llama u1"]


async def test_a_status_of_which_an_older_crd_drops_a_field_is_written_once(
    executor: Executor, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drops_a_field(kind: ObjectKind, known: Body, status: Body) -> Body:
        name, uid = known["metadata"]["name"], known["metadata"]["uid"]
        cluster.calls.append(f"status {name}")
        assert kind is INFERENCE_DEPLOYMENTS
        return inference_deployment_body(name, uid=uid, version=200, status={"replicas": status["replicas"]})

    monkeypatch.setattr(cluster, "put_status", drops_a_field)
    owner = inference_deployment_body(status={"replicas": 1})
    assert await executor.write_status(owner, {"replicas": 2, "rejections": [{"new": 1}]})
    after = inference_deployment_body(status={"replicas": 2})
    assert not await executor.write_status(after, {"replicas": 2, "rejections": [{"new": 1}]})
    assert await executor.write_status(after, {"replicas": 3, "rejections": [{"new": 1}]})
    assert cluster.calls == ["status llama", "status llama"]


async def test_a_status_is_written_on_the_newest_version_of_an_object_that_others_change(
    executor: Executor, cluster: FakeCluster
) -> None:
    owner = inference_deployment_body(version=3)
    cluster.newer["llama"] = "7"
    cluster.objects[INFERENCE_DEPLOYMENTS, key_of(owner)] = inference_deployment_body(version=7)
    assert await executor.write_status(owner, {"replicas": 2})
    held = executor.store.get(INFERENCE_DEPLOYMENTS, key_of(owner))
    assert held is not None
    assert held["status"] == {"replicas": 2}
    cluster.newer["llama"] = held["metadata"]["resourceVersion"]
    assert await executor.write_status(owner, {"replicas": 3}), "the store knows the newest version by now"
    assert cluster.calls == ["status llama u1"] * 3


@pytest.mark.parametrize(
    ("newest", "status"),
    [(None, 404), (inference_deployment_body(uid="u2", version=7), 404), (inference_deployment_body(version=6), 409)],
    ids=["deleted", "made anew", "changed all the time"],
)
async def test_a_status_that_cannot_be_written_is_refused_for_now(
    executor: Executor, cluster: FakeCluster, newest: Body | None, status: int
) -> None:
    owner = inference_deployment_body(version=3)
    cluster.newer["llama"] = "7"
    if newest is not None:
        cluster.objects[INFERENCE_DEPLOYMENTS, key_of(owner)] = newest
    with pytest.raises(ClusterRefused) as refused:
        await executor.write_status(owner, {"replicas": 2})
    assert refused.value.status == status


async def test_scaling_and_removing_touch_only_what_is_ours(executor: Executor, cluster: FakeCluster) -> None:
    ours, foreign = workload_body(replicas=2), workload_body(uid="other", replicas=2)
    await executor.scale(OWNER, ours, 2)
    await executor.scale(OWNER, foreign, 5)
    await executor.remove(OWNER, foreign)
    assert cluster.calls == []
    await executor.scale(OWNER, ours, 5)
    await executor.remove(OWNER, ours)
    ours["metadata"]["deletionTimestamp"] = "2026-11-21T03:00:00Z"
    await executor.remove(OWNER, ours)
    assert cluster.calls == [
        "scale llama-h100-sxm-80gb-tp1 workload-h100-sxm-80gb-tp1 5",
        "delete Deployment llama-h100-sxm-80gb-tp1 workload-h100-sxm-80gb-tp1",
    ]


async def test_a_workload_is_not_deleted_again_before_the_watch_tells_and_is_if_it_never_does(
    executor: Executor, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = workload_body(replicas=2), workload_body("other", replicas=2)
    await executor.remove(OWNER, ours)
    await executor.remove(OWNER, ours)
    await executor.remove(OWNER, other)
    assert len(cluster.calls) == 2
    later = time.monotonic() + REMOVED_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    await executor.remove(OWNER, ours)
    assert cluster.calls[2] == cluster.calls[0]


async def test_an_event_is_recorded_once_and_again_when_it_says_something_new(
    executor: Executor, cluster: FakeCluster
) -> None:
    note = Note(EventReason.PLACEMENT_DECIDED, "1 replica on an L4.")
    await executor.tell(OWNER, [note])
    await executor.tell(OWNER, [note, Note(EventReason.PLACEMENT_DECIDED, "2 replicas on an L4.")])
    assert [call.split()[1] for call in cluster.calls] == ["PlacementDecided", "PlacementDecided"]
    assert len(set(cluster.calls)) == 2


async def test_a_finding_that_comes_and_goes_has_one_event_in_its_pause(
    executor: Executor, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message has figures, which are others each time; after a restart the API server knows the name."""
    for at, share in ((36_000, 91), (36_500, 97), (39_599, 99)):
        monkeypatch.setattr(time, "time", lambda at=at: float(at))
        again = Executor(cast("Cluster", cluster), executor.store)
        await again.tell(OWNER, [Note("KvBound", f"{share} % of the KV cache is in use.", pause_seconds=3600)])
    assert len(set(cluster.calls)) == 1
    monkeypatch.setattr(time, "time", lambda: 39_600.0)
    await executor.tell(OWNER, [Note("KvBound", "92 % of the KV cache is in use.", pause_seconds=3600)])
    await executor.tell(OWNER, [Note("QueueBound", "9 requests wait.", pause_seconds=3600)])
    assert len(set(cluster.calls)) == 3


async def test_an_events_name_follows_from_its_content(executor: Executor, cluster: FakeCluster) -> None:
    note = Note(EventReason.PLACEMENT_DECIDED, "1 replica on an L4.")
    await executor.tell(OWNER, [note])
    after_restart = Executor(cast("Cluster", cluster), executor.store)
    await after_restart.tell(OWNER, [note])
    assert cluster.calls[0] == cluster.calls[1], "the API server refuses the second by its name"


@pytest.mark.parametrize("keeps", [True, False])
async def test_an_api_server_that_drops_image_volumes_gets_no_engine_without_weights(
    executor: Executor, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, *, keeps: bool
) -> None:
    with monkeypatch.context() as patch:
        volume = {"name": "w", "image": {"reference": "registry.example/m:1"}}
        manifest = workload_body()
        manifest["spec"] = {"template": {"spec": {"volumes": [volume]}}}
        asked: list[str] = []

        async def checked(kind: ObjectKind, body: Body) -> Body:
            asked.append(f"{kind.kind} {body['metadata']['name']}")
            kept = [volume] if keeps else [{"name": "w", "emptyDir": {}}]
            return {**body, "spec": {"template": {"spec": {"volumes": kept}}}}

        patch.setattr(cluster, "checked", checked, raising=False)
        if keeps:
            await executor._check_image_volumes(manifest)  # noqa: SLF001 - the one check
            await executor._check_image_volumes(manifest)  # noqa: SLF001 - the same
        else:
            with pytest.raises(ClusterRefused, match="no image volumes"):
                await executor._check_image_volumes(manifest)  # noqa: SLF001 - the same
        assert asked == [f"Deployment {manifest['metadata']['name']}-check"], "once for each process"
        await executor._check_image_volumes(service_manifest())  # noqa: SLF001 - the same
