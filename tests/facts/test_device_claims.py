"""GPUs that ResourceClaims hold are held, also where a device plugin offers them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.facts.cluster.other_devices import (
    MOST_RESULTS,
    OF_EXTENDED_RESOURCE,
    claimed_by_node,
    reduced_claim,
    reduced_slice,
)
from tests.facts.nodes import Body, nvidia_node, pod
from tests.support.slices import cards, resource_claim, resource_slice

TYPES = load_gpu_types()
EIGHT = resource_slice("n", *cards(8))


def seen(*claims: Body, slices: tuple[Body, ...] = (EIGHT,), pods: tuple[Body, ...] = (), gpus: int = 8) -> Fleet:
    """Return what is read of a node with both. The store keeps a part of slices and claims only, and reads the same."""
    kept = [part for each in claims if (part := reduced_claim(each)) is not None]
    less = [part for each in slices if (part := reduced_slice(each)) is not None]
    nodes = [nvidia_node(gpus=gpus)]
    whole = read_fleet(nodes, pods, TYPES, slices=slices, claims=claims)
    assert read_fleet(nodes, pods, TYPES, slices=less, claims=kept) == whole
    return whole


def held(*claims: Body, **more: Any) -> tuple[int, int, int]:
    (node,) = seen(*claims, **more).nodes
    return node.held, node.claimed, node.free


def test_a_claimed_gpu_is_no_more_free_than_a_requested_one() -> None:
    assert held(resource_claim("n", "gpu-0")) == (1, 1, 7)
    assert held(resource_claim("n", "gpu-0", "gpu-1"), pods=(pod("p", "n", 2),)) == (4, 2, 4)


def test_the_pool_of_a_slice_says_the_node_and_without_one_its_name() -> None:
    named = resource_slice("n", *cards(8), pool={"name": "pool-7", "generation": 1})
    assert held(resource_claim("pool-7", "gpu-0"), slices=(named,)) == (1, 1, 7)
    assert held(resource_claim("n", "gpu-0"), slices=()) == (1, 1, 7)
    assert held(resource_claim("other", "gpu-0")) == (0, 0, 8)


def test_a_card_counts_once_however_often_it_is_given_away() -> None:
    parts = resource_claim("n", "gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1", "gpu-3-mig-3g40gb-9-4")
    assert held(parts, resource_claim("n", "gpu-0", name="again")) == (2, 2, 6)


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(resource_claim("n", "gpu-0", adminAccess=True), id="monitoring"),
        pytest.param(resource_claim("n", "nic-0", driver="dra.net"), id="network card"),
        pytest.param(resource_claim("n", "gpu-0", driver="gpu.intel.com"), id="no engine's GPU"),
        pytest.param(resource_claim("n", "gpu-0", driver="gpu.amd.com"), id="another resource"),
        pytest.param(resource_claim("n"), id="nothing"),
        pytest.param({**resource_claim("n", "gpu-0"), "status": {}}, id="not allocated"),
        pytest.param({**resource_claim("n", "gpu-0"), "status": {"allocation": {"devices": {"results": 7}}}}, id="odd"),
        pytest.param(
            {**resource_claim("n", "gpu-0"), "metadata": {"name": "x", "annotations": {OF_EXTENDED_RESOURCE: "true"}}},
            id="of a pod that requests the extended resource, which is counted",
        ),
    ],
)
def test_what_holds_no_gpu_of_the_device_plugin_changes_nothing(claim: Body) -> None:
    (node,) = read_fleet([nvidia_node()], (), TYPES, slices=[EIGHT], claims=[claim]).nodes
    assert (node.held, node.claimed) == (0, 0)


def test_a_claim_is_kept_as_the_gpus_that_it_holds() -> None:
    large = resource_claim("n", *(f"gpu-{number}" for number in range(99)))
    kept = reduced_claim(large)
    assert kept is not None
    assert len(kept["status"]["allocation"]["devices"]["results"]) == MOST_RESULTS
    assert (set(kept), reduced_claim(kept)) == ({"metadata", "status"}, kept)


DEVICES = st.lists(st.sampled_from([f"gpu-{number}" for number in range(8)]), max_size=8)


@given(st.lists(DEVICES, max_size=4), st.integers(0, 8), st.integers(1, 8))
def test_what_is_free_and_what_pods_and_claims_hold_is_never_more_than_there_is(
    claims: list[list[str]], requested: int, gpus: int
) -> None:
    bodies = [resource_claim("n", *devices, name=f"c{number}") for number, devices in enumerate(claims)]
    pods = (pod("p", "n", requested),)
    (node,) = seen(*bodies, pods=pods, gpus=gpus).nodes
    claimed = len({device for devices in claims for device in devices})
    assert (node.claimed, node.held) == (claimed, claimed + requested)
    assert node.free == max(0, gpus - claimed - requested)
    assert claimed_by_node(bodies, [EIGHT]).get(("n", "nvidia.com/gpu"), 0) == claimed
    assert seen(*bodies, pods=pods, gpus=gpus).layout == seen(gpus=gpus).layout
