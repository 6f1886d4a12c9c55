"""Spot nodes by the labels of the clouds."""

from __future__ import annotations

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.facts.cluster.cloud_labels import capacity_type
from plimsoll.facts.cluster.fleet_reading import read_fleet
from tests.facts.nodes import nvidia_node
from tests.support.tables import every_case


@every_case(
    ("label", "value"),
    [
        ("karpenter.sh/capacity-type", "spot"),
        ("eks.amazonaws.com/capacityType", "SPOT"),
        ("cloud.google.com/gke-spot", "true"),
        ("cloud.google.com/gke-preemptible", "true"),
        ("cloud.google.com/gke-provisioning", "spot"),
        ("cloud.google.com/gke-provisioning", "preemptible"),
        ("kubernetes.azure.com/scalesetpriority", "spot"),
        ("node.kubernetes.io/lifecycle", "spot"),
    ],
)
def test_every_cloud_s_label_for_spot_is_read(label: str, value: str) -> None:
    assert capacity_type({label: value, "zone": "a"}) is CapacityType.SPOT


@every_case(
    ("label", "value"),
    [
        ("zone", "spot"),
        ("karpenter.sh/capacity-type", "on-demand"),
        ("karpenter.sh/capacity-type", "reserved"),
        ("eks.amazonaws.com/capacityType", "ON_DEMAND"),
        ("eks.amazonaws.com/capacityType", "CAPACITY_BLOCK"),
        ("cloud.google.com/gke-spot", "false"),
        ("cloud.google.com/gke-provisioning", "standard"),
        ("kubernetes.azure.com/scalesetpriority", "regular"),
        ("node.kubernetes.io/lifecycle", "normal"),
    ],
)
def test_every_other_node_counts_as_on_demand(label: str, value: str) -> None:
    assert capacity_type({label: value}) is CapacityType.ON_DEMAND


def test_a_node_of_the_fleet_carries_its_capacity_type_and_its_neighbour_its_own() -> None:
    spot = nvidia_node("s", labels={"cloud.google.com/gke-spot": "true"})
    seen = read_fleet([spot, nvidia_node("d")], [], load_gpu_types())
    assert {node.name: node.capacity_type for node in seen.nodes} == {
        "s": CapacityType.SPOT,
        "d": CapacityType.ON_DEMAND,
    }
