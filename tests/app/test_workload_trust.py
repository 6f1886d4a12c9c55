"""Objects with our labels that are not ours to trust, and those that somebody took the owner from."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from plimsoll.adapters.cluster.client import DEPLOYMENTS, INFERENCE_DEPLOYMENTS, PODS
from plimsoll.adapters.cluster.kinds import JOBS
from plimsoll.app.reading.gathering import MOST_COMPLAINTS, surroundings_of
from plimsoll.app.watch import pruning
from plimsoll.app.watch.store import Store
from plimsoll.app.write.executor import is_ours
from plimsoll.decision.surroundings import Surroundings, read_pools
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.render.names import DEPLOYMENT_LABEL, HASH_ANNOTATION, MANAGED_BY, POOL_ANNOTATION, POOL_LABEL
from plimsoll.status.record.reading import Record, read
from plimsoll.status.record.workload_trust import (
    controller_of,
    is_adoptable,
    is_of_namesake,
    record_doubt,
    target_of,
)
from tests.status.test_record_reading import ENTRY
from tests.support.bodies import POOL, Body, inference_deployment_body, pod_body, service_manifest, workload_body
from tests.support.tables import every_case

KEY, HONEST = ObjectKey("ns", "llama"), ObjectKey("ns", "honest")


def store_with(*workloads: Body, pods: tuple[Body, ...] = ()) -> Store:
    """A store with two objects; the second has a pool and a pod of its own."""
    kinds = {
        INFERENCE_DEPLOYMENTS: pruning.inference_deployment,
        PODS: pruning.pod,
        **dict.fromkeys((DEPLOYMENTS, JOBS), pruning.whole),
    }
    store = Store(kinds, lambda: None)
    for name, uid in (("llama", "u1"), ("honest", "u2")):
        store.observe(INFERENCE_DEPLOYMENTS, "ADDED", inference_deployment_body(name, uid=uid))
    for body in (workload_body(owner="honest", uid="u2"), *workloads):
        store.observe(DEPLOYMENTS, "ADDED", body)
    for body in (pod_body("its-pod", owner="honest"), *pods):
        store.observe(PODS, "ADDED", body)
    return store


def around(*workloads: Body, pods: tuple[Body, ...] = ()) -> Surroundings:
    found = surroundings_of(store_with(*workloads, pods=pods).picture())
    honest = found[HONEST]
    assert (list(honest.workloads), len(honest.pods[POOL]), honest.complaints) == ([POOL], 1, ())
    return found[KEY]


def changed(change: Callable[[Body], object], **more: Any) -> Body:
    body = workload_body(**more)
    change(body["metadata"])
    return body


def recorded(**record: Any) -> Callable[[Body], object]:
    def change(head: Body) -> None:
        told = json.loads(head["annotations"][POOL_ANNOTATION]) | record
        head["annotations"][POOL_ANNOTATION] = json.dumps(told)

    return change


def _named_for(engine: str) -> Callable[[Body], object]:
    """The name of a pool at a place where a pool of another engine is."""

    def change(head: Body) -> None:
        head["labels"][POOL_LABEL] += f"-{engine}"
        head["name"] += f"-{engine}"

    return change


def test_a_pool_beside_one_of_another_engine_has_the_name_of_its_own() -> None:
    assert record_doubt(workload_body(), "llama") == record_doubt(changed(_named_for("sglang")), "llama") == ""


FORGED: list[tuple[str, Callable[[Body], object], str]] = [
    ("no record", lambda head: head["annotations"].pop(POOL_ANNOTATION), "is missing"),
    ("no annotations", lambda head: head.update(annotations=None), "is missing"),
    ("no JSON", lambda head: head["annotations"].update({POOL_ANNOTATION: "{"}), "no JSON"),
    ("a list", lambda head: head["annotations"].update({POOL_ANNOTATION: "[1]"}), "no JSON object"),
    ("deep JSON", lambda head: head["annotations"].update({POOL_ANNOTATION: "[" * 100_000}), "no JSON"),
    ("no split", recorded(tensorParallel=None), "tensorParallel None"),
    ("a split of nothing", recorded(tensorParallel=0), "tensorParallel 0"),
    ("a split of more than a node", recorded(tensorParallel=128), "larger than any node"),
    ("two selectors", recorded(nodeSelector={"a": "b", "c": "d"}), "not one label"),
    ("another resource", recorded(resource="cpu"), "none of GPUs"),
    ("another GPU than its labels say", recorded(gpuType="l4-24gb"), "labels do not name"),
    ("a type that is no text", recorded(gpuType=["h100"]), "is no name"),
    ("an endless drain", recorded(drain=86_400), "drainSeconds 86400 is not between"),
    ("an engine that nobody knows", recorded(engine="abacus-9"), "engine 'abacus-9' is not known"),
    ("an engine that is no name", recorded(engine=["sglang"]), "engine ['sglang'] is not known"),
    ("a drain of no time", recorded(drain=0), "drainSeconds 0 is not between"),
    ("a drain of more than an hour", recorded(drain=3601), "drainSeconds 3601 is not between"),
    ("a drain that is no number", recorded(drain="90"), "drainSeconds '90' is not between"),
    ("another name", lambda head: head.update(name="llama-other"), "its name is not"),
    ("a pool of no engine", _named_for("abacus-9"), "labels do not name"),
    ("another pool", lambda head: head["labels"].update({POOL_LABEL: "other"}), "labels do not name"),
    (
        "somebody else's",
        lambda head: head.update(ownerReferences=[{"kind": "Thing", "name": "t", "uid": "x", "controller": True}]),
        "its controller is Thing t",
    ),
    (
        "nobody's and not made by us",
        lambda head: (head.update(ownerReferences=[]), head["annotations"].pop(HASH_ANNOTATION)),
        "no controller and not the marks",
    ),
]


@every_case(("change", "why"), [each[1:] for each in FORGED], ids=[each[0] for each in FORGED])
def test_what_does_not_agree_with_itself_is_ignored_and_named(change: Callable[[Body], object], why: str) -> None:
    seen = around(changed(change))
    assert seen.workloads == {}
    [complaint] = seen.complaints
    assert complaint.startswith("Deployment ns/llama-")
    assert why in complaint
    assert read_pools(Record(), seen, wanted=1, now=0, grace_seconds=1) == ()


@pytest.mark.parametrize(("record", "engine"), [({"engine": "sglang"}, "sglang"), ({}, "vllm")])
def test_without_a_status_a_pool_keeps_the_engine_of_its_record(record: dict[str, Any], engine: str) -> None:
    seen = around(changed(recorded(**record)))
    [pool] = read_pools(Record(), seen, wanted=1, now=0, grace_seconds=1)
    assert pool.engine == engine


@pytest.mark.parametrize("drain", [1, 90, 570, 3600])
def test_without_a_status_a_pool_keeps_the_seconds_of_its_record(drain: int) -> None:
    seen = around(changed(recorded(drain=drain)))
    [pool] = read_pools(Record(), seen, wanted=1, now=0, grace_seconds=1)
    assert pool.drain_seconds == drain


def test_a_record_of_an_earlier_release_names_no_seconds() -> None:
    [pool] = read_pools(Record(), around(workload_body()), wanted=1, now=0, grace_seconds=1)
    assert pool.drain_seconds is None


def test_what_a_deleted_namesake_left_is_no_lie() -> None:
    seen = around(workload_body(uid="of-the-namesake"))
    assert (seen.workloads, seen.complaints) == ({}, ())


class TestPods:
    def test_only_those_of_the_workload_s_replica_set_count(self) -> None:
        forged = pod_body("forged")
        forged["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "other-rs", "controller": True}]
        bare = pod_body("bare")
        bare["metadata"]["ownerReferences"] = []
        seen = around(workload_body(), pods=(pod_body("real"), forged, bare))
        assert [pod.name for pod in seen.pods[POOL]] == ["real"]
        assert sorted(complaint.split(" is ")[0] for complaint in seen.complaints) == ["Pod ns/bare", "Pod ns/forged"]

    def test_those_that_cost_no_gpu_are_no_engines_and_are_asked_for_nothing(self) -> None:
        """They may be thousands, ready at once, with a page each."""
        cheap = pod_body("cheap")
        cheap["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
        seen = around(workload_body(), pods=(pod_body("one"), cheap))
        assert [pod.name for pod in seen.pods[POOL]] == ["one"]
        assert seen.complaints == (f"Pod ns/cheap is ignored: it has the labels of pool {POOL} and asks for no GPU",)

    def test_ten_thousand_of_them_fill_no_log(self) -> None:
        def forged(name: str) -> Body:
            body = pod_body(name)
            body["metadata"]["ownerReferences"] = []
            return body

        seen = around(workload_body(), pods=tuple(forged(f"p{index}") for index in range(MOST_COMPLAINTS + 30)))
        assert len(seen.complaints) == MOST_COMPLAINTS


class TestOrphans:
    """Deleted with ``--cascade=orphan`` and made again: what runs is taken back with its pods."""

    @staticmethod
    def orphaned(body: Body) -> Body:
        body["metadata"]["ownerReferences"] = []
        body["metadata"]["creationTimestamp"] = "2026-11-21T02:00:00Z"
        return body

    @staticmethod
    def old_pod(born: str) -> Body:
        body = pod_body(f"pod-{born[11:13]}")
        body["metadata"]["creationTimestamp"] = born
        return body

    def test_an_orphan_is_the_object_s_workload_and_its_pods_are_counted(self) -> None:
        pods = (self.old_pod("2026-11-21T02:00:05Z"), self.old_pod("2026-11-21T01:00:05Z"))
        seen = around(self.orphaned(workload_body(replicas=3)), pods=pods)
        assert seen.complaints == ()
        assert [pod.name for pod in seen.pods[POOL]] == ["pod-02"]  # the other is older than the workload itself
        [pool] = read_pools(Record(), seen, wanted=5, now=0, grace_seconds=1)
        assert (pool.name, pool.replicas, pool.bound, pool.exists) == (POOL, 3, 1, True)

    def test_pods_of_a_namesake_s_workload_are_not(self) -> None:
        seen = around(workload_body(uid="gone"), pods=(self.old_pod("2026-11-21T02:00:05Z"),))
        assert seen.pods == {}

    def test_what_may_be_taken_back(self) -> None:
        orphan = self.orphaned(workload_body())
        assert is_adoptable(orphan, "llama")
        assert not is_adoptable(orphan, "honest")
        assert not is_adoptable(workload_body(), "llama")
        service = service_manifest()
        service["metadata"] |= {"ownerReferences": [], "labels": {MANAGED_BY: "plimsoll", DEPLOYMENT_LABEL: "llama"}}
        assert is_adoptable(service, "llama")
        service["metadata"]["annotations"] = {}
        assert not is_adoptable(service, "llama")


class TestWhatTheStatusSays:
    def test_a_workload_that_it_does_not_speak_of_is_a_leftover(self) -> None:
        other = read({"pools": [{**ENTRY, "name": "l4-24gb-tp1", "gpuType": "l4-24gb"}]})
        pools = read_pools(other, around(workload_body()), wanted=2, now=0, grace_seconds=1)
        assert [pool.name for pool in pools] == ["l4-24gb-tp1"]

    def test_read_back_from_what_runs_a_pool_is_no_larger_than_what_is_wanted(self) -> None:
        [pool] = read_pools(Record(), around(workload_body(replicas=16)), wanted=2, now=0, grace_seconds=1)
        assert pool.replicas == 2

    def test_where_an_entry_is_unusable_what_runs_of_it_is_read_back_and_not_removed(self) -> None:
        other = {**ENTRY, "name": "l4-24gb-tp1", "gpuType": "l4-24gb"}
        broken = read({"pools": [{**ENTRY, "replicas": -7}, other]})
        pools = read_pools(broken, around(workload_body()), wanted=2, now=0, grace_seconds=1)
        assert [(pool.name, pool.replicas) for pool in pools] == [("l4-24gb-tp1", 2), (POOL, 2)]


class TestOwnership:
    def test_a_workload_is_of_the_object_whose_uid_its_controller_has(self) -> None:
        owner = inference_deployment_body("llama", uid="u1")
        assert is_ours(workload_body(uid="u1"), owner)
        assert not is_ours(workload_body(uid="u2"), owner)

    def test_a_workload_without_a_controller_is_ours_if_it_may_be_taken_back(self) -> None:
        owner, other = inference_deployment_body("llama", uid="u1"), inference_deployment_body("honest", uid="u2")
        orphan = workload_body()
        orphan["metadata"]["ownerReferences"] = []
        assert is_ours(orphan, owner)
        assert not is_ours(orphan, other)

    def test_a_reference_that_is_no_controller_makes_nobody_the_owner(self) -> None:
        orphan = workload_body()
        orphan["metadata"]["ownerReferences"][0]["controller"] = False
        assert controller_of(orphan) is None
        assert is_ours(orphan, inference_deployment_body("llama", uid="another"))

    def test_only_an_object_of_the_same_kind_and_name_and_another_uid_is_a_namesake(self) -> None:
        owner = inference_deployment_body("llama", uid="u1")
        assert is_of_namesake(workload_body(uid="gone"), owner)
        assert not is_of_namesake(workload_body(uid="u1"), owner)
        assert not is_of_namesake(workload_body(owner="honest", uid="gone"), owner)
        foreign = workload_body(uid="gone")
        foreign["metadata"]["ownerReferences"][0]["kind"] = "Thing"
        assert not is_of_namesake(foreign, owner)
        foreign["metadata"]["ownerReferences"] = []
        assert not is_of_namesake(foreign, owner)


class TestRecords:
    def test_a_record_without_stages_is_of_one_stage(self) -> None:
        assert target_of(workload_body()).split == Split(1, 1)

    def test_a_record_with_stages_names_its_pool_after_them(self) -> None:
        staged = changed(recorded(tensorParallel=2, pipelineParallel=3), pool="h100-sxm-80gb-tp2-pp3")
        assert record_doubt(staged, "llama") == ""
        assert target_of(staged).split == Split(2, 3)

    def test_a_record_without_a_split_is_named(self) -> None:
        def forget(head: Body) -> None:
            record = json.loads(head["annotations"][POOL_ANNOTATION])
            del record["tensorParallel"]
            head["annotations"][POOL_ANNOTATION] = json.dumps(record)

        assert record_doubt(changed(forget), "llama") == "its pool record has no tensorParallel"

    def test_a_record_of_no_gpu_type_is_named(self) -> None:
        assert record_doubt(changed(recorded(gpuType="")), "llama") == "gpuType '' of its pool record is no name"

    def test_labels_of_another_object_are_named(self) -> None:
        assert "its labels do not name" in record_doubt(workload_body(), "honest")


def test_twenty_complaints_about_one_object_are_kept() -> None:
    def forged(name: str) -> Body:
        body = pod_body(name)
        body["metadata"]["ownerReferences"] = []
        return body

    assert len(around(workload_body(), pods=tuple(forged(f"p{index}") for index in range(50))).complaints) == 20


@pytest.mark.parametrize(
    "controller",
    [{"kind": "StatefulSet", "name": f"llama-{POOL}-7d9"}, {"kind": "ReplicaSet", "name": "other-7d9"}],
    ids=str,
)
def test_a_pod_of_another_kind_of_controller_or_of_another_name_is_named(controller: Body) -> None:
    pod = pod_body("one")
    pod["metadata"]["ownerReferences"] = [{**controller, "uid": "x", "controller": True}]
    seen = around(workload_body(), pods=(pod,))
    assert seen.pods == {}
    assert seen.complaints == (f"Pod ns/one is ignored: it has the labels of pool {POOL} and not its ReplicaSet",)
