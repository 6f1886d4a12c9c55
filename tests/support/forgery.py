"""Objects and statuses that look like the operator's own and are not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from testbed.api_client import ApiError
from tests.support.installed import View
from tests.support.workloads import gpu_deployment

RECORDS: Mapping[str, str | None] = {
    "without-a-record": None,
    "record-is-no-json": "{",
    "record-is-a-list": "[]",
    "record-is-a-number": "7",
    "record-is-null": "null",
    "record-without-fields": "{}",
    "record-of-wrong-types": json.dumps(
        {"gpuType": 7, "nodeSelector": "x", "resource": [], "tensorParallel": "many", "pipelineParallel": {}}
    ),
    "record-of-two-labels": json.dumps(
        {"gpuType": "h100-sxm-80gb", "nodeSelector": {"a": "b", "c": "d"}, "resource": "x", "tensorParallel": 1}
    ),
    "record-of-no-gpus": json.dumps(
        {"gpuType": "h100-sxm-80gb", "nodeSelector": {"a": "b"}, "resource": "nvidia.com/gpu", "tensorParallel": 0}
    ),
    "record-of-endless-gpus": json.dumps(
        {
            "gpuType": "h100-sxm-80gb",
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            "resource": "nvidia.com/gpu",
            "tensorParallel": 10**18,
        }
    ),
    "record-that-could-be-ours": json.dumps(
        {
            "gpuType": "h100-sxm-80gb",
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            "resource": "nvidia.com/gpu",
            "tensorParallel": 8,
        }
    ),
}


def forged_deployment(name: str, owner: dict[str, Any], record: str | None, replicas: int) -> dict[str, Any]:
    """A Deployment as an editor of the namespace may write one: our labels, and a real object as its controller."""
    head = owner["metadata"]
    manifest = gpu_deployment(name, head["namespace"], replicas=replicas)
    labels = {
        "app.kubernetes.io/managed-by": "plimsoll",
        "plimsoll.dev/deployment": head["name"],
        "plimsoll.dev/pool": name,
    }
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": head["name"], "uid": head["uid"]}
    manifest["metadata"] |= {
        "labels": labels,
        "annotations": {} if record is None else {"plimsoll.dev/pool-record": record},
        "ownerReferences": [reference | {"controller": True}],
    }
    manifest["spec"]["paused"] = True  # no controller makes two million pods of it
    return manifest


def forged_pod(name: str, owner: dict[str, Any]) -> dict[str, Any]:
    """A pod with the labels of a pool."""
    head = owner["metadata"]
    labels = {
        "app.kubernetes.io/managed-by": "plimsoll",
        "plimsoll.dev/deployment": head["name"],
        "plimsoll.dev/pool": "h100-sxm-80gb-tp1",
    }
    container = {"name": "engine", "image": "x", "args": ["--max-model-len", "lots"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": head["namespace"], "labels": labels},
        "spec": {"containers": [container], "nodeSelector": {"nobody": "has"}},
    }


_POOL: dict[str, Any] = {
    "name": "h100-sxm-80gb-tp1",
    "gpuType": "h100-sxm-80gb",
    "tensorParallel": 1,
    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    "resource": "nvidia.com/gpu",
    "state": "Active",
    "generation": 1,
    "replicas": 1,
    "readyReplicas": 0,
}

_POOLS: dict[str, dict[str, Any]] = {
    "no-selector": {"nodeSelector": {}},
    "two-labels": {"nodeSelector": {"a": "b", "c": "d"}},
    "gpu-of-nobody": {"gpuType": "\u202e", "resource": "no.such/thing"},
    "less-than-nothing": {"replicas": -5, "tensorParallel": 0, "readyReplicas": -1, "generation": -1},
    "more-than-everything": {"replicas": 2**62, "tensorParallel": 2**62, "batchedTokens": 2**62},
    "name-of-a-path": {"name": "../../x"},
}

EDITED_STATUSES: Mapping[str, Mapping[str, Any]] = {
    name: {"pools": [_POOL | nonsense], "replicasSummary": "9/9"} for name, nonsense in _POOLS.items()
}
"""By name: a status with a pool that looks decided. The API server admits some of them."""

STATUSES_OF_WORDS: Mapping[str, Mapping[str, Any]] = {
    "pools-is-a-word": {"pools": "many"},
    "pools-of-words": {"pools": ["x", None, 7]},
    "pools-of-nothing": {"pools": [{}]},
    "pool-of-wrong-types": {"pools": [{"name": 7, "nodeSelector": [], "replicas": "x", "tensorParallel": None}]},
    "conditions-of-words": {"conditions": ["x", {"type": 7}]},
    "observations-of-words": {"observations": [{"pool": 7}, "x"], "rebalancing": "x", "placement": [1]},
    "figures-of-words": {"observedGeneration": "x", "readyReplicas": "x", "estimate": 7, "model": [], "tooSmall": 3},
}
"""By name: a status that no CRD of this release admits."""


def edit_status(view: View, name: str, status: Mapping[str, Any]) -> bool:
    """Write a status as somebody with too many rights would; False if the API server refuses it."""
    try:
        view.patch_object("inferencedeployments", f"{name}/status", {"status": dict(status)})
    except ApiError as error:
        if error.status != 422:
            raise
        return False
    return True
