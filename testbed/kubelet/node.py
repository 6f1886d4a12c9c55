"""A node that a process kubelet owns: like the testbed's other nodes, but nobody plays it."""

from __future__ import annotations

import time
from typing import Any

from testbed.api_client import ApiClient
from testbed.kubelet.times import stamp, stamp_micro
from testbed.kwok_config import FAKE_NODE_ANNOTATION

LEASE_SECONDS = 40
"""As a kubelet's; it is renewed four times as often."""

_APPLY = "application/apply-patch+yaml"
_STRATEGIC = "application/strategic-merge-patch+json"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def not_played(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of :func:`testbed.fleet.gpu_node` without the annotation by which kwok finds its nodes."""
    head = dict(manifest["metadata"])
    kept = {key: value for key, value in head.get("annotations", {}).items() if key != FAKE_NODE_ANNOTATION}
    return {**manifest, "metadata": head | {"annotations": kept}}


def say_ready(client: ApiClient, name: str, address: str) -> None:
    """Report the node as ready. Raises ApiError and OSError."""
    now = stamp(time.time())
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
    status = {
        "conditions": [ready | {"lastTransitionTime": now, "message": "the process kubelet runs"}],
        "addresses": [{"type": "InternalIP", "address": address}],
    }
    client.send("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, content_type=_STRATEGIC)


def renew_lease(client: ApiClient, name: str) -> None:
    """Renew the node's lease, or make it. Raises ApiError and OSError."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": stamp_micro(time.time()),
        },
    }
    client.send("PATCH", f"{_LEASES}/{name}?fieldManager=kubelet&force=true", lease, content_type=_APPLY)
