"""The fields of each kind that a snapshot holds. Everything that is not named here stays in the cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from plimsoll.adapters.cluster.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    INFERENCE_DEPLOYMENTS,
    LIMIT_RANGES,
    NODE_POOLS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RESOURCE_SLICES,
    ObjectKind,
)
from plimsoll.api.crd.lost_fields import LAST_APPLIED
from plimsoll.app.exports.document import Body
from plimsoll.app.exports.specs import LEFT_OUT, skeleton, without_secrets
from plimsoll.app.review.overlay import is_scaled
from plimsoll.domain.engines.failures import StartFailure
from plimsoll.domain.requests.workload import ENGINE_CONTAINER
from plimsoll.engines.failures import read_failure
from plimsoll.engines.registry import started_by
from plimsoll.facts.cluster.fleet_reading import HEALTH_CONDITIONS
from plimsoll.facts.cluster.gpu_count import HAMI_REGISTRATION, only_counted
from plimsoll.facts.cluster.host_reading import REQUESTS
from plimsoll.facts.cluster.other_devices import DEVICES
from plimsoll.facts.cluster.pod_reading import READY, SCHEDULED, read_statuses
from plimsoll.facts.cluster.priority_reading import PREEMPTS
from plimsoll.render.inputs import INPUTS_ANNOTATION
from plimsoll.render.names import DEPLOYMENT_LABEL, HASH_ANNOTATION, MANAGED_BY, POOL_ANNOTATION, POOL_LABEL
from plimsoll.status.sharing import without_messages

_IDENTITY = ("name", "namespace", "uid")
_HEAD = (*_IDENTITY, "generation", "creationTimestamp", "deletionTimestamp")
_OWN_LABELS = (MANAGED_BY, DEPLOYMENT_LABEL, POOL_LABEL)
_REFERENCE = ("kind", "name", "uid", "controller")
_WITHOUT_WORDS = (
    StartFailure.UNKNOWN,
    StartFailure.HOST_MEMORY,
    StartFailure.MODEL,
    StartFailure.DISK_FULL,
    StartFailure.NOT_WRITABLE,
)
"""Failures whose sentences may hold words of the log: nobody knows which, or names of models and files."""
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_POOL_RECORD = (
    "gpuType", "tensorParallel", "pipelineParallel", "dataParallel", "expertParallel", "nodeSelector", "nodeLabels",
    "resource", "capacityType", "drain",
)  # fmt: skip


def reduced(kind: ObjectKind, body: Body) -> dict[str, Any]:
    """Return an object with the fields that decisions read."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **_REDUCE[kind](body)}


def _node(body: Body) -> dict[str, Any]:
    """All labels stay, because a manifest may select nodes by any of them."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    taints = [_only(taint, ("key", "value", "effect")) for taint in spec.get("taints") or ()]
    conditions = [each for each in status.get("conditions") or () if each.get("type") in HEALTH_CONDITIONS]
    registered = (body["metadata"].get("annotations") or {}).get(HAMI_REGISTRATION)
    cards = {HAMI_REGISTRATION: only_counted(registered)} if registered else {}
    return {
        "metadata": _only(body["metadata"], ("name", "uid", "labels", "creationTimestamp", "deletionTimestamp"))
        | ({"annotations": cards} if cards else {}),
        "spec": _only(spec, ("unschedulable",)) | ({"taints": taints} if taints else {}),
        "status": {
            "allocatable": _resources(status.get("allocatable")),
            **_only(status, ("capacity",)),  # the store has reduced it to GPUs of which some are unhealthy
            "conditions": [_only(each, ("type", "status", "reason")) for each in conditions],
        },
    }


def _resources(amounts: Body | None) -> dict[str, Any]:
    """All amounts stay, because a manifest may ask for any resource of a node."""
    return dict(amounts or {})


def _pod(body: Body) -> dict[str, Any]:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    if REQUESTS in body:
        head = _only(body["metadata"], _IDENTITY)
        return {"metadata": head, "spec": _only(spec, ("nodeName", "priority")), REQUESTS: body[REQUESTS]}
    ours = DEPLOYMENT_LABEL in (body["metadata"].get("labels") or {})
    found = {
        "metadata": _own_head(body) if ours else _only(body["metadata"], _IDENTITY),
        "spec": {
            **_only(spec, ("nodeName", "priority")),
            "containers": [_container(each) | _command(each, ours=ours) for each in spec.get("containers") or ()],
            "initContainers": [_container(each) for each in spec.get("initContainers") or ()],
            **{name: _amounts(spec[name]) for name in ("resources",) if spec.get(name)},
            **{name: _resources(spec[name]) for name in ("overhead",) if spec.get(name)},
        },
        "status": _only(status, ("phase",)),
    }
    return found | {"status": _engine_status(status)} if ours else found


def _container(container: Body) -> dict[str, Any]:
    return _only(container, ("restartPolicy",)) | {"resources": _amounts(container.get("resources"))}


def _command(container: Body, *, ours: bool) -> dict[str, Any]:
    """The command of an engine's container, by which its engine is known; nothing of any other command."""
    command = container.get("command") if ours else None
    return {} if started_by(command) is None else {"command": command}


def _amounts(resources: Body | None) -> dict[str, Any]:
    sections = ((name, (resources or {}).get(name)) for name in ("requests", "limits"))
    return {name: _resources(amounts) for name, amounts in sections if amounts}


def _own_head(body: Body) -> dict[str, Any]:
    head = body["metadata"]
    kept = _only(head, _HEAD)
    references = [_only(each, _REFERENCE) for each in head.get("ownerReferences") or ()]
    return kept | {"labels": _only(head.get("labels") or {}, _OWN_LABELS), "ownerReferences": references}


