"""What is kept of objects that come in by the hundred thousand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.app.watch import pruning
from plimsoll.app.watch.contests import REPLICAS_MANAGERS
from plimsoll.domain.cluster.host import HostNeed
from plimsoll.domain.kubernetes_names import QUEUE_LABEL
from plimsoll.engines.failures import read_failure
from plimsoll.facts.cluster.fleet_reading import gpus_held, held_resources
from plimsoll.facts.cluster.host_reading import MOST_OTHERS, pod_need
from plimsoll.facts.cluster.pod_reading import read_pod
from plimsoll.facts.cluster.quota_reading import read_quotas
from plimsoll.render.names import DEPLOYMENT_LABEL, POOL_LABEL
from tests.support.bodies import Body, node_body, pod_body, workload_body

GPU = "nvidia.com/gpu"
GPUS = f"requests.{GPU}"


def plain(name: str) -> Body:
    body = pod_body(name)
    body["metadata"]["labels"] = {"app": "web"}
    body["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]
    return body


def test_of_a_pod_without_gpus_its_identity_its_node_and_two_sums_are_kept() -> None:
    kept = pruning.pod(plain("web"))
    assert kept == {
        "metadata": {"name": "web", "namespace": "ns", "uid": "pod-web", "resourceVersion": "1"},
        "spec": {"nodeName": "h100-0"},
        "requests": {"cpu": 100, "memory": 64 * 2**20},
    }


def test_equal_parts_of_many_pods_are_one_object() -> None:
    one, other = pruning.pod(plain("a")), pruning.pod(plain("b"))
    assert one is not None
    assert other is not None
    assert one["spec"] is other["spec"]
    assert one["requests"] is other["requests"]


def test_who_made_a_pod_is_kept_of_ours_alone() -> None:
    ours, foreign = pod_body("ours"), pod_body("foreign")
    foreign["metadata"]["labels"] = {}
    foreign["spec"]["containers"] = [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    kept, other = pruning.pod(ours), pruning.pod(foreign)
    assert kept is not None
    assert other is not None
    [reference] = kept["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["controller"]) == ("ReplicaSet", True)
    assert "ownerReferences" not in other["metadata"]
    assert not pruning.is_plain(kept)
    assert not pruning.is_plain(other)


def test_of_a_quota_only_what_it_says_of_gpus_cpu_memory_and_pods_is_kept_and_others_are_not() -> None:
    head = {"name": "q", "namespace": "ns", "uid": "q", "resourceVersion": "1", "labels": {"a": "b"}}
    body = {
        "metadata": head,
        "spec": {"hard": {GPUS: "8", "secrets": "9", "pods": "7", "memory": "9Gi"}},
        "status": {"hard": {GPUS: "8"}, "used": {GPUS: "3", "secrets": "4", "pods": "2", "memory": "1Gi"}},
    }
    kept = pruning.quota(body)
    assert kept is not None
    assert kept["status"] == {"used": {GPUS: "3", "pods": "2", "memory": "1Gi"}}
    assert read_quotas([kept]) == read_quotas([body])
    assert pruning.quota({**body, "spec": {"hard": {"secrets": "9"}}}) is None


QUANTITIES = st.sampled_from(["1", "250m", "3Gi", "0", "lots"])
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", GPU, "nvidia.com/mig-1g.10gb", "rdma/ib"]), QUANTITIES)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("c")}, optional={"resources": RESOURCES, "restartPolicy": st.just("Always")}
    ),
    max_size=4,
)
PARTS = st.fixed_dictionaries(
    {"containers": CONTAINERS}, optional={"initContainers": CONTAINERS, "resources": RESOURCES, "overhead": AMOUNTS}
)


@given(parts=PARTS, ours=st.booleans())
def test_a_pod_takes_as_much_from_its_node_as_before_it_was_reduced(parts: Body, ours: bool) -> None:  # noqa: FBT001
    body = pod_body("any") if ours else plain("any")
    body["spec"] |= parts
    kept = pruning.pod(body)
    assert kept is not None
    assert pod_need(kept) == pod_need(body)
    assert {each: gpus_held(kept, each) for each in held_resources(kept) if gpus_held(kept, each)} == {
        each: gpus_held(body, each) for each in held_resources(body) if gpus_held(body, each)
    }
    assert pruning.pod(kept) == kept, "what was reduced as it was read is stored as it is"


def test_of_our_pods_everything_that_is_read_of_them_is_kept() -> None:
    body = pod_body("ours")
    body["status"]["podIP"] = "10.0.0.7"
    body["metadata"]["labels"][QUEUE_LABEL] = "team-a"
    kept = pruning.pod(body)
    assert kept is not None
    assert read_pod(kept, read_failure) == read_pod(body, read_failure)
    assert read_pod(kept, read_failure).queue == "team-a"
    assert kept["spec"]["nodeName"] == "h100-0"
    assert kept["metadata"]["labels"].items() <= body["metadata"]["labels"].items()
    assert {DEPLOYMENT_LABEL, POOL_LABEL} <= kept["metadata"]["labels"].keys()
    assert kept["metadata"]["creationTimestamp"] == body["metadata"]["creationTimestamp"]


@pytest.mark.parametrize(
    ("engine", "command"),
    [
        ({"args": ["a/b"]}, ()),
        ({"command": ["sglang", "serve"], "args": ["--tp", "2"]}, ("sglang", "serve")),
        ({}, None),
    ],
)
def test_how_the_engine_was_started_is_kept_and_nothing_of_other_containers(
    engine: Body, command: tuple[str, ...] | None
) -> None:
    body = pod_body("ours")
    sidecar = {"name": "logs", "command": ["sglang", "serve"], "args": ["x"]}
    body["spec"]["containers"] = [sidecar, {"name": "engine", **engine}]
    kept = pruning.pod(body)
    assert kept is not None
    assert read_pod(kept, read_failure).command == read_pod(body, read_failure).command == command
    assert pruning.pod(kept) == kept


def test_a_pod_is_small_however_many_containers_labels_and_owners_it_has() -> None:
    body = pod_body("large")
    many = range(5000)
    body["spec"]["containers"] = [{"name": f"c{each}", "resources": {"limits": {GPU: "1"}}} for each in many]
    body["spec"]["containers"][0] |= {"name": "engine", "command": ["x" * 9000] * 9000, "args": ["y"]}
    body["metadata"]["labels"] |= {f"l{each}": "x" for each in many}
    body["metadata"]["ownerReferences"] *= 5000
    ended = {"lastState": {"terminated": {"exitCode": 1}}}
    body["status"]["containerStatuses"] = [{"name": f"c{each}", "restartCount": 0, **ended} for each in many]
    kept = pruning.pod(body)
    assert kept is not None
    assert pruning.whole_size(kept).members < 60
    assert gpus_held(kept, GPU) == 5000
    for each in many:
        body["spec"]["containers"][each]["resources"]["requests"] = {f"x/r{each}": "1"}
    kept = pruning.pod(body)
    assert kept is not None
    assert pruning.whole_size(kept).members < 60 + MOST_OTHERS


def test_what_only_carries_our_label_is_kept_as_an_outline() -> None:
    ours = workload_body()
    foreign = {**ours, "metadata": {**ours["metadata"], "ownerReferences": [], "annotations": {"note": "x"}}}
    assert pruning.owned(ours) == ours
    kept = pruning.owned(foreign)
    assert kept["spec"].keys() <= {"replicas"}
    assert kept["metadata"]["annotations"] == {}
    assert kept["metadata"]["labels"].items() <= ours["metadata"]["labels"].items()


def test_our_pod_without_a_spec_a_status_or_references_is_kept_with_empty_ones() -> None:
    head = {key: value for key, value in pod_body("ours")["metadata"].items() if key != "ownerReferences"}
    kept = pruning.pod({"metadata": head})
    assert kept is not None
    assert kept["metadata"]["ownerReferences"] == []
    assert kept["spec"]["nodeName"] is None
    assert pod_need(kept) == HostNeed(0, 0)
    assert kept["status"] == {"containerStatuses": []}


def test_of_a_pod_without_labels_gpus_and_a_node_nothing_is_kept() -> None:
    body = plain("waits")
    body["metadata"]["labels"] = None
    assert pruning.is_plain(pruning.pod(body) or {})
    del body["spec"]["nodeName"]
    assert pruning.pod(body) is None


def test_the_managers_of_a_deployment_s_replicas_are_kept_without_ours_and_without_the_fields() -> None:
    def managed(*entries: tuple[str, Body | None]) -> Body:
        fields = [{"manager": manager, "fieldsV1": owned} for manager, owned in entries]
        return workload_body() | {"metadata": workload_body()["metadata"] | {"managedFields": fields}}

    replicas: Body = {"f:spec": {"f:replicas": {}}}
    both = pruning.workload(managed(("kubectl", replicas), ("plimsoll", replicas), ("hpa", replicas), ("x", None)))
    assert both[REPLICAS_MANAGERS] == ["hpa", "kubectl"]
    assert "managedFields" not in both["metadata"]
    ours = pruning.workload(managed(("plimsoll", replicas), ("other", {"f:spec": {"f:paused": {}}})))
    assert ours == workload_body()
    assert pruning.workload(workload_body()) == workload_body()


def test_of_a_node_its_heartbeats_and_images_are_not_kept() -> None:
    kept = pruning.node(node_body())
    assert kept == pruning.node(node_body(beat="04:00:00"))
    assert kept == {
        "metadata": {"name": "h100-0", "uid": "node-h100-0", "resourceVersion": "1", "labels": {"a": "b"}},
        "spec": {"taints": []},
        "status": {
            "allocatable": {"nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "Kubelet"}],
        },
    }
    bare = pruning.node({"metadata": {"name": "new"}})
    assert bare == {"metadata": {"name": "new"}, "spec": {}, "status": {"allocatable": {}, "conditions": []}}


def test_a_quota_that_cannot_be_evaluated_is_kept_so_that_it_is_named() -> None:
    head = {"name": "q", "namespace": "ns", "uid": "q", "resourceVersion": "1"}
    scoped = {"hard": {GPUS: "8"}, "scopes": ["Terminating-Of-Tomorrow"]}
    kept = pruning.quota({"metadata": head, "spec": scoped})
    assert kept is not None
    assert kept["spec"] == scoped
    assert kept["status"] == {"used": {}}
    assert read_quotas([kept]).complaints
    assert pruning.quota({"metadata": head}) is None
    named = pruning.quota({"metadata": head, "spec": {"hard": {"hugepages-2Mi": "8", "secrets": "1"}}})
    assert named is not None
    assert (named["spec"], len(read_quotas([named]).complaints)) == ({"hard": {"hugepages-2Mi": "8"}}, 1)


def test_of_a_priority_class_its_value_and_what_an_admin_allows_it_are_kept() -> None:
    head = {"name": "gold", "uid": "u", "resourceVersion": "3"}
    annotations = {"plimsoll.dev/preempts": "true", "kubectl.kubernetes.io/last-applied-configuration": "..."}
    kept = {"value": 1000, "globalDefault": False, "preemptionPolicy": "PreemptLowerPriority"}
    body = {"metadata": {**head, "annotations": annotations, "managedFields": []}, "description": "x", **kept}
    assert pruning.priority_class(body) == {
        "metadata": {**head, "annotations": {"plimsoll.dev/preempts": "true"}},
        **kept,
    }
    assert pruning.priority_class({"metadata": head, "value": 1}) == {"metadata": head, "value": 1}
