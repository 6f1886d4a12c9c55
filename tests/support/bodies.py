"""Kubernetes objects as a watch delivers them, cut to what the shell reads."""

from __future__ import annotations

from typing import Any

from plimsoll.render.names import (
    DEPLOYMENT_LABEL,
    FIELD_MANAGER,
    HASH_ANNOTATION,
    MANAGED_BY,
    POOL_ANNOTATION,
    POOL_LABEL,
)

Body = dict[str, Any]

POOL = "h100-sxm-80gb-tp1"
"""The pool that pods and workloads are of where a test names none."""


def inference_deployment_body(name: str = "llama", *, uid: str = "u1", version: int = 1, **more: Any) -> Body:
    """An InferenceDeployment without a spec of interest."""
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": uid,
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": "2026-11-21T03:00:00Z",
        },
        **more,
    }


def node_body(name: str = "h100-0", *, version: int = 1, beat: str = "03:00:00", ready: str = "True") -> Body:
    """A node whose kubelet reports in from time to time."""
    condition = {"type": "Ready", "status": ready, "reason": "Kubelet", "lastHeartbeatTime": f"2026-11-21T{beat}Z"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"node-{name}", "resourceVersion": str(version), "labels": {"a": "b"}},
        "spec": {"taints": []},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [condition], "images": [{"names": ["x"]}]},
    }


_ONE_GPU = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}


def pod_body(name: str, *, version: int = 1, pool: str = POOL, owner: str = "llama", **more: Any) -> Body:
    """A bound pod of a pool, made by its ReplicaSet; ``more`` replaces parts of the status."""
    status: Body = {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}], **more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"pod-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-11-21T03:00:05Z",
            "labels": {DEPLOYMENT_LABEL: owner, POOL_LABEL: pool},
            "ownerReferences": [{"kind": "ReplicaSet", "name": f"{owner}-{pool}-7d9", "uid": "rs", "controller": True}],
        },
        "spec": {"nodeName": "h100-0", "containers": [{"name": "engine", "args": ["x"], "resources": _ONE_GPU}]},
        "status": status,
    }


def service_manifest(name: str = "llama", *, digest: str = "d1", uid: str = "u1") -> Body:
    """A Service as rendered for an InferenceDeployment."""
    reference = {"kind": "InferenceDeployment", "name": name, "uid": uid, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "annotations": {HASH_ANNOTATION: digest},
            "ownerReferences": [reference],
        },
        "spec": {"selector": {DEPLOYMENT_LABEL: name}, "ports": [{"name": "http", "port": 8000}]},
    }


def workload_body(pool: str = POOL, *, owner: str = "llama", uid: str = "u1", replicas: int = 2) -> Body:
    """A Deployment of a pool, with the record of its placement."""
    record = (
        '{"gpuType": "h100-sxm-80gb", "nodeSelector": {"nvidia.com/gpu.product": "H100"}, '
        '"resource": "nvidia.com/gpu", "tensorParallel": 1}'
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": f"{owner}-{pool}",
            "namespace": "ns",
            "uid": f"workload-{pool}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-21T03:00:02Z",
            "labels": {MANAGED_BY: FIELD_MANAGER, DEPLOYMENT_LABEL: owner, POOL_LABEL: pool},
            "annotations": {POOL_ANNOTATION: record, HASH_ANNOTATION: "d1"},
            "ownerReferences": [{"kind": "InferenceDeployment", "name": owner, "uid": uid, "controller": True}],
        },
        "spec": {"replicas": replicas},
    }
