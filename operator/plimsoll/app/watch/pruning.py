"""Reduces objects to the parts that are kept in memory: pods are many, and most hold no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from plimsoll.api.crd.schema import UNSEEN
from plimsoll.app.watch.contests import REPLICAS_MANAGERS
from plimsoll.app.watch.equal_parts import shared
from plimsoll.app.watch.sizes import ObjectSize, TooLargeObject, size_of
from plimsoll.domain.cluster.host import HostNeed
from plimsoll.domain.engines.failures import LONGEST_WORDS
from plimsoll.domain.kubernetes_names import KIND, QUEUE_LABEL
from plimsoll.facts.cluster.claim_reading import claims_of_pod
from plimsoll.facts.cluster.fleet_reading import gpus_held, held_resources, holds_gpus
from plimsoll.facts.cluster.gpu_count import HAMI_REGISTRATION, only_counted
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource
from plimsoll.facts.cluster.host_reading import ENDED, OTHERS, REQUESTS, is_bound, pod_need
from plimsoll.facts.cluster.pod_reading import engine_command, read_statuses
from plimsoll.facts.cluster.priority_reading import PREEMPTS, placeholder_priority
from plimsoll.facts.cluster.quota_reading import is_named, is_read, limits_of_pods, read_quotas
from plimsoll.render.inputs import INPUTS_ANNOTATION, RENDERING_ANNOTATION
from plimsoll.render.names import (
    DEPLOYMENT_LABEL,
    FIELD_MANAGER,
    HASH_ANNOTATION,
    MANAGED_BY,
    OF_ROUTER_PODS,
    POOL_ANNOTATION,
    POOL_LABEL,
)
from plimsoll.status.record.reading import RECORD, read

Body = Mapping[str, Any]

TOO_LARGE = "plimsoll.dev/tooLarge"
"""Says why only a part of an object is kept."""

_NODE_CONDITION = ("type", "status", "reason")
_OWN_POD_STATUS = ("phase", "conditions", "startTime", "podIP")
_IDENTITY = ("name", "namespace", "uid", "resourceVersion")
_HEAD = (*_IDENTITY, "generation", "creationTimestamp", "deletionTimestamp")
_REFERENCE = ("kind", "name", "uid", "controller")
_OWN_LABELS = (MANAGED_BY, DEPLOYMENT_LABEL, POOL_LABEL)
_OWN_POD_LABELS = (*_OWN_LABELS, QUEUE_LABEL, *OF_ROUTER_PODS)
_OWN_ANNOTATIONS = (HASH_ANNOTATION, POOL_ANNOTATION, INPUTS_ANNOTATION, RENDERING_ANNOTATION)

LONGEST_ANNOTATION = 4096
"""Characters of an annotation of ours that is kept of an object that is not kept whole. Ours have some hundred."""


def whole(body: Body) -> Body:
    """Return everything except the managed fields. Parts that equal those of other objects are kept once."""
    head = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {key: shared(head if key == "metadata" else value) for key, value in body.items()}


def workload(body: Body) -> Body:
    """Return a Deployment without its large managed fields, and add the other managers of its number of replicas."""
    entries = body["metadata"].get("managedFields") or ()
    others = sorted({str(entry.get("manager")) for entry in entries if _owns_replicas(entry)} - {FIELD_MANAGER})
    kept = owned(body)
    return {**kept, REPLICAS_MANAGERS: others} if others else kept


def owned(body: Body) -> Body:
    """Return all of an object of ours, and of others an outline: they carry our label, or are InferencePools."""
    controller = _controllers(body)
    claims = any(each.get("kind") == KIND for each in controller) or (
        not controller and HASH_ANNOTATION in (body["metadata"].get("annotations") or {})
    )
    return whole(body) if claims else shared(_outline(body))


def _owns_replicas(entry: Body) -> bool:
    return "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})


def size(body: Body) -> ObjectSize:
    """Return the size of what a user wrote: an object's metadata without the managed fields, and its spec."""
    return size_of(_head(body), body.get("spec"))


def whole_size(body: Body) -> ObjectSize:
    """Return the size of all of an object but its managed fields."""
    return size_of({**body, "metadata": _head(body)})


def _head(body: Body) -> dict[str, Any]:
    return {name: value for name, value in body["metadata"].items() if name != "managedFields"}


def identity(body: Body, reason: TooLargeObject) -> Body:
    """Return an InferenceDeployment without its spec, because it is too large, and with our own status."""
    record = body[RECORD] if RECORD in body else read(body.get("status"))
    kept = {name: body[name] for name in ("apiVersion", "kind", "status") if name in body}
    return {**kept, "metadata": _only(body["metadata"], _HEAD), RECORD: record, TOO_LARGE: reason}


