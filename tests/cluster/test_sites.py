"""Images and volumes on a real API server and scheduler: pods go where both can be used, and a neighbour as usual."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from plimsoll.domain.cluster.node_rules import DRIVER_LABEL
from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from testbed.operator_process import OperatorProcess
from tests.support.faulty import IMPATIENT
from tests.support.installed import View, condition, install
from tests.support.planes import borrowed_plane
from tests.support.registry import FakeRegistry, index, serving_registry
from tests.support.volumes import MANY, ZONE, bound, claim, storage_class

pytestmark = pytest.mark.cluster

ARCH = "kubernetes.io/arch"
APART = {"key": "example.com/apart", "value": "true", "effect": "NoSchedule"}
"""Keeps all but the tests of a node off it."""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Cheap GPUs in one zone, others in the zone of the volumes, hosts with Arm CPUs in a third, and an old driver."""
    nodes = [
        gpu_node("l40s-arm", "L40S", 4, labels={ARCH: "arm64", ZONE: "zone-c"}),
        gpu_node("l40s-amd", "L40S", 1, labels={ZONE: "zone-c"}),
        gpu_node("l4-b", "L4", 4, labels={ZONE: "zone-b"}),
        gpu_node("a100-a", "A100-SXM4-80GB", 4, labels={ZONE: "zone-a"}),
        gpu_node("h100-old", "H100-80GB-HBM3", 4, labels={ZONE: "zone-d", DRIVER_LABEL: "535"}),
        gpu_node("h100-new", "H100-80GB-HBM3", 4, labels={ZONE: "zone-d", DRIVER_LABEL: "580"}),
        with_amounts(gpu_node("a100-full", "A100-SXM4-80GB", 4, taints=[APART]), **{"ephemeral-storage": "10Gi"}),
        with_amounts(gpu_node("l4-sick", "L4", 4, taints=[APART]), **{"nvidia.com/gpu": "3"}),
    ]
    with borrowed_plane(nodes) as running:
        install(running)
        yield running


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeRegistry]:
    """A registry that the operator trusts and may ask."""
    with serving_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane, registry: FakeRegistry) -> Iterator[OperatorProcess]:
    """The operator, which may ask this registry alone."""
    settings = {"PLIMSOLL_IMAGE_REGISTRIES": registry.host, "SSL_CERT_FILE": str(registry.authority)}
    with OperatorProcess(control_plane, environment=IMPATIENT | settings) as running:
        yield running


def with_amounts(node: dict[str, Any], **allocatable: str) -> dict[str, Any]:
    """A node that offers pods other amounts than it has."""
    return node | {"status": node["status"] | {"allocatable": node["status"]["allocatable"] | allocatable}}


def cached(name: str = "weights") -> dict[str, Any]:
    return {"podTemplate": {"modelCache": {"claimName": name}}}


def only_on(node: str) -> dict[str, Any]:
    """A pod template for a node that is kept apart."""
    return {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": [{"key": APART["key"], "operator": "Exists"}],
    }


