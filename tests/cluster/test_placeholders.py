"""Pods of negative priority that hold GPUs for others: the default scheduler ends them for an engine that is placed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from tests.support.installed import View, install, on_gpu
from tests.support.planes import borrowed_plane

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

PLACEHOLDER = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "placeholder"},
    "value": -10,
}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Two nodes with one GPU each, and the class of placeholders."""
    with borrowed_plane([gpu_node("l4-0", "L4", 1), gpu_node("l40s-0", "L40S", 1), PLACEHOLDER]) as running:
        install(running)
        yield running


def holding(view: View, name: str, node: str, **spec: Any) -> str:
    """Make a pod of somebody that gets the GPU of a node; returns its uid."""
    requests = {"cpu": "1", "nvidia.com/gpu": "1"}
    container = {"name": "c", "image": "registry.example/c:1", "resources": {"requests": requests, "limits": requests}}
    placed = {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [{"operator": "Exists"}]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": view.namespace},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **placed, **spec},
    }
    view.control_plane.apply([body])
    view.wait(lambda: view.read("pods", name)["spec"].get("nodeName") == node, f"{name} on its node")
    return str(view.read("pods", name)["metadata"]["uid"])


def test_a_placeholder_gives_way_and_a_neighbour_does_not(here: View, neighbour: View) -> None:
    holding(neighbour, "balloon", "l4-0", priorityClassName="placeholder")
    uid = holding(neighbour, "train", "l40s-0")
    here.apply("served", **on_gpu("l4-24gb"))
    here.apply("waits", **on_gpu("l40s-48gb"))
    here.wait_ready("served")
    here.wait_condition("waits", "Planned", "False", "WaitingForGpus")
    assert here.nodes_of("served") == ["l4-0"]
    assert here.pods("waits") == []
    assert neighbour.read("pods", "balloon") == {}, "the scheduler ended it"
    train = neighbour.read("pods", "train")
    assert (train["metadata"]["uid"], "deletionTimestamp" in train["metadata"]) == (uid, False)
