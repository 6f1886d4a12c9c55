"""Nodes that go, on a real API server and scheduler: a pod starts elsewhere first, and no drain is blocked for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from testbed.api_client import ApiError
from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from testbed.kwok_config import LOAD_TIME_ANNOTATION
from testbed.operator_process import OperatorProcess
from tests.support.installed import View, condition, install
from tests.support.planes import borrowed_plane

pytestmark = pytest.mark.cluster

L4_ONLY = {"gpu": {"allow": ["l4-24gb"]}}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Two nodes of one type, and one of another for a neighbour."""
    nodes = [gpu_node("l4-a", "L4", 2), gpu_node("l4-b", "L4", 2), gpu_node("h100", "H100-80GB-HBM3", 4)]
    with borrowed_plane(nodes) as running:
        install(running)
        yield running


@pytest.fixture(autouse=True)
def mended(control_plane: ControlPlane) -> Iterator[None]:
    """After a test all nodes take pods again."""
    yield
    for name in ("l4-a", "l4-b"):
        control_plane.client.merge_patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None, "taints": []}})


@pytest.fixture(autouse=True)
def settled(neighbour: View) -> Iterator[None]:
    """A neighbour on another type, who must not notice anything."""
    neighbour.apply("settled", gpu={"allow": ["h100-sxm-80gb"]})
    neighbour.wait_ready("settled")
    pods = neighbour.pod_uids("settled")
    yield
    assert neighbour.pod_uids("settled") == pods
    neighbour.wait_ready("settled")


def cordon(view: View, node: str) -> None:
    view.control_plane.client.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})


def taint(view: View, node: str, key: str) -> None:
    taints = [{"key": key, "effect": "NoSchedule"}]
    view.control_plane.client.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"taints": taints}})


def evict(view: View, pod: str) -> int:
    """Ask for an eviction, as a drain does, and return the status of the answer."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": view.namespace}}
    try:
        view.control_plane.client.send("POST", f"/api/v1/namespaces/{view.namespace}/pods/{pod}/eviction", body)
    except ApiError as error:
        return error.status
    return 201


def serving(view: View, name: str) -> list[str]:
    return sorted(
        pod["spec"]["nodeName"]
        for pod in view.pods(name)
        if any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions") or ())
        and "deletionTimestamp" not in pod["metadata"]
    )


def other(node: str) -> str:
    return {"l4-a": "l4-b", "l4-b": "l4-a"}[node]


def budget(view: View, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = view.read("poddisruptionbudgets", name)["spec"]
    return {key: value for key, value in spec.items() if key != "selector"}


def test_the_operator_counts_the_gpus_of_nodes_that_take_pods(operator: OperatorProcess, here: View) -> None:
    plane, all_gpus = here.control_plane, 8
    here.wait(lambda: operator.known_gpus() == plane.ready_gpus() == all_gpus, "every node is known")
    cordon(here, "l4-a")
    here.wait(lambda: operator.known_gpus() == plane.ready_gpus() == all_gpus - 2, "one node takes no pods")


@pytest.mark.parametrize("how", ["cordon", "karpenter.sh/disrupted"])
def test_a_single_replica_serves_elsewhere_before_its_node_is_drained(
    operator: OperatorProcess, here: View, how: str
) -> None:
    slow = {"podTemplate": {"annotations": {LOAD_TIME_ANNOTATION: "3s"}}}
    here.apply("web", **L4_ONLY, **slow)
    here.wait_ready("web")
    [node], [old] = here.nodes_of("web"), here.pods("web")
    if how == "cordon":
        cordon(here, node)
    else:
        taint(here, node, how)
    here.wait(lambda: budget(here, "web") == {"minAvailable": 1}, "the drain waits for the replacement")
    assert evict(here, old["metadata"]["name"]) == 429, "nothing else serves yet"
    here.wait(lambda: serving(here, "web") == sorted([node, other(node)]), "the replacement serves")
    said = condition(here.get("web"), "Placed")["message"]
    assert f"one more for each pod on nodes that go soon ({node}): 1 in all" in said
    here.wait(lambda: evict(here, old["metadata"]["name"]) == 201, "the drain goes on")
    here.wait(lambda: serving(here, "web") == [other(node)], "one serves, and it is the new one")
    here.wait(lambda: here.nodes_of("web") == [other(node)], "the other is not there any more")
    here.wait(lambda: budget(here, "web") == {"maxUnavailable": 1}, "as before")
    assert here.get("web")["status"]["pools"][0]["replicas"] == 1
    assert operator.is_running


def test_where_its_type_has_no_other_gpu_it_serves_on_another_type_before_its_node_is_drained(
    operator: OperatorProcess, here: View
) -> None:
    here.apply("fills", replicas=3, **L4_ONLY)
    here.wait_ready("fills")
    slow = {"podTemplate": {"annotations": {LOAD_TIME_ANNOTATION: "3s"}}}
    here.apply("web", gpu={"allow": ["l4-24gb", "h100-sxm-80gb"]}, **slow)
    here.wait_ready("web")
    [node], [old], filled = here.nodes_of("web"), here.pods("web"), here.pod_uids("fills")
    cordon(here, node)
    here.wait(lambda: budget(here, "web") == {"minAvailable": 1}, "the drain waits for the successor")
    said = condition(here.get("web"), "Placed")["message"]
    assert f"All replicas move away from nodes that go soon ({node})" in said
    assert evict(here, old["metadata"]["name"]) == 429, "nothing else serves yet"

    def only_the_successor() -> bool:
        now = serving(here, "web")
        assert now, "one of them serves at any time"
        return now == ["h100"]

    here.wait(only_the_successor, "only the successor serves")
    here.wait(lambda: budget(here, "web") == {"maxUnavailable": 1}, "as before")
    assert here.pod_uids("fills") == filled, "it serves on the other node, too"
    assert operator.is_running


def test_without_a_free_gpu_a_drain_is_not_blocked(operator: OperatorProcess, here: View) -> None:
    here.apply("fills", replicas=3, **L4_ONLY)
    here.wait_ready("fills")
    here.apply("web", **L4_ONLY)
    here.wait_ready("web")
    [node], [old] = here.nodes_of("web"), here.pods("web")
    cordon(here, node)
    assert budget(here, "web") == {"maxUnavailable": 1}
    assert evict(here, old["metadata"]["name"]) == 201
    here.wait(lambda: serving(here, "web") == [], "it waits for a GPU")
    here.delete("inferencedeployments", "fills")
    here.wait(lambda: serving(here, "web") == [other(node)], "the GPU that was freed")
    assert operator.is_running


def test_a_node_that_is_uncordoned_again_leaves_nothing_behind(operator: OperatorProcess, here: View) -> None:
    here.apply("web", **L4_ONLY)
    here.wait_ready("web")
    [node] = here.nodes_of("web")
    cordon(here, node)
    here.wait(lambda: len(serving(here, "web")) == 2, "the replacement serves")
    here.control_plane.client.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
    here.wait(lambda: len(here.pods("web")) == 1, "one again")
    assert budget(here, "web") == {"maxUnavailable": 1}
    assert operator.is_running
