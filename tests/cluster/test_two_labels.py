"""Nodes of one card whose labels differ, on the real scheduler: all are used, and spot nodes only where allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from tests.support.installed import View, install, on_gpu
from tests.support.planes import borrowed_plane

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

OLD_DRIVER = {"nvidia.com/gpu.product": "H100-SXM5"}
CLOUD_ONLY = {
    "nvidia.com/gpu.product": None,
    "nvidia.com/gpu.memory": None,
    "cloud.google.com/gke-accelerator": "nvidia-h100-80gb",
}


NEW_LABEL = gpu_node("h100-new", "H100-80GB-HBM3", 1)
OTHER_LABELS = (
    gpu_node("h100-old", "H100-80GB-HBM3", 1, labels=OLD_DRIVER),
    gpu_node("h100-cloud", "H100-80GB-HBM3", 1, labels=CLOUD_ONLY),
)


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """Three nodes of one card under three labels, two of a card with and without spot, one for the neighbour."""
    nodes = [
        NEW_LABEL,
        *OTHER_LABELS,
        gpu_node("l40s-0", "L40S", 1),
        gpu_node("a100-spot", "A100-SXM4-80GB", 2, labels={"eks.amazonaws.com/capacityType": "SPOT"}),
        gpu_node("a100-stays", "A100-SXM4-80GB", 2),
    ]
    with borrowed_plane(nodes) as running:
        install(running)
        yield running


@pytest.fixture
def _one_label(control_plane: ControlPlane) -> Iterator[None]:
    """One node of the card, for the time of a test."""
    control_plane.kubectl("delete", "node", *(node["metadata"]["name"] for node in OTHER_LABELS))
    yield
    control_plane.apply(OTHER_LABELS)


def test_three_replicas_serve_on_nodes_of_one_card_under_three_labels(here: View, neighbour: View) -> None:
    here.apply("spread", replicas=3, **on_gpu("h100-sxm-80gb"))
    neighbour.apply("served", **on_gpu("l40s-48gb"))
    body = here.wait_ready("spread")
    neighbour.wait_ready("served")

    assert sorted(here.nodes_of("spread")) == ["h100-cloud", "h100-new", "h100-old"]
    (pool,) = body["status"]["pools"]
    assert (pool["replicas"], len(pool["nodeLabels"]), len(pool["nodeSelector"])) == (3, 3, 1)
    assert neighbour.nodes_of("served") == ["l40s-0"]
    (other,) = neighbour.get("served")["status"]["pools"]
    assert "nodeLabels" not in other


@pytest.mark.usefixtures("_one_label")
def test_a_running_engine_is_not_restarted_by_another_label_and_the_next_replica_uses_it(
    here: View, neighbour: View
) -> None:
    """A pod that finds no node with the pool's labels makes the pool take up the others."""
    running = here.control_plane
    here.apply("grows", **on_gpu("h100-sxm-80gb"))
    neighbour.apply("served", **on_gpu("l40s-48gb"))
    here.wait_ready("grows")
    neighbour.wait_ready("served")
    before = {pod["metadata"]["uid"] for pod in (*here.all("pods"), *neighbour.all("pods"))}

    running.apply(OTHER_LABELS[:1])
    here.wait(lambda: "h100-old" in running.kubectl("get", "nodes"), "the node with another label")
    neighbour.patch("served", {"rebalancing": {"mode": "Off"}})
    neighbour.wait(lambda: neighbour.get("served")["status"]["observedGeneration"] == 2, "a pass after the node came")
    assert {pod["metadata"]["uid"] for pod in (*here.all("pods"), *neighbour.all("pods"))} == before

    here.patch("grows", {"replicas": 2})
    here.wait(lambda: sorted(here.nodes_of("grows")) == ["h100-new", "h100-old"], "both nodes used", 120.0)
    assert {pod["metadata"]["uid"] for pod in neighbour.all("pods")} <= before, "the neighbour was left alone"


def test_engines_run_on_nodes_of_the_capacity_type_that_is_allowed(here: View, neighbour: View) -> None:
    def on_a100(*capacities: str) -> dict[str, Any]:
        return {**on_gpu("a100-sxm-80gb"), "gpu": {"capacityTypes": list(capacities)}}

    here.apply("stays", **on_a100("OnDemand"))
    here.apply("cheap", replicas=2, **on_a100("OnDemand", "Spot"))
    neighbour.apply("spot", **on_a100("Spot"))
    for name in ("stays", "cheap"):
        here.wait_ready(name)
    body = neighbour.wait_ready("spot")

    assert here.nodes_of("stays") == ["a100-stays"]
    assert sorted(here.nodes_of("cheap")) == ["a100-spot", "a100-stays"], "one replica at least stays on demand"
    assert neighbour.nodes_of("spot") == ["a100-spot"]
    (pool,) = body["status"]["pools"]
    assert (pool["gpuType"], pool["capacityType"]) == ("a100-sxm-80gb-spot", "Spot")
    assert any("spot nodes" in warning for warning in body["status"]["placement"]["warnings"])


def test_without_a_wish_nodes_that_stay_come_first_and_batch_takes_the_cheaper_spot_nodes(
    here: View, neighbour: View
) -> None:
    here.apply("plain", replicas=2, **on_gpu("a100-sxm-80gb"))
    neighbour.apply("batch", objective="Batch", **on_gpu("a100-sxm-80gb"))
    body = here.wait_ready("plain")
    neighbour.wait_ready("batch")

    assert (here.nodes_of("plain"), neighbour.nodes_of("batch")) == (["a100-stays", "a100-stays"], ["a100-spot"])
    reasons = {(each["gpuType"], each["tensorParallel"]): each["reason"] for each in body["status"]["rejections"]}
    assert reasons["a100-sxm-80gb-spot", 1] == "SpotNotAsked"
