"""GPUs that a node has and does not offer are counted as unhealthy, in the store and in a snapshot as well."""

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
from tests.facts.nodes import Body, node, nvidia_node
from tests.support.slices import cards, resource_slice

TYPES = load_gpu_types()
RESOURCE, SLICE = "nvidia.com/gpu", "nvidia.com/mig-3g.40gb"
SLICED = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/mig.strategy": "mixed",
    f"{SLICE}.product": "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb",
    f"{SLICE}.memory": "40448",
    f"{SLICE}.count": "16",
}


def seen(body: Body, *slices: Body) -> Fleet:
    """Return what is read of a node. The store keeps a part of it only, and reads the same."""
    whole, kept = (read_fleet([each], [], TYPES, slices=slices) for each in (body, pruning.node(body)))
    assert whole == kept
    return whole


def with_capacity(body: Body, **capacity: Any) -> Body:
    amounts = {name: str(amount) for name, amount in capacity.items()}
    return {**body, "status": {**body["status"], "capacity": {"cpu": "100", **amounts}}}


@given(st.integers(0, 16), st.integers(0, 16))
def test_what_a_node_has_above_what_it_offers_is_unhealthy(has: int, offers: int) -> None:
    found = seen(with_capacity(nvidia_node(gpus=offers, labels={"nvidia.com/gpu.count": "16"}), **{RESOURCE: has}))
    if offers:
        (one,) = found.nodes
        assert (one.allocatable, one.free, one.unhealthy) == (offers, offers, max(0, has - offers))
        assert found.unhealthy == (found.nodes if has > offers else ())
    else:
        (left,) = found.ignored
        assert (left.reason, left.gpus) == (NodeReason.NO_DEVICES, has)
        assert ("reports all of them as unhealthy" in left.detail) is (has > 0)


def test_a_node_without_its_capacity_has_nothing_unhealthy() -> None:
    assert seen(nvidia_node()).unhealthy == ()
    assert "capacity" not in pruning.node(with_capacity(nvidia_node(), **{RESOURCE: 8}))["status"]


@pytest.mark.parametrize("offers", [0, 15])
def test_slices_are_counted_by_their_own_resource(offers: int) -> None:
    body = with_capacity(node("n", SLICED, {RESOURCE: "0", SLICE: str(offers)}), **{RESOURCE: 0, SLICE: 16})
    found = seen(body)
    if offers:
        assert [(each.resource, each.allocatable, each.unhealthy) for each in found.nodes] == [(SLICE, 15, 1)]
    else:
        assert [(each.reason, each.gpus) for each in found.ignored] == [(NodeReason.NO_DEVICES, 16)]


def test_slices_that_were_cut_anew_and_have_no_label_any_more_are_not_mentioned() -> None:
    left = with_capacity(nvidia_node(), **{RESOURCE: 8, SLICE: 2})
    assert [(each.allocatable, each.unhealthy) for each in seen(left).nodes] == [(8, 0)]
    assert seen(left).ignored == ()


def test_gpus_of_a_device_plugin_that_has_gone_are_named_by_the_driver_that_publishes_them() -> None:
    (left,) = seen(with_capacity(nvidia_node(gpus=0), **{RESOURCE: 8}), resource_slice("n", *cards(8))).ignored
    assert (left.driver, left.gpus) == ("gpu.nvidia.com", 8)
