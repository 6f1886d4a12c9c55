"""What of each kind is kept in memory: pods are many, and most hold no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll.app.contests import REPLICAS_MANAGERS
from plimsoll.facts.fleet_reading import holds_gpus
from plimsoll.render.names import DEPLOYMENT_LABEL, FIELD_MANAGER

Body = Mapping[str, Any]

_NODE_CONDITION = ("type", "status", "reason")
_POD_STATUS = ("phase", "conditions", "containerStatuses", "startTime")
_CONTAINER = ("name", "resources")


def whole(body: Body) -> Body:
    """Everything but the managed fields."""
    head = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {**body, "metadata": head}


def workload(body: Body) -> Body:
    """A Deployment, and who else than us owns its number of replicas, in place of the bulky managed fields."""
    entries = body["metadata"].get("managedFields") or ()
    others = sorted({str(entry.get("manager")) for entry in entries if _owns_replicas(entry)} - {FIELD_MANAGER})
    kept = whole(body)
    return {**kept, REPLICAS_MANAGERS: others} if others else kept


def _owns_replicas(entry: Body) -> bool:
    return "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})


def pod(body: Body) -> Body | None:
    """Pods that hold GPUs or are ours, without what nobody reads."""
    labels = body["metadata"].get("labels") or {}
    if DEPLOYMENT_LABEL not in labels and not holds_gpus(body):
        return None
    spec, status = body.get("spec") or {}, body.get("status") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "labels", "creationTimestamp", "deletionTimestamp")
    return {
        "metadata": {key: body["metadata"][key] for key in kept if key in body["metadata"]},
        "spec": {
            "nodeName": spec.get("nodeName"),
            "containers": [_only(container, _CONTAINER) for container in spec.get("containers") or ()],
            "initContainers": [_only(container, _CONTAINER) for container in spec.get("initContainers") or ()],
        },
        "status": _only(status, _POD_STATUS),
    }


def node(body: Body) -> Body:
    """Labels, taints, allocatable and the conditions without their heartbeats, which change all the time."""
    status = body.get("status") or {}
    kept = ("name", "uid", "resourceVersion", "labels")
    return {
        "metadata": {key: body["metadata"][key] for key in kept if key in body["metadata"]},
        "spec": _only(body.get("spec") or {}, ("taints", "unschedulable")),
        "status": {
            "allocatable": status.get("allocatable") or {},
            "conditions": [_only(condition, _NODE_CONDITION) for condition in status.get("conditions") or ()],
        },
    }


def _only(body: Body, fields: tuple[str, ...]) -> dict[str, Any]:
    return {key: body[key] for key in fields if key in body}
