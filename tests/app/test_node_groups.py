"""NodePools of Karpenter, read again and again: those that are there, and no word where there is no Karpenter."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.api_errors import GONE, ClusterRefused
from plimsoll.adapters.cluster.client import Cluster, Listing, ObjectKind
from plimsoll.app.settings import Settings
from plimsoll.app.watch.node_groups import NodeGroups, declared_in
from plimsoll.domain.errors import InvalidInput
from tests.facts.test_node_pools import pool

TYPES = tuple(load_gpu_types())
DECLARED = '[{"name": "own", "gpuType": "l4-24gb", "gpusPerNode": 1, "maxNodes": 2}]'


class Pools:
    """A cluster's NodePools, or the status of its refusal."""

    def __init__(self, *bodies: dict[str, Any], refusal: int = 0) -> None:
        self.bodies, self.refusal = list(bodies), refusal

    async def list(self, kind: ObjectKind) -> Listing:
        assert (kind.group, kind.plural) == ("karpenter.sh", "nodepools")
        if self.refusal:
            raise ClusterRefused("list nodepools", self.refusal, "no")
        return Listing(self.bodies)


async def refreshed(groups: NodeGroups, source: Pools) -> int:
    """Read once; return how often a new pass was asked for."""
    wakes: list[None] = []
    await groups.refresh(cast("Cluster", source), lambda: wakes.append(None))
    return len(wakes)


def names(groups: NodeGroups) -> list[tuple[str, str]]:
    return [(group.name, group.gpu.name) for group in groups.of(TYPES)]


async def test_declared_groups_and_pools_stand_together_and_a_new_pool_makes_a_pass() -> None:
    groups = NodeGroups(declared_in(DECLARED, TYPES))
    assert names(groups) == [("own", "l4-24gb")]
    source = Pools(pool(machine=["p5.48xlarge"]))
    assert await refreshed(groups, source) == 1
    assert names(groups) == [("own", "l4-24gb"), ("gpus", "h100-sxm-80gb")]
    assert groups.of(TYPES) is groups.of(TYPES), "the same objects until something changes"
    source.bodies = []
    assert await refreshed(groups, source) == 1
    assert names(groups) == [("own", "l4-24gb")]


async def test_the_counts_in_a_pool_s_status_make_no_pass() -> None:
    groups, body = NodeGroups(), pool(machine=["p5.48xlarge"])
    await refreshed(groups, Pools(body))
    counted = {**body, "status": {**body["status"], "resources": {"nvidia.com/gpu": "8"}}}
    assert await refreshed(groups, Pools(counted)) == 0
    unready = {**body, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    assert (await refreshed(groups, Pools(unready)), names(groups)) == (1, [])


async def test_a_cluster_without_karpenter_has_no_pools_and_no_complaint(caplog: pytest.LogCaptureFixture) -> None:
    groups = NodeGroups()
    with caplog.at_level(logging.DEBUG, "plimsoll.node_groups"):
        assert await refreshed(groups, Pools(refusal=GONE)) == 0
    assert (names(groups), caplog.records) == ([], [])


async def test_a_refusal_leaves_the_pools_that_were_read_last() -> None:
    groups = NodeGroups()
    await refreshed(groups, Pools(pool(machine=["p5.48xlarge"])))
    with pytest.raises(ClusterRefused):
        await refreshed(groups, Pools(refusal=403))
    assert names(groups) == [("gpus", "h100-sxm-80gb")]


@pytest.mark.parametrize("text", ["{", "{}", "[7]", '[{"name": "a"}]'])
def test_a_wrong_list_stops_the_process_with_its_place(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^fleet\.nodeGroups"):
        declared_in(text, TYPES)


def test_the_settings_come_from_the_chart() -> None:
    given = Settings.from_environment({"PLIMSOLL_NODE_GROUPS": DECLARED, "PLIMSOLL_READ_NODE_POOLS": "true"})
    assert (given.node_groups, given.read_node_pools) == (DECLARED, True)
    plain = Settings.from_environment({})
    assert (plain.node_groups, plain.read_node_pools) == ("", False)
    assert given.digest() != plain.digest(), "two processes with other settings would decide otherwise"