def shell(namespace: str, node: str, mounted: str) -> dict[str, Any]:
    """A pod of somebody who looks at the files of a claim."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "shell", "namespace": namespace},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "shell", "image": "busybox"}],
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": mounted}}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def test_a_replica_goes_to_the_zone_of_its_volume_though_the_other_zone_is_cheaper(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    bound(here, "weights", "zone-a")
    here.apply("cached", **cached())
    neighbour.apply("free")
    here.wait_ready("cached")
    neighbour.wait_ready("free")
    assert [here.nodes_of("cached"), neighbour.nodes_of("free")] == [["a100-a"], ["l4-b"]]
    rejected = {(each["gpuType"], each["reason"]) for each in here.get("cached")["status"]["rejections"]}
    assert ("l4-24gb", "VolumeElsewhere") in rejected
    assert operator.is_running


def test_parts_of_the_authors_are_admitted_under_the_strictest_profile_and_pods_go_where_both_affinities_allow(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    strict = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    here.control_plane.client.merge_patch(f"/api/v1/namespaces/{here.namespace}", strict)
    zone = {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["zone-b", "zone-c", "zone-d"]}]}
    small = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    template = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone]}}},
        "topologySpreadConstraints": [{"maxSkew": 4, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}],
        "initContainers": [{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always", "resources": small}],
        "containers": [{"name": "a-log", "image": "log:1", "securityContext": {"runAsUser": 65532}}],
        "startupProbe": {"failureThreshold": 500},
        "securityContext": {"fsGroupChangePolicy": "OnRootMismatch"},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["mirror.example"]}],
    }
    here.apply("whole", podTemplate=template)
    careless = {**template, "containers": [{"name": "a", "image": "b", "securityContext": {"privileged": True}}]}
    here.apply("careless", podTemplate=careless)
    neighbour.apply("free")
    here.wait_ready("whole")
    neighbour.wait_ready("free")
    assert [here.nodes_of("whole"), neighbour.nodes_of("free")] == [["a100-a"], ["l4-b"]]
    [pod], [name] = here.pods("whole"), here.workloads("whole")
    assert [each["name"] for each in pod["spec"]["containers"]] == ["engine", "a-log"]
    assert pod["spec"]["containers"][0]["startupProbe"]["failureThreshold"] == 500
    body = here.wait_condition("careless", "Ready", "False", "InvalidSpec")
    assert "containers[0].securityContext.privileged: True cannot be used" in condition(body, "Ready")["message"]
    before = here.read("deployments", name)["metadata"]["generation"]
    here.patch_object("inferencedeployments", "whole", {"metadata": {"annotations": {"looked-at": "again"}}})
    neighbour.apply("later", gpu={"allow": ["l4-24gb"]})
    neighbour.wait_ready("later")
    assert here.read("deployments", name)["metadata"]["generation"] == before, (
        "what the API server fills in is no change"
    )
    assert operator.is_running


def test_where_no_gpu_is_in_the_volumes_zone_the_status_names_claim_and_zone(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    bound(here, "weights", "zone-a")
    here.apply("stuck", gpu={"allow": ["l4-24gb"]}, **cached())
    body = here.wait_condition("stuck", "Ready", "False", "NoGpuFits")
    said = condition(body, "Ready")["message"]
    assert f"can mount the volume of claim weights, which is bound to {ZONE} in zone-a" in said
    assert f"add a node with 1 l4-24gb and {ZONE} in zone-a" in said
    assert here.pods("stuck") == []
    neighbour.apply("free", gpu={"allow": ["l4-24gb"]})
    neighbour.wait_ready("free")
    assert operator.is_running


def test_pods_go_to_nodes_whose_driver_the_image_can_use_and_a_neighbour_may_say_that_his_can_use_the_other(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    h100, old = {"allow": ["h100-sxm-80gb"]}, {"nodeSelector": {"kubernetes.io/hostname": "h100-old"}}
    here.apply("served", gpu=h100, replicas=4)
    here.apply("pinned", gpu=h100, podTemplate=old)
    compatible = {"env": [{"name": "VLLM_ENABLE_CUDA_COMPATIBILITY", "value": "1"}]}
    neighbour.apply("old", gpu=h100, podTemplate=old | compatible)
    here.wait_ready("served")
    neighbour.wait_ready("old")
    assert [set(here.nodes_of("served")), neighbour.nodes_of("old")] == [{"h100-new"}, ["h100-old"]]
    body = here.wait_condition("pinned", "Ready", "False", "NoGpuFits")
    said = condition(body, "Ready")["message"]
    assert "none of the nodes that other rules leave (1 of 2) has NVIDIA driver 580 or newer" in said
    assert here.pods("pinned") == []
    assert operator.is_running


def test_a_disk_without_room_for_the_model_and_gpus_that_do_not_work_are_named_with_what_helps(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    here.apply("large", podTemplate=only_on("a100-full"))
    here.apply("wide", overrides={"gpuType": "l4-24gb", "tensorParallel": 4}, podTemplate=only_on("l4-sick"))
    neighbour.apply("free", podTemplate=only_on("l4-sick"))
    said = condition(here.wait_condition("large", "Ready", "False", "NoGpuFits"), "Ready")["message"]
    assert "ephemeral-storage" in said
    assert "the largest has 10.00 GiB" in said
    assert "spec.podTemplate.modelCache.claimName" in said
    said = condition(here.wait_condition("wide", "Ready", "False"), "Ready")["message"]
    assert "node l4-sick has 1 more, which is unhealthy" in said
    neighbour.wait_ready("free")
    assert here.pods("large") == here.pods("wide") == []
    assert operator.is_running


def test_a_claim_for_one_node_is_refused_for_two_replicas_with_the_fix(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    bound(here, "weights", "zone-a")
    here.apply("two", replicas=2, **cached())
    body = here.wait_condition("two", "Ready", "False", "InvalidSpec")
    said = condition(body, "Ready")["message"]
    for word in ("spec.podTemplate.modelCache.claimName: 'weights'", "ReadWriteOnce", "ReadWriteMany"):
        assert word in said
    bound(neighbour, "weights", "zone-a", MANY)
    neighbour.apply("two", replicas=2, **cached())
    neighbour.wait_ready("two")
    here.patch("two", {"replicas": 1})
    here.wait_ready("two")
    assert operator.is_running


def test_a_claim_that_a_pod_of_somebody_else_mounts_where_no_replica_can_run_names_it_and_is_free_after_it(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    h100 = {"allow": ["h100-sxm-80gb"]}
    bound(here, "weights", "zone-d")
    here.control_plane.apply([shell(here.namespace, "h100-old", "weights")])
    here.wait(lambda: here.read("pods", "shell")["status"]["phase"] == "Running", "the shell runs")
    here.apply("cached", gpu=h100, **cached())
    neighbour.apply("free", gpu=h100)
    said = condition(here.wait_condition("cached", "Ready", "False", "NoGpuFits"), "Ready")["message"]
    assert "pod shell mounts it on node h100-old" in said
    assert "end pod shell, or name a claim other than weights: it fits on h100-sxm-80gb then" in said
    neighbour.wait_ready("free")
    assert here.pods("cached") == []
    here.delete("pods", "shell")
    here.wait_ready("cached")
    assert here.nodes_of("cached") == ["h100-new"]
    assert operator.is_running


def test_a_claim_that_waits_for_its_first_pod_goes_where_its_class_makes_volumes(
    operator: OperatorProcess, here: View
) -> None:
    made = storage_class(here.namespace, "zone-a"), claim(here.namespace, "weights", kind=here.namespace)
    here.control_plane.apply(made)
    here.apply("first", **cached())
    here.wait(lambda: [pool["gpuType"] for pool in here.pools("first")] == ["a100-sxm-80gb"], "the class's zone")
    assert operator.is_running


def test_a_volume_that_is_made_for_each_pod_goes_where_its_class_makes_it_and_a_neighbours_pods_as_usual(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    here.control_plane.apply([storage_class(here.namespace, "zone-a")])
    template = {"spec": claim("", "")["spec"] | {"storageClassName": here.namespace}}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    here.apply("scratch", replicas=2, podTemplate={"volumes": [scratch]})
    neighbour.apply("free")
    here.wait(lambda: [pool["gpuType"] for pool in here.pools("scratch")] == ["a100-sxm-80gb"], "the class's zone")
    neighbour.wait_ready("free")
    assert neighbour.nodes_of("free") == ["l4-b"]
    rejected = [each["message"] for each in here.get("scratch")["status"]["rejections"]]
    assert any("the volume of claim scratch of each pod" in message for message in rejected), rejected
    assert operator.is_running


def test_a_claim_of_a_class_that_does_not_exist_is_named_and_placed_once_the_class_exists(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    here.control_plane.apply([claim(here.namespace, "weights", kind=here.namespace)])
    here.apply("early", **cached())
    neighbour.apply("free")
    said = condition(here.wait_condition("early", "Ready", "Unknown", "ClaimUnusable"), "Ready")["message"]
    assert "spec.podTemplate.modelCache.claimName: 'weights'" in said
    assert f"names the storage class {here.namespace}, which does not exist" in said
    assert here.pods("early") == []
    neighbour.wait_ready("free")
    here.control_plane.apply([storage_class(here.namespace, "zone-a")])
    here.wait(lambda: [pool["gpuType"] for pool in here.pools("early")] == ["a100-sxm-80gb"], "the class's zone")
    assert operator.is_running


def test_an_update_of_what_mounts_alone_ends_the_old_pod_first(operator: OperatorProcess, here: View) -> None:
    bound(here, "weights", "zone-a")
    here.apply("cached", **cached())
    here.wait_ready("cached")
    [name] = here.workloads("cached")
    strategy = here.read("deployments", name)["spec"]["strategy"]["rollingUpdate"]
    assert (strategy["maxSurge"], strategy["maxUnavailable"]) == (0, 1)
    assert operator.is_running


def test_a_claim_that_does_not_exist_yet_rules_nothing_out_and_the_replica_goes_where_its_volume_turns_out_to_be(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    neighbour.apply("free", gpu={"allow": ["l4-24gb"]})
    here.apply("late", gpu={"allow": ["l4-24gb", "a100-sxm-80gb"]}, **cached())
    here.wait(lambda: here.pods("late"), "pods that wait for the claim")
    bound(here, "weights", "zone-a")
    here.wait(lambda: here.nodes_of("late") == ["a100-a"], "the volume's zone")
    neighbour.wait_ready("free")
    assert operator.is_running


def test_an_image_goes_to_nodes_of_its_platforms_also_among_nodes_of_one_type(
    operator: OperatorProcess, here: View, neighbour: View
) -> None:
    only = {"gpu": {"allow": ["l40s-48gb"]}}
    here.apply("amd", engine={"image": "registry.example/vllm-amd64:0.32.0"}, **only)
    here.wait_ready("amd")
    assert here.nodes_of("amd") == ["l40s-amd"]
    here.apply("more", engine={"image": "registry.example/vllm-amd64:0.32.0"}, **only)
    body = here.wait_condition("more", "Ready", "False", "WaitingForGpus")
    assert here.pods("more") == []
    assert "free" in condition(body, "Ready")["message"]
    arm = {"image": "registry.example/vllm-arm64:0.32.0", "platforms": ["linux/arm64"]}
    neighbour.apply("arm", engine=arm, **only)
    neighbour.wait_ready("arm")
    assert neighbour.nodes_of("arm") == ["l40s-arm"]
    here.patch("more", {"engine": {"platforms": ["linux/amd64", "linux/arm64"]}})
    here.wait_ready("more")
    assert here.nodes_of("more") == ["l40s-arm"]
    assert operator.is_running


def test_an_image_that_declares_nothing_goes_where_its_index_says_and_stays_when_its_registry_is_down(
    operator: OperatorProcess, registry: FakeRegistry, here: View, neighbour: View
) -> None:
    only = {"gpu": {"allow": ["l40s-48gb"]}}
    image = registry.publish("team/arm", "1", index("linux/arm64/v8"))
    registry.asks_for_token("team/arm")
    neighbour.apply("amd", engine={"image": "registry.example/vllm-amd64:0.32.0"}, **only)
    here.apply("arm", engine={"image": image}, **only)
    body = here.wait_ready("arm")
    neighbour.wait_ready("amd")
    assert [here.nodes_of("arm"), neighbour.nodes_of("amd")] == [["l40s-arm"], ["l40s-amd"]]
    noted = {"reference": image, "platforms": ["linux/arm64"], "source": "Index"}
    assert here.get("arm")["status"]["imagePlatforms"] == noted
    (pod,) = here.pods("arm")
    registry.server.rules.insert(0, ("/", lambda request: request.answer(b"", status="503 Away")))
    operator.stop()
    operator.start()
    operator.wait_healthy()
    here.patch("arm", {"replicas": 2})
    here.wait(lambda: len(here.nodes_of("arm")) == 2, "two replicas")
    assert set(here.nodes_of("arm")) == {"l40s-arm"}
    assert pod["metadata"]["uid"] in {each["metadata"]["uid"] for each in here.pods("arm")}
    assert here.get("arm")["status"]["imagePlatforms"] == noted
    assert body["metadata"]["uid"]
