"""Node groups as an admin writes them: what they become, and what a wrong entry says."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.node_groups import declared_groups
from plimsoll.domain.cluster.fleet import Taint
from plimsoll.domain.cluster.gpus import CapacityType, Price
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import GIB

TYPES = load_gpu_types()
LEAST = {"name": "a", "gpuType": "l40s-48gb", "gpusPerNode": 4, "maxNodes": 3}


def only(**fields: Any) -> NodeGroup:
    (group,) = declared_groups([LEAST | fields], "fleet.nodeGroups", TYPES).of(TYPES)
    return group


def test_the_least_that_a_group_says() -> None:
    group = only()
    (l40s,) = (gpu for gpu in TYPES if gpu.name == "l40s-48gb")
    assert group == NodeGroup("a", l40s, "nvidia.com/gpu", 4, most_gpus=12, host=HostRoom(None, None, None))
    assert l40s.price is not None
    assert group.usd_per_hour == 4 * l40s.price.usd_per_hour


def test_everything_that_a_group_may_say() -> None:
    group = only(
        gpuType="mi300x-192gb",
        capacityType="Spot",
        usdPerHour="12.00",
        cpu="96",
        memory="512Gi",
        labels={"team": "a"},
        taints=[{"key": "team", "effect": "NoExecute"}],
    )
    assert (group.gpu.name, group.gpu.capacity) == ("mi300x-192gb-spot", CapacityType.SPOT)
    assert group.resource == "amd.com/gpu"
    assert group.usd_per_hour == Decimal("12.00")
    assert (group.host.cpu_millis, group.host.memory_bytes) == (96_000, 512 * GIB)
    assert (group.labels, group.members) == ((("team", "a"),), (("team", "a"),))
    assert group.taints == (Taint("team", "", "NoExecute"),)


def test_the_price_in_force_counts_where_the_group_has_none_of_its_own() -> None:
    dear = [replace(gpu, price=Price(Decimal(9), "contract")) for gpu in TYPES]
    declared = declared_groups([LEAST, LEAST | {"name": "b", "usdPerHour": "2"}], "fleet.nodeGroups", TYPES)
    assert [group.usd_per_hour for group in declared.of(dear)] == [Decimal(36), Decimal(2)]


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({}, "fleet.nodeGroups", "Write a list"),
        ([7], "fleet.nodeGroups[0]", "Write a mapping"),
        ([LEAST | {"gpuType": "l40"}], "fleet.nodeGroups[0].gpuType", "did you mean"),
        ([LEAST, LEAST], "fleet.nodeGroups[1].name", "a name of its own"),
        ([LEAST | {"maxNodes": 0}], "fleet.nodeGroups[0].maxNodes", "greater than or equal to 1"),
        ([{**LEAST, "size": 1}], "fleet.nodeGroups[0].size", "Extra inputs"),
        ([LEAST | {"capacityType": "Free"}], "fleet.nodeGroups[0].capacityType", "'OnDemand' or 'Spot'"),
        ([LEAST | {"cpu": "many"}], "fleet.nodeGroups[0].cpu", 'e.g. "96"'),
        ([LEAST | {"memory": "-1Gi"}], "fleet.nodeGroups[0].memory", 'e.g. "512Gi"'),
        ([LEAST | {"taints": [{"key": "a", "effect": "No"}]}], "fleet.nodeGroups[0].taints.0.effect", "pattern"),
    ],
)
def test_a_wrong_entry_is_refused_by_its_place(given: Any, field: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        declared_groups(given, "fleet.nodeGroups", TYPES)
    assert str(refused.value).startswith(field)
    assert words in str(refused.value)


def test_pods_may_wait_for_a_group_with_a_label_and_a_limit() -> None:
    group = only(labels={"pool": "a"}, scaleUp={"maxHourlyPrice": "20"})
    assert group.most_usd_per_hour == Decimal(20)
    assert only(labels={"pool": "a"}).most_usd_per_hour is None
    with pytest.raises(InvalidInput, match=r"fleet\.nodeGroups\[0\]\.labels.*pods wait for it"):
        only(scaleUp={"maxHourlyPrice": "20"})
    with pytest.raises(InvalidInput, match="maxHourlyPrice"):
        only(labels={"pool": "a"}, scaleUp={})
