"""GPUs that only a DRA driver publishes are named, and change nothing about other nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.app.watch import pruning
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.public_words import NodeReason
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.facts.cluster.other_devices import DEVICES, DRA_RESOURCES, MOST_DEVICES, reduced_slice
from tests.facts.nodes import Body, node, nvidia_node
from tests.support.slices import cards, resource_slice

TYPES = load_gpu_types()
BARE = node("n", {}, {})


def fleet(*slices: Body, nodes: tuple[Body, ...] = (BARE,)) -> Fleet:
    return read_fleet(nodes, (), TYPES, slices=slices)


def drawn(*slices: Body, nodes: tuple[Body, ...] = (BARE,)) -> list[tuple[str, str, int]]:
    """Node, driver and number of GPUs of what only DRA publishes."""
    return [(each.name, each.driver, each.gpus) for each in fleet(*slices, nodes=nodes).ignored if each.driver]


def test_a_node_whose_gpus_only_dra_publishes_is_named_with_driver_count_and_remedy() -> None:
    born = {**BARE, "metadata": {**BARE["metadata"], "creationTimestamp": "2026-01-01T00:00:10Z"}}
    (found,) = fleet(resource_slice("n", *cards(8)), nodes=(born,)).ignored
    assert (found.name, found.reason, found.gpus, found.driver) == ("n", NodeReason.NOT_SUPPORTED, 8, "gpu.nvidia.com")
    assert found.since == 1767225610.0
    assert found.detail == (
        "8 devices of gpu.nvidia.com are published through DRA (ResourceSlices): enable the device plugin's extended "
        "resource nvidia.com/gpu there"
    )


@pytest.mark.parametrize(("driver", "words"), [("gpu.amd.com", "amd.com/gpu"), ("gpu.intel.com", "NVIDIA and AMD")])
def test_each_driver_has_its_remedy(driver: str, words: str) -> None:
    (found,) = fleet(resource_slice("n", "gpu", driver=driver)).ignored
    assert words in found.detail


@pytest.mark.parametrize("labels", [{"nvidia.com/gpu.present": "true"}, {"nvidia.com/gpu.product": "NVIDIA-L4"}])
def test_labels_without_devices_are_no_other_cause(labels: dict[str, str]) -> None:
    bare = node("n", labels, {})
    assert [each.reason for each in fleet(nodes=(bare,)).ignored] != []
    assert drawn(resource_slice("n", "gpu"), nodes=(bare,)) == [("n", "gpu.nvidia.com", 1)]
    assert len(fleet(resource_slice("n", "gpu"), nodes=(bare,)).ignored) == 1


@pytest.mark.parametrize(
    "body",
    [
        nvidia_node(),
        nvidia_node(unschedulable=True),
        nvidia_node(product="NVIDIA-L4-SHARED"),
        node("n", {}, {"nvidia.com/gpu": "8"}),
        node("n", {"kubernetes.io/os": "windows"}, {"nvidia.com/gpu": "1"}),
        {**nvidia_node(gpus=0), "status": {"allocatable": {"nvidia.com/mig-1g.10gb": "7"}}},
        {**BARE, "status": {"allocatable": 7}},
    ],
    ids=["placed on", "cordoned", "shared", "without labels", "Windows", "MIG", "unreadable"],
)
def test_a_node_with_other_gpus_or_another_cause_stays_as_it_is(body: Body) -> None:
    assert fleet(resource_slice("n", *cards(8)), nodes=(body,)) == fleet(nodes=(body,))


def test_what_has_no_gpus_of_a_node_here_is_not_named() -> None:
    elsewhere = [
        resource_slice("n", "channel", driver="compute-domain.nvidia.com"),
        resource_slice("gone", "gpu"),
        resource_slice("n"),
        resource_slice("n", "gpu", nodeName=None, allNodes=True),
    ]
    assert all(drawn(each) == [] for each in elsewhere)


def test_the_newest_generation_counts_and_its_slices_are_added_up_in_any_order() -> None:
    old = [resource_slice("n", *cards(4), number=each) for each in range(2)]
    new = [resource_slice("n", *cards(1), generation=2, number=each) for each in range(3)]
    for order in ([*old, *new], [*new, *old], [new[0], *old, *new[1:]]):
        assert drawn(*order) == [("n", "gpu.nvidia.com", 3)]


def test_slices_that_a_gpu_may_be_cut_into_are_not_counted_next_to_it() -> None:
    assert drawn(resource_slice("n", "gpu", "mig", "mig", "vfio")) == [("n", "gpu.nvidia.com", 1)]
    assert drawn(resource_slice("n", "mig", "mig")) == [("n", "gpu.nvidia.com", 2)]
    old = [{"name": "a", "basic": {"attributes": {"type": {"string": each}}}} for each in ("gpu", "mig")]
    assert drawn(resource_slice("n", devices=old)) == [("n", "gpu.nvidia.com", 1)]
    assert drawn(resource_slice("n", devices=[{"name": "a"}, {"name": "b"}])) == [("n", "gpu.nvidia.com", 2)]


def test_two_drivers_of_a_node_are_both_named_and_each_node_on_its_own() -> None:
    slices = [resource_slice("n", "gpu", driver=each) for each in ("gpu.amd.com", "gpu.nvidia.com")]
    other = node("m", {}, {})
    found = drawn(*slices, resource_slice("m", "gpu", "gpu"), nodes=(BARE, other))
    assert sorted(found) == [("m", "gpu.nvidia.com", 2), ("n", "gpu.amd.com", 1), ("n", "gpu.nvidia.com", 1)]


def test_little_is_kept_of_a_slice_and_nothing_of_one_without_gpus_of_a_node() -> None:
    large = resource_slice("n", *cards(MOST_DEVICES))
    large["metadata"] |= {"annotations": {"x": "y" * 100_000}, "managedFields": [{}] * 100, "uid": "u"}
    kept = reduced_slice(large)
    assert kept is not None
    assert pruning.whole_size(kept).members < 20
    assert (kept[DEVICES], reduced_slice(kept)) == (MOST_DEVICES, kept)
    assert drawn(dict(kept)) == drawn(large) == [("n", "gpu.nvidia.com", MOST_DEVICES)]
    assert drawn({**kept, DEVICES: 10**9}) == [("n", "gpu.nvidia.com", MOST_DEVICES)]
    assert drawn({**kept, DEVICES: -1}) == []
    assert reduced_slice(resource_slice("n", "x", driver="dra.net")) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part, max_size=3),
    max_leaves=6,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "driver": st.sampled_from([*DRA_RESOURCES, "dra.net"]) | JSON,
        "nodeName": st.sampled_from(["n", "good"]) | JSON,
        "pool": st.fixed_dictionaries({"generation": JSON}) | JSON,
        "devices": st.lists(JSON, max_size=3) | JSON,
    },
)


@given(specs=st.lists(FIELDS | JSON, max_size=4))
def test_nonsense_in_slices_hides_no_node_and_no_other_slice(specs: list[Any]) -> None:
    nonsense = [{"metadata": {"name": f"s{at}"}, "spec": spec} for at, spec in enumerate(specs)]
    nodes = (nvidia_node("good"), BARE, node("honest", {}, {}))
    found = fleet(*nonsense, resource_slice("honest", *cards(2)), nodes=nodes)
    assert [each.name for each in found.nodes] == ["good"]
    assert [(each.driver, each.gpus) for each in found.ignored if each.name == "honest"] == [("gpu.nvidia.com", 2)]
    assert all(each.name in {"n", "honest"} for each in found.ignored)