def outline(body: Body, reason: TooLargeObject) -> Body:
    """Return what is kept of an object that is too large: who made it, from what, and how many replicas."""
    managers = {REPLICAS_MANAGERS: body[REPLICAS_MANAGERS]} if REPLICAS_MANAGERS in body else {}
    return {**_outline(body), **managers, TOO_LARGE: reason}


def _outline(body: Body) -> dict[str, Any]:
    head = _only(body["metadata"], _HEAD)
    annotations = _only(body["metadata"].get("annotations") or {}, _OWN_ANNOTATIONS)
    head["labels"] = _only(body["metadata"].get("labels") or {}, _OWN_LABELS)
    head["annotations"] = {name: text for name, text in annotations.items() if len(text) <= LONGEST_ANNOTATION}
    head["ownerReferences"] = _controllers(body)
    kept = {name: body[name] for name in ("apiVersion", "kind", "status") if name in body}
    return {**kept, "metadata": head, "spec": _only(body.get("spec") or {}, ("replicas",))}


def _controllers(body: Body) -> list[dict[str, Any]]:
    references = body["metadata"].get("ownerReferences") or ()
    return [_only(each, _REFERENCE) for each in references if each.get("controller")][:1]


def why_reduced(kept: Body) -> TooLargeObject | None:
    """Return why only a part of an object is kept; None if all of it is."""
    reason: TooLargeObject | None = kept.get(TOO_LARGE)
    return reason


def inference_deployment(body: Body) -> Body:
    """Return everything except the managed fields, and add the record: the status is read once for each version.

    The status that the API server fills in for a new object is none: nobody has decided anything.
    """
    if body.get("status") == UNSEEN:
        body = {name: part for name, part in body.items() if name != "status"}
    return {**whole(body), RECORD: read(body.get("status"))}


def gateway(body: Body) -> Body:
    """Return who is served where: the listeners and addresses of a Gateway."""
    return {
        "metadata": _only(body["metadata"], _IDENTITY),
        "spec": shared({"listeners": [_listener(each) for each in _parts(body, "spec", "listeners")]}),
        "status": shared({"addresses": [_only(each, ("value",)) for each in _parts(body, "status", "addresses")]}),
    }


def _listener(listener: Body) -> dict[str, Any]:
    kept, admits = _only(listener, ("name", "port", "protocol", "hostname")), listener.get("allowedRoutes")
    of = admits.get("namespaces") if isinstance(admits, dict) else None
    return kept | {"allowedRoutes": {"namespaces": _only(of, ("from",))}} if isinstance(of, dict) else kept


