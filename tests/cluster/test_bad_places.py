"""Nodes where engines cannot run, on a real API server and scheduler: replicas leave them, and nobody else moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from testbed.broken_node import LAST_WORDS, LAST_WORDS_ANYWHERE, BrokenNode
from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from testbed.kwok_config import LOAD_TIME_ANNOTATION
from testbed.operator_process import OperatorProcess
from testbed.rejecting_kubelet import RejectingKubelet
from tests.support.installed import View, condition, install
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

LOADS_LONG = {"podTemplate": {"annotations": {LOAD_TIME_ANNOTATION: "600s"}}}
"""An engine that serves at once would be rejected as a pod that has served."""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Two nodes of the cheapest type, one of another, and one for a neighbour."""
    nodes = [
        gpu_node("l4-a", "L4", 2),
        gpu_node("l4-b", "L4", 2),
        gpu_node("l40s", "L40S", 2),
        gpu_node("h100", "H100-80GB-HBM3", 4),
    ]
    with borrowed_plane(nodes) as running:
        install(running)
        yield running


def other(node: str) -> str:
    return {"l4-a": "l4-b", "l4-b": "l4-a"}[node]


@pytest.fixture
def settled(neighbour: View) -> Iterator[tuple[View, str, str]]:
    """A neighbour who serves on one of the two nodes; the node, and the identity of the pod."""
    neighbour.apply("settled", gpu={"allow": ["l4-24gb"]})
    neighbour.wait_ready("settled")
    [node], [pod] = neighbour.nodes_of("settled"), neighbour.pod_uids("settled")
    yield neighbour, node, pod
    assert neighbour.pod_uids("settled") == [pod], "a neighbour on the same node is left alone"
    neighbour.wait_ready("settled")


def said(body: dict[str, Any]) -> str:
    return str(condition(body, "Ready")["message"])


def rehomed(body: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(each["reason"], each.get("node")) for each in body["status"].get("rehomings") or ()]


@pytest.mark.parametrize("cause", ["GpuMemoryHeldByOthers", "GpuUnusable", "GpuNotInContainer"])
def test_a_replica_goes_to_another_node_of_its_type(
    operator: OperatorProcess, here: View, settled: tuple[View, str, str], cause: str
) -> None:
    _, bad, _ = settled  # engines prefer nodes with engines, so the scheduler takes the bad one first
    with BrokenNode(here.control_plane.client, bad, cause) as broken:
        here.apply("unlucky", gpu={"allow": ["l4-24gb"]})
        here.wait_ready("unlucky")
        assert here.nodes_of("unlucky") == [other(bad)]
        assert len(broken.crashed) == 1, "no second pod is tried there"
    body = here.get("unlucky")
    assert rehomed(body) == [(cause, bad)]
    assert body["status"]["pools"][0]["avoidedNodes"] == [bad]
    assert here.workloads("unlucky") == ["unlucky-l4-24gb-tp1"]
    assert operator.is_running


def test_a_replica_goes_to_another_type_where_its_own_has_no_other_node(
    operator: OperatorProcess, here: View, settled: tuple[View, str, str]
) -> None:
    neighbour, bad, _ = settled
    neighbour.apply("fills", replicas=2, gpu={"allow": ["l4-24gb"]}, podTemplate={"nodeSelector": on(other(bad))})
    neighbour.wait_ready("fills")
    with BrokenNode(here.control_plane.client, bad):
        here.apply("unlucky", gpu={"allow": ["l4-24gb", "l40s-48gb"]})
        here.wait_ready("unlucky")
    assert here.nodes_of("unlucky") == ["l40s"]
    assert rehomed(here.get("unlucky")) == [("GpuMemoryHeldByOthers", None)]
    here.wait(lambda: here.workloads("unlucky") == ["unlucky-l40s-48gb-tp1"], "only the new pool")
    assert operator.is_running


@pytest.mark.parametrize("cause", ["ImageForOtherPlatform", "GpuNotSupported"])
def test_what_no_node_of_a_type_can_run_goes_to_another_type_at_once(
    operator: OperatorProcess, here: View, settled: tuple[View, str, str], cause: str
) -> None:
    _, bad, _ = settled
    with BrokenNode(here.control_plane.client, bad, cause) as broken:
        here.apply("unlucky", gpu={"allow": ["l4-24gb", "l40s-48gb"]})
        here.wait_ready("unlucky")
        assert len(broken.crashed) == 1
    assert here.nodes_of("unlucky") == ["l40s"]
    assert operator.is_running


def test_where_nothing_else_is_free_cause_place_and_node_are_said_and_it_recovers(
    operator: OperatorProcess, here: View, settled: tuple[View, str, str]
) -> None:
    _, bad, _ = settled
    only = {"gpu": {"allow": ["l4-24gb"]}, "podTemplate": {"nodeSelector": on(bad)}}
    with BrokenNode(here.control_plane.client, bad, "DriverTooOld"):
        here.apply("stuck", **only)
        here.wait_condition("stuck", "Ready", "False", "DriverTooOld")
        here.wait(lambda: "3 restarts" in said(here.get("stuck")), "it is certain")
        for word in (LAST_WORDS["DriverTooOld"][14:60], f"pool l4-24gb-tp1 on node {bad}", "No other place takes it: "):
            assert word in said(here.get("stuck"))
    for pod in here.pods("stuck"):
        here.delete("pods", pod["metadata"]["name"])  # the node is mended, and its kubelet starts the engine again
    here.wait_ready("stuck")
    assert here.nodes_of("stuck") == [bad]
    assert operator.is_running


@pytest.mark.parametrize(
    ("cause", "helps"),
    [
        ("ModelNotAvailable", "spec.model.tokenSecretRef"),
        ("DiskFull", "spec.podTemplate.modelCache"),
        ("FileNotWritable", "spec.podTemplate"),
    ],
)
def test_what_no_other_place_mends_is_named_with_what_helps_and_the_replica_stays(
    operator: OperatorProcess, here: View, settled: tuple[View, str, str], cause: str, helps: str
) -> None:
    _, bad, _ = settled
    with BrokenNode(here.control_plane.client, bad, cause):
        here.apply("stuck", gpu={"allow": ["l4-24gb", "l40s-48gb"]}, podTemplate={"nodeSelector": on(bad)})
        here.wait_condition("stuck", "Ready", "False", cause)
        here.wait(lambda: "3 restarts" in said(here.get("stuck")), "it is certain")
    body = here.get("stuck")
    for word in (LAST_WORDS_ANYWHERE[cause][:40], f"pool l4-24gb-tp1 on node {bad}", helps):
        assert word in said(body)
    assert (rehomed(body), here.nodes_of("stuck")) == ([], [bad])
    assert operator.is_running


def test_a_kubelet_that_rejects_pods_is_left_for_another_node_of_the_type(
    operator: OperatorProcess, here: View, settled: tuple[View, str, str]
) -> None:
    _, bad, _ = settled
    with RejectingKubelet(here.control_plane.client, bad, spares="settled") as kubelet:
        here.apply("unlucky", gpu={"allow": ["l4-24gb"]}, **LOADS_LONG)
        here.wait(lambda: other(bad) in here.nodes_of("unlucky"), "the other node")
        assert len(kubelet.rejected) <= 20, kubelet.rejected
    assert here.workloads("unlucky") == ["unlucky-l4-24gb-tp1"]
    assert rehomed(here.get("unlucky")) == [("PodsRejected", bad)]
    assert operator.is_running


def on(node: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": node}