def _engine_status(status: Body) -> dict[str, Any]:
    conditions = [each for each in status.get("conditions") or () if each.get("type") in (READY, SCHEDULED)]
    return _only(status, ("phase", "reason")) | {
        "conditions": [_only(each, _CONDITION) for each in conditions],
        "containerStatuses": [_container_status(each) for each in read_statuses(status)],
    }


def _container_status(status: Body) -> dict[str, Any]:
    is_engine = status.get("name", ENGINE_CONTAINER) == ENGINE_CONTAINER
    found = _only(status, ("restartCount",)) | ({} if is_engine else {"name": LEFT_OUT})
    for name in ("state", "lastState"):
        state = status.get(name) or {}
        if state.get("terminated"):
            found[name] = {"terminated": _terminated(state["terminated"])}
        elif state.get("waiting"):
            found[name] = {"waiting": _only(state["waiting"], ("reason",))}
    return found


def _terminated(ended: Body) -> dict[str, Any]:
    """The exit of an engine. Of its log only a sentence that the engine is known to write stays."""
    failure = read_failure(str(ended.get("message") or ""), str(ended.get("reason") or ""))
    known = failure.reason not in _WITHOUT_WORDS
    return _only(ended, ("exitCode", "reason")) | ({"message": failure.message} if known else {})


def _workload(body: Body) -> dict[str, Any]:
    """A Deployment of ours without its pod template."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    annotations = body["metadata"].get("annotations") or {}
    kept = _only(annotations, (INPUTS_ANNOTATION,))
    if HASH_ANNOTATION in annotations:
        kept[HASH_ANNOTATION] = ""  # only its presence counts; the digest of a template may be of secrets
    if POOL_ANNOTATION in annotations:
        kept[POOL_ANNOTATION] = _pool_record(annotations[POOL_ANNOTATION])
    failures = [each for each in status.get("conditions") or () if each.get("type") == "ReplicaFailure"]
    return {
        "metadata": _own_head(body) | {"annotations": kept},
        "spec": _only(spec, ("replicas",)),
        "status": {
            **_only(status, ("observedGeneration", "updatedReplicas")),
            "conditions": [_only(each, _CONDITION) for each in failures],
        },
    }


def _pool_record(text: Any) -> str:
    try:
        record = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return ""
    return json.dumps(_only(record, _POOL_RECORD)) if isinstance(record, dict) else ""


def _inference_deployment(body: Body) -> dict[str, Any]:
    return {
        "metadata": _only(body["metadata"], _HEAD) | _applied_before(body["metadata"]) | _scaled(body),
        "spec": without_secrets(body.get("spec") or {}),
        "status": without_messages(body.get("status") or {}),
    }


def _applied_before(head: Body) -> dict[str, Any]:
    """The fields of the last manifest, without their values: they say which fields a new manifest removes."""
    try:
        spec = json.loads((head.get("annotations") or {})[LAST_APPLIED])["spec"]
    except (TypeError, ValueError, KeyError, RecursionError):
        return {}
    return {"annotations": {LAST_APPLIED: json.dumps({"spec": skeleton(spec)})}} if isinstance(spec, dict) else {}


def _scaled(body: Body) -> dict[str, Any]:
    entry = {"subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    return {"managedFields": [entry]} if is_scaled(body) else {}


def _as_stored(parts: tuple[str, ...], body: Body) -> dict[str, Any]:
    """An object that the store has reduced to what is read, or that has no more than that."""
    return {"metadata": _only(body["metadata"], _IDENTITY), **_only(body, parts)}


def _priority_class(body: Body) -> dict[str, Any]:
    preempts = _only(body["metadata"].get("annotations") or {}, (PREEMPTS,))
    head = _only(body["metadata"], ("name", "uid")) | ({"annotations": preempts} if preempts else {})
    return {"metadata": head, **_only(body, ("value", "globalDefault", "preemptionPolicy"))}


def _node_pool(body: Body) -> dict[str, Any]:
    spec = body.get("spec") or {}
    template = spec.get("template") or {}
    conditions = (body.get("status") or {}).get("conditions") or ()
    return {
        "metadata": _only(body["metadata"], ("name", "uid")),
        "spec": {
            "limits": _resources(spec.get("limits")),
            "template": {
                "metadata": _only(template.get("metadata") or {}, ("labels",)),
                "spec": _only(template.get("spec") or {}, ("requirements", "taints")),
            },
        },
        "status": {"conditions": [_only(each, ("type", "status")) for each in conditions]},
    }


_REDUCE: Mapping[ObjectKind, Callable[[Body], dict[str, Any]]] = {
    NODES: _node,
    PODS: _pod,
    DEPLOYMENTS: _workload,
    INFERENCE_DEPLOYMENTS: _inference_deployment,
    RESOURCE_QUOTAS: partial(_as_stored, ("spec", "status")),
    LIMIT_RANGES: partial(_as_stored, ("spec",)),
    PRIORITY_CLASSES: _priority_class,
    CONFIG_MAPS: partial(_as_stored, ("data",)),
    NODE_POOLS: _node_pool,
    RESOURCE_SLICES: partial(_as_stored, ("spec", DEVICES)),
    RESOURCE_CLAIMS: partial(_as_stored, ("status",)),
}

KINDS = tuple(_REDUCE)
"""The kinds of a snapshot."""


def _only(body: Body, fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: body[name] for name in fields if name in body}
