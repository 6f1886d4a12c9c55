"""Fake nodes carry the labels of real ones."""

from __future__ import annotations

import pytest

from testbed.fleet import PRODUCTS, gpu_node, mixed_fleet


def test_the_mixed_fleet_has_every_kind_once() -> None:
    gpus = {
        node["metadata"]["name"]: {key: value for key, value in node["status"]["allocatable"].items() if ".com/" in key}
        for node in mixed_fleet()
    }

    assert gpus == {
        "h100-0": {"nvidia.com/gpu": "8"},
        "a100-0": {"nvidia.com/gpu": "8"},
        "l40s-0": {"nvidia.com/gpu": "4"},
        "l4-0": {"nvidia.com/gpu": "1"},
        "mi300x-0": {"amd.com/gpu": "8"},
        "cpu-0": {},
    }


def test_an_h100_node_looks_like_gpu_feature_discovery_made_it() -> None:
    labels = gpu_node("n", "H100-80GB-HBM3", 4)["metadata"]["labels"]

    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["nvidia.com/gpu.memory"] == "81559"
    assert labels["nvidia.com/gpu.count"] == "4"
    assert labels["nvidia.com/gpu.present"] == "true"


def test_an_amd_node_has_amds_labels_taint_and_resource() -> None:
    node = gpu_node("n", "MI300X", 8)

    assert node["metadata"]["labels"]["amd.com/gpu.device-id"] == "74a1"
    assert not [key for key in node["metadata"]["labels"] if key.startswith("nvidia.com")]
    assert node["spec"]["taints"] == [{"key": "amd.com/gpu", "value": "present", "effect": "NoSchedule"}]


@pytest.mark.parametrize("product", sorted(PRODUCTS))
def test_capacity_is_allocatable_and_kwok_may_play_it(product: str) -> None:
    node = gpu_node("n", product, 2)

    assert node["status"]["capacity"] == node["status"]["allocatable"]
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}


def test_labels_can_be_replaced_and_removed() -> None:
    node = gpu_node("n", "L4", 1, labels={"team": "a", "nvidia.com/gpu.product": None})

    assert node["metadata"]["labels"]["team"] == "a"
    assert "nvidia.com/gpu.product" not in node["metadata"]["labels"]
