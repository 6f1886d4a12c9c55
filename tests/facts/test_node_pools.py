"""Karpenter's NodePools as node groups: the GPU machines that they may start, and how many."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.fleet import Taint
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.facts.cluster.gpu_count import MACHINES
from plimsoll.facts.cluster.node_pools import read_node_pools
from tests.support.tables import every_case

TYPES = load_gpu_types()
CAPACITY = "karpenter.sh/capacity-type"
MACHINE = "node.kubernetes.io/instance-type"
CARD, COUNT = "karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-count"


def pool(
    name: str = "gpus",
    *,
    labels: dict[str, str] | None = None,
    limits: dict[str, Any] | None = None,
    ready: str = "True",
    taints: list[dict[str, str]] | None = None,
    **required: list[str],
) -> dict[str, Any]:
    """A NodePool; ``required`` are requirements by the short names of their labels."""
    keys = {"capacity": CAPACITY, "machine": MACHINE, "card": CARD, "count": COUNT}
    requirements = [{"key": keys[key], "operator": "In", "values": values} for key, values in required.items()]
    spec = {"requirements": requirements, "taints": taints or []}
    return {
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"limits": limits, "template": {"metadata": {"labels": labels or {}}, "spec": spec}},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def kinds(*pools: dict[str, Any]) -> list[tuple[str, int]]:
    return [(group.gpu.name, group.gpus) for group in read_node_pools(pools, TYPES)]


def only(body: dict[str, Any]) -> NodeGroup:
    (group,) = read_node_pools([body], TYPES)
    return group


@every_case(
    ("body", "expected"),
    [
        (pool(machine=["p5.48xlarge"]), [("h100-sxm-80gb", 8)]),
        (pool(machine=["m5.large", "g6.xlarge", "g6.48xlarge"]), [("l4-24gb", 1), ("l4-24gb", 8)]),
        (pool(machine=["g6.xlarge", "g6.2xlarge"]), [("l4-24gb", 1)]),
        (pool(card=["l40s"], count=["1", "4"]), [("l40s-48gb", 1), ("l40s-48gb", 4)]),
        (pool(card=["l40s"]), []),
        (pool(labels={"nvidia.com/gpu.product": "NVIDIA-H200"}, count=["8"]), [("h200-sxm-141gb", 8)]),
        (pool(labels={"plimsoll.dev/gpu-type": "mi300x-192gb", "nvidia.com/gpu.count": "8"}), [("mi300x-192gb", 8)]),
        (pool(labels={"nvidia.com/gpu.product": "Unknown"}, count=["8"]), []),
        (pool(machine=["m5.large"]), []),
        (pool(), []),
        (pool(machine=["p5.48xlarge"], ready="False"), []),
        (pool(machine=["p5.48xlarge"], ready="Unknown"), [("h100-sxm-80gb", 8)]),
    ],
)
def test_the_gpu_machines_of_a_pool(body: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    assert kinds(body) == expected


def test_a_pool_starts_machines_on_demand_unless_it_names_spot() -> None:
    assert kinds(pool(machine=["p5.48xlarge"], capacity=["spot", "on-demand", "reserved"])) == [
        ("h100-sxm-80gb", 8),
        ("h100-sxm-80gb-spot", 8),
    ]
    assert kinds(pool(machine=["p5.48xlarge"], capacity=["spot"])) == [("h100-sxm-80gb-spot", 8)]


def test_a_group_has_the_limit_the_labels_and_the_taints_of_its_pool() -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    group = only(
        pool(machine=["p5.48xlarge"], labels={"team": "a"}, taints=[taint], limits={"nvidia.com/gpu": "16", "cpu": 1})
    )
    assert (group.name, group.resource, group.most_gpus) == ("gpus", "nvidia.com/gpu", 16)
    assert group.taints == (Taint("team", "a", "NoSchedule"),)
    assert dict(group.labels) == {
        "team": "a",
        "karpenter.sh/nodepool": "gpus",
        CAPACITY: "on-demand",
        MACHINE: "p5.48xlarge",
    }
    assert group.members == (("karpenter.sh/nodepool", "gpus"),)
    assert only(pool(machine=["p5.48xlarge"])).most_gpus is None


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"metadata": {"name": "x"}},
        {"metadata": {"name": "x"}, "spec": None},
        {"metadata": {"name": "x"}, "spec": {"template": {"spec": {"requirements": [7]}}}},
        pool("x", machine=["p5.48xlarge"], limits={"nvidia.com/gpu": "many"}),
    ],
)
def test_a_pool_that_cannot_be_read_is_left_out_and_the_others_stay(broken: dict[str, Any]) -> None:
    assert kinds(broken, pool(machine=["p5.48xlarge"])) == [("h100-sxm-80gb", 8)]


def test_every_machine_has_a_card_of_the_catalogue() -> None:
    assert {card for card, _ in MACHINES.values()} <= {gpu.name for gpu in TYPES}
