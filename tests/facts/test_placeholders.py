"""Pods of negative priority that hold a place for others: pods of a higher priority find the node without them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.app.watch import pruning
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.priorities import LOWEST
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.facts.cluster.priority_reading import placeholder_priority
from plimsoll.render.names import DEPLOYMENT_LABEL
from tests.facts.nodes import Body, node, nvidia_node

TYPES = load_gpu_types()
HOST = {"memory": "512Gi", "pods": "20", "rdma/ib": "4"}
BODY = nvidia_node()
BODY["status"]["allocatable"] |= HOST
OURS = {DEPLOYMENT_LABEL: "m"}


def holder(name: str, gpus: int, priority: Any, labels: Body | None = None, more: Body | None = None) -> Body:
    """A pod of somebody that is bound to the node."""
    amounts = {"cpu": "2", "memory": "1Gi", **(more or {}), **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {
        "metadata": {"name": name, "namespace": "balloon", "uid": name, "labels": labels or {}},
        "spec": {"nodeName": "n", "priority": priority, "containers": [{"resources": {"requests": amounts}}]},
        "status": {"phase": "Running"},
    }


def seen(*pods: Body) -> Fleet:
    """Return what is read of the node. The store keeps a part of pods only, and reads the same."""
    kept = [part for each in pods if (part := pruning.pod(each)) is not None]
    whole = read_fleet([BODY], pods, TYPES)
    assert read_fleet([BODY], kept, TYPES) == whole
    return whole


def test_pods_of_a_higher_priority_find_the_node_without_a_placeholder() -> None:
    found = seen(holder("train", 2, 0), holder("balloon", 4, -10, more={"rdma/ib": "1"}), holder("spare", 0, -10))
    assert found.nodes[0].free == 2
    (open_node,) = found.for_pods_of(0).nodes
    assert (open_node.free, open_node.host_free.cpu_millis, open_node.host_free.pods) == (6, 94_000, 19)
    assert open_node.host_free.of_other("rdma/ib") == 4
    assert found.for_pods_of(0) is found.for_pods_of(0), "it is made once"
    assert found.for_pods_of(-10).nodes == found.for_pods_of(LOWEST).nodes == found.nodes


@pytest.mark.parametrize("priority", [0, 5, None, "low", 1.5])
def test_pods_that_do_not_hold_a_place_for_others(priority: Any) -> None:
    found = seen(holder("p", 4, priority))
    assert found.for_pods_of(2**31 - 1) is found


def test_an_engine_never_gives_way_by_its_priority() -> None:
    assert placeholder_priority(holder("p", 4, -10)) == -10
    assert placeholder_priority(holder("p", 4, -10, OURS)) == 0
    assert seen(holder("p", 4, -10, OURS)).for_pods_of(0).nodes[0].free == 4


def test_an_empty_fleet_has_no_placeholder_left() -> None:
    emptied = seen(holder("balloon", 4, -10)).emptied
    assert emptied.for_pods_of(0) is emptied


def test_placeholders_are_no_part_of_the_layout() -> None:
    assert seen(holder("balloon", 4, -10)).layout == seen().layout


PODS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([-100, -10, -1, 0, 7]), st.booleans()), max_size=6)


@given(PODS, st.sampled_from([LOWEST, -100, -50, -10, 0, 1000]))
def test_it_is_the_fleet_without_these_pods(pods: list[tuple[int, int, bool]], priority: int) -> None:
    bodies = [holder(f"p{at}", gpus, low, OURS if ours else {}) for at, (gpus, low, ours) in enumerate(pods)]
    stay = [body for body, (_, low, ours) in zip(bodies, pods, strict=True) if ours or low >= min(0, priority)]
    (left,), (without,) = seen(*bodies).for_pods_of(priority).nodes, seen(*stay).for_pods_of(LOWEST).nodes
    assert (left.held, left.host_free, left.placeholders) == (without.held, without.host_free, without.placeholders)


def test_placeholders_on_a_node_that_is_left_out_or_gone_change_nothing() -> None:
    away = {**holder("balloon", 4, -10), "spec": {**holder("x", 4, -10)["spec"], "nodeName": "away"}}
    found = read_fleet([BODY, node("away", {}, {})], [away], TYPES)
    assert found.for_pods_of(0) is found