def _parts(body: Body, half: str, name: str) -> list[Body]:
    """Return the entries of a list of somebody else's object that are mappings."""
    there = body.get(half)
    found = there.get(name) if isinstance(there, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def quota(body: Body) -> Body | None:
    """Return the limits that are read with their use, and those that are named. Other parts change with every pod."""
    kept = read_quotas([body])
    if not kept.remaining and not kept.complaints:
        return None
    spec, status = body.get("spec") or {}, body.get("status") or {}
    limits = {name: limit for name, limit in (spec.get("hard") or {}).items() if is_read(name) or is_named(name)}
    used = {name: count for name, count in (status.get("used") or {}).items() if name in limits and is_read(name)}
    return {
        "metadata": _only(body["metadata"], _IDENTITY),
        "spec": {**_only(spec, ("scopes", "scopeSelector")), "hard": limits},
        "status": {"used": used},
    }


def limit_range(body: Body) -> Body | None:
    """Return the entries about containers and pods; None if there are none."""
    limits = limits_of_pods(body)
    return {"metadata": _only(body["metadata"], _IDENTITY), "spec": {"limits": limits}} if limits else None


def priority_class(body: Body) -> Body:
    """Return the value, whether it is the default, and who may preempt."""
    annotations = _only(body["metadata"].get("annotations") or {}, (PREEMPTS,))
    head = _only(body["metadata"], _IDENTITY) | ({"annotations": annotations} if annotations else {})
    return {"metadata": head, **_only(body, ("value", "globalDefault", "preemptionPolicy"))}


def pod(body: Body) -> Body | None:
    """Return a pod with the sums of its containers' requests.

    Of a pod that is ours the state is kept, too; of another pod, what it takes from its node.
    """
    labels = body["metadata"].get("labels") or {}
    ours = any(label in labels for label in (DEPLOYMENT_LABEL, *OF_ROUTER_PODS))
    if not ours and not holds_gpus(body):
        return _plain(body)
    if not ours and not is_bound(body):
        return None
    status, spec = body.get("status") or {}, body.get("spec") or {}
    spec = {"nodeName": spec.get("nodeName"), "containers": shared([_together(body)]), **_mounted(spec)}
    if not ours:
        head, priority = _only(body["metadata"], _IDENTITY), placeholder_priority(body)
        spec |= {"priority": priority} if priority else {}
        return {"metadata": head, "spec": spec, "status": shared(_only(status, ("phase",)))}
    head = _only(body["metadata"], (*_IDENTITY, "creationTimestamp", "deletionTimestamp"))
    head |= {"labels": _only(labels, _OWN_POD_LABELS), "ownerReferences": _controllers(body)}
    command = engine_command(body)
    if command is not None:
        spec |= {"containers": shared([{**_together(body), "command": list(command)}])}
    words = _last_words(status) if status.get("phase") in ENDED else {}
    return {
        "metadata": head,
        "spec": spec,
        "status": shared({**_only(status, _OWN_POD_STATUS), "containerStatuses": read_statuses(status), **words}),
    }


def _last_words(status: Body) -> dict[str, str]:
    """Return why a pod failed that ran no container any more, in the kubelet's words."""
    return {name: str(status[name])[:LONGEST_WORDS] for name in ("reason", "message") if status.get(name)}


def _together(body: Body) -> Body:
    """Return one container that asks for what the whole pod takes from its node."""
    need = pod_need(body)
    gpus = {resource: str(gpus_held(body, resource)) for resource in sorted(held_resources(body))}
    others = {resource: str(amount) for resource, amount in need.others}
    host = {"cpu": f"{need.cpu_millis}m", "memory": str(need.memory_bytes)}
    return {"resources": {"requests": {**host, **gpus, **others}}}


def is_plain(body: Body) -> bool:
    """Whether a pod was reduced to the resources that it takes from its node: its changes need no new pass.

    They need one if it mounts claims: another pod may be able to mount them then.
    """
    return REQUESTS in body and "volumes" not in body["spec"]


def _plain(body: Body) -> Body | None:
    """Return identity, node and requests. A cluster has a hundred thousand of these pods, so equal parts are shared."""
    if REQUESTS in body:
        return body
    if not is_bound(body):
        return None
    need, mounted = pod_need(body), _mounted(body["spec"])
    spec = _on_node(body["spec"]["nodeName"], placeholder_priority(body))
    phase = {"status": shared(_only(body.get("status") or {}, ("phase",)))} if mounted else {}
    head = _only(body["metadata"], _IDENTITY)
    return {"metadata": head, "spec": {**spec, **mounted} if mounted else spec, **phase, REQUESTS: _requests(need)}


def _mounted(spec: Body) -> dict[str, Any]:
    """Return the claims among the volumes of a pod; nothing for most pods."""
    claims = claims_of_pod(spec)
    return {"volumes": [{"persistentVolumeClaim": {"claimName": name}} for name in claims]} if claims else {}


@lru_cache(maxsize=16384)
def _on_node(name: str, priority: int) -> Body:
    return {"nodeName": name, "priority": priority} if priority else {"nodeName": name}


@lru_cache(maxsize=4096)
def _requests(need: HostNeed) -> Body:
    sums = {"cpu": need.cpu_millis, "memory": need.memory_bytes}
    return sums | {OTHERS: dict(need.others)} if need.others else sums


def node(body: Body) -> Body:
    """Return labels, taints, allocatable and the conditions without their heartbeats, which change all the time.

    Of the annotations only the one that counts the cards of a shared node stays.
    """
    status = body.get("status") or {}
    kept = ("name", "uid", "resourceVersion", "labels", "creationTimestamp", "deletionTimestamp")
    head = {key: body["metadata"][key] for key in kept if key in body["metadata"]}
    registered = (body["metadata"].get("annotations") or {}).get(HAMI_REGISTRATION)
    cards = {HAMI_REGISTRATION: only_counted(registered)} if registered else {}
    return {
        "metadata": shared(head | {"annotations": cards} if cards else head),
        "spec": shared(_only(body.get("spec") or {}, ("taints", "unschedulable"))),
        "status": shared(
            {
                "allocatable": status.get("allocatable") or {},
                "conditions": [_only(condition, _NODE_CONDITION) for condition in status.get("conditions") or ()],
                **_unhealthy(status),
            }
        ),
    }


def _unhealthy(status: Body) -> Body:
    """Return the capacity of GPUs of which not all are offered; nothing for most nodes."""
    offered, capacity = status.get("allocatable") or {}, status.get("capacity") or {}
    gpus = {name: capacity[name] for name in capacity if is_gpu_resource(name) and capacity[name] != offered.get(name)}
    return {"capacity": gpus} if gpus else {}


def _only(body: Body, fields: tuple[str, ...]) -> dict[str, Any]:
    return {key: body[key] for key in fields if key in body}
