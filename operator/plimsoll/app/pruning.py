"""Reduces objects to the parts that are kept in memory: pods are many, and most hold no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from plimsoll.app.contests import REPLICAS_MANAGERS
from plimsoll.app.equal_parts import shared
from plimsoll.app.record.reading import RECORD, read
from plimsoll.app.sizes import Size, TooLarge, size_of
from plimsoll.facts.cluster.fleet_reading import holds_gpus
from plimsoll.facts.cluster.host_reading import REQUESTS, is_bound, pod_need
from plimsoll.facts.cluster.priority_reading import PREEMPTS
from plimsoll.facts.cluster.quota_reading import is_read, read_quotas
from plimsoll.render.names import DEPLOYMENT_LABEL, FIELD_MANAGER

Body = Mapping[str, Any]

TOO_LARGE = "plimsoll.dev/tooLarge"
"""Says why only the identity of an object is kept."""

_NODE_CONDITION = ("type", "status", "reason")
_POD_STATUS = ("phase", "conditions", "containerStatuses", "startTime", "podIP")
_CONTAINER = ("name", "resources", "restartPolicy")
_IDENTITY = ("name", "namespace", "uid", "resourceVersion")
_POD_HEAD = (*_IDENTITY, "labels", "creationTimestamp", "deletionTimestamp")
_REFERENCE = ("kind", "name", "uid", "controller")


def whole(body: Body) -> Body:
    """Return everything except the managed fields. Parts that equal those of other objects are kept once."""
    head = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {key: shared(head if key == "metadata" else value) for key, value in body.items()}


def workload(body: Body) -> Body:
    """Return a Deployment without its large managed fields, and add the other managers of its number of replicas."""
    entries = body["metadata"].get("managedFields") or ()
    others = sorted({str(entry.get("manager")) for entry in entries if _owns_replicas(entry)} - {FIELD_MANAGER})
    kept = whole(body)
    return {**kept, REPLICAS_MANAGERS: others} if others else kept


def _owns_replicas(entry: Body) -> bool:
    return "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})


def size(body: Body) -> Size:
    """Return what a user wrote into an object: its metadata without the managed fields, and its spec."""
    head = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    return size_of(head, body.get("spec"))


def identity(body: Body, reason: TooLarge) -> Body:
    """Return an InferenceDeployment without its spec, because it is too large, and with our own status."""
    kept = {name: body[name] for name in ("apiVersion", "kind", "status") if name in body}
    head = _only(body["metadata"], (*_IDENTITY, "generation", "creationTimestamp", "deletionTimestamp"))
    record = body[RECORD] if RECORD in body else read(body.get("status"))
    return {**kept, "metadata": head, RECORD: record, TOO_LARGE: reason}


def why_reduced(kept: Body) -> TooLarge | None:
    """Return why only the identity of an object is kept; None if all of it is."""
    reason: TooLarge | None = kept.get(TOO_LARGE)
    return reason


def inference_deployment(body: Body) -> Body:
    """Return everything except the managed fields, and add the record: the status is read once for each version."""
    return {**whole(body), RECORD: read(body.get("status"))}


def quota(body: Body) -> Body | None:
    """Return the limits of GPUs, CPU and memory, and their use. The other parts change with every pod."""
    kept = read_quotas([body])
    if not kept.remaining and not kept.complaints:
        return None
    spec, status = body.get("spec") or {}, body.get("status") or {}
    limits = {name: limit for name, limit in (spec.get("hard") or {}).items() if is_read(name)}
    used = {name: count for name, count in (status.get("used") or {}).items() if name in limits}
    return {
        "metadata": _only(body["metadata"], _IDENTITY),
        "spec": {**_only(spec, ("scopes", "scopeSelector")), "hard": limits},
        "status": {"used": used},
    }


def priority_class(body: Body) -> Body:
    """Return the value, whether it is the default, and who may preempt."""
    annotations = _only(body["metadata"].get("annotations") or {}, (PREEMPTS,))
    head = _only(body["metadata"], _IDENTITY) | ({"annotations": annotations} if annotations else {})
    return {"metadata": head, **_only(body, ("value", "globalDefault", "preemptionPolicy"))}


def pod(body: Body) -> Body | None:
    """Return the used parts of a pod that holds GPUs or is ours; of any other pod on a node, only its requests."""
    labels = body["metadata"].get("labels") or {}
    ours = DEPLOYMENT_LABEL in labels
    if not ours and not holds_gpus(body):
        return _plain(body)
    spec, status = body.get("spec") or {}, body.get("status") or {}
    head = _only(body["metadata"], _POD_HEAD)
    if ours:
        references = body["metadata"].get("ownerReferences") or ()
        head["ownerReferences"] = [_only(reference, _REFERENCE) for reference in references]
    return {
        "metadata": head,
        "spec": {
            "nodeName": spec.get("nodeName"),
            "containers": shared([_only(container, _CONTAINER) for container in spec.get("containers") or ()]),
            "initContainers": shared([_only(container, _CONTAINER) for container in spec.get("initContainers") or ()]),
            **_only(spec, ("resources", "overhead")),
        },
        "status": shared(_only(status, _POD_STATUS)),
    }


def is_plain(body: Body) -> bool:
    """Whether a pod was reduced to the resources that it takes from its node: its changes need no new pass."""
    return REQUESTS in body


def _plain(body: Body) -> Body | None:
    """Return identity, node and requests. A cluster has a hundred thousand of these pods, so equal parts are shared."""
    if not is_bound(body):
        return None
    need = pod_need(body)
    return {
        "metadata": _only(body["metadata"], _IDENTITY),
        "spec": _on_node(body["spec"]["nodeName"]),
        REQUESTS: _requests(need.cpu_millis, need.memory_bytes),
    }


@lru_cache(maxsize=16384)
def _on_node(name: str) -> Body:
    return {"nodeName": name}


@lru_cache(maxsize=4096)
def _requests(cpu_millis: int, memory_bytes: int) -> Body:
    return {"cpu": cpu_millis, "memory": memory_bytes}


def node(body: Body) -> Body:
    """Return labels, taints, allocatable and the conditions without their heartbeats, which change all the time."""
    status = body.get("status") or {}
    kept = ("name", "uid", "resourceVersion", "labels")
    return {
        "metadata": shared({key: body["metadata"][key] for key in kept if key in body["metadata"]}),
        "spec": shared(_only(body.get("spec") or {}, ("taints", "unschedulable"))),
        "status": shared(
            {
                "allocatable": status.get("allocatable") or {},
                "conditions": [_only(condition, _NODE_CONDITION) for condition in status.get("conditions") or ()],
            }
        ),
    }


def _only(body: Body, fields: tuple[str, ...]) -> dict[str, Any]:
    return {key: body[key] for key in fields if key in body}
