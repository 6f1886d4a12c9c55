"""An API server in memory, with the controllers, the scheduler and the kubelets that a small cluster needs.

Bodies are never changed in place: a reader may keep what it was given.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import (
    APPROVALS,
    DEPLOYMENTS,
    EVENTS,
    INFERENCE_DEPLOYMENTS,
    NODES,
    PODS,
    PROPOSALS,
    RESOURCE_QUOTAS,
    ObjectKind,
    kind_of,
)
from plimsoll.app.watch.store import key_of, uid_of
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import to_rfc3339
from plimsoll.facts.cluster.host_reading import is_bound, pod_need
from testbed.audit import AuditEvent
from testbed.operator_process import USER
from tests.support.bodies import Body
from tests.support.kueue_in_memory import check_update, defaulted, gated, is_gated
from tests.support.volumes_in_memory import bind_claims, obstacle_everywhere, obstacle_there

CLUSTER = "cluster"
"""The user name of everything that is part of Kubernetes."""

PERSON = "person"

_OF_PEOPLE = (PROPOSALS, APPROVALS)
"""Kinds whose objects the operator may delete whoever made them: it withdraws proposals, and answered approvals."""

_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
_NO_SCHEDULE = ("NoSchedule", "NoExecute")
_NOT_FOUND, _CONFLICT, _INVALID = 404, 409, 422


@dataclass
class Clock:
    """The time of a test in POSIX seconds; it passes when the test says so."""

    now: float = 1_795_300_000.0

    def read(self) -> float:
        """Return the time."""
        return self.now

    @property
    def text(self) -> str:
        """The time as Kubernetes writes it."""
        return to_rfc3339(self.now)


@dataclass
class ApiInMemory:
    """The objects of a cluster.

    Attributes:
        clock: the time.
        objects: by kind and key.
        writes: every accepted write, in order.
        changes: what no watch has delivered yet.
        makers: who created each object, by its uid.
        trespasses: writes of the operator to objects that it did not create.
        has_kueue: whether Kueue's webhooks see Deployments and pods.
    """

    clock: Clock
    objects: dict[tuple[ObjectKind, ObjectKey], Body] = field(default_factory=dict)
    writes: list[AuditEvent] = field(default_factory=list)
    changes: list[tuple[ObjectKind, str, Body]] = field(default_factory=list)
    makers: dict[str, str] = field(default_factory=dict)
    trespasses: list[str] = field(default_factory=list)
    version: int = 100
    has_kueue: bool = False
    _births: Counter[tuple[ObjectKind, ObjectKey]] = field(default_factory=Counter)
    _applied: dict[str, Body] = field(default_factory=dict)

    def copy(self) -> ApiInMemory:
        """Return the same cluster, which goes its own way from now on."""
        copied = {name: getattr(self, name).copy() for name in ("objects", "writes", "makers", "_births", "_applied")}
        return ApiInMemory(self.clock, version=self.version, has_kueue=self.has_kueue, **copied)

    def get(self, kind: ObjectKind, key: ObjectKey) -> Body | None:
        """Return one object; None if it does not exist."""
        return self.objects.get((kind, key))

    def all(self, kind: ObjectKind, namespace: str | None = None) -> list[Body]:
        """Return the objects of a kind, by key."""
        found = sorted(key for each, key in self.objects if each == kind and namespace in (None, key.namespace))
        return [self.objects[kind, key] for key in found]

    def put(self, body: Mapping[str, Any], user: str = PERSON) -> Body:
        """Create an object, or replace everything but its status."""
        kind, key = kind_of(body), key_of(body)
        before = self.objects.get((kind, key))
        whole = {**body, "metadata": {**body["metadata"]}}
        if before is not None and kind is not NODES:
            whole["status"] = before.get("status") or {}
        return self._store(kind, key, whole, user)

    def put_status(self, kind: ObjectKind, key: ObjectKey, status: Mapping[str, Any], user: str = PERSON) -> Body:
        """Merge something into the status of an object, as a person with too many rights may do."""
        before = self._existing(kind, key)
        merged = {**(before.get("status") or {}), **status}
        return self._store(kind, key, {**before, "status": merged}, user, "status")

    def apply(self, manifest: Body, user: str) -> Body:
        """Server-side apply: what the same user applied before and not now is removed, everything else stays."""
        kind, key = kind_of(manifest), key_of(manifest)
        before = self.objects.get((kind, key))
        if kind is DEPLOYMENTS:
            _check_template(manifest)
        if before is None:
            stored = self._store(kind, key, self._admitted(kind, manifest), user)
        else:
            merged = _merged(before, self._applied.get(uid_of(before), {}), manifest)
            stored = self._store(kind, key, self._admitted(kind, merged, before), user)
        self._applied[uid_of(stored)] = manifest
        return stored

    def _admitted(self, kind: ObjectKind, body: Body, before: Body | None = None) -> Body:
        """Return a body as the webhooks let it through."""
        if not self.has_kueue or kind is not DEPLOYMENTS:
            return body
        if before is not None:
            check_update(before, body)
        return defaulted(body)

    def replace_status(self, kind: ObjectKind, known: Mapping[str, Any], status: Mapping[str, Any], user: str) -> Body:
        """Replace the status, if no version came after the one that is known."""
        key = key_of(known)
        before = self._existing(kind, key, uid_of(known))
        if before["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            raise ClusterRefused(f"{kind.plural} {key}", _CONFLICT, "the object has been modified")
        return self._store(kind, key, {**before, "status": dict(status)}, user, "status")

    def patch(
        self, kind: ObjectKind, key: ObjectKey, uid: str | None, patch: Mapping[str, Any], user: str = PERSON
    ) -> Body:
        """Merge a patch into an object."""
        before = self._existing(kind, key, uid)
        return self._store(kind, key, self._admitted(kind, _merged(before, {}, patch), before), user)

    def delete(self, kind: ObjectKind, key: ObjectKey, uid: str | None = None, user: str = PERSON) -> None:
        """Delete an object; what belongs to it goes when the controllers run."""
        before = self._existing(kind, key, uid)
        if kind not in _OF_PEOPLE:
            self._look_who_writes(before, user, "delete")
        del self.objects[kind, key]
        self.version += 1
        gone = {**before, "metadata": {**before["metadata"], "resourceVersion": str(self.version)}}
        self.changes.append((kind, "DELETED", gone))
        self._note(user, "delete", kind.plural, key, 200, None)

    def evict(self, key: ObjectKey, user: str) -> None:
        """End a pod as a drain does; its Deployment makes another one when the controllers run."""
        self._existing(PODS, key)
        self._note(user, "create", "pods/eviction", key, 201, None)
        self.delete(PODS, key, user=CLUSTER)

    def create_event(self, event: Body, user: str) -> None:
        """Record an event."""
        key = key_of(event)
        if (EVENTS, key) in self.objects:
            raise ClusterRefused("record event", _CONFLICT, "already exists")
        self.objects[EVENTS, key] = event
        self._note(user, "create", "events", key, 201, event)

    def take_changes(self) -> list[tuple[ObjectKind, str, Body]]:
        """Return what a watch that was never interrupted would deliver now."""
        taken, self.changes = self.changes, []
        return taken

    def run_controllers(self) -> None:
        """Let Kubernetes do what is left to do: remove orphans, make pods, bind them, and let their engines serve."""
        self._collect_garbage()
        self._lose_pods()
        for body in self.all(DEPLOYMENTS):
            if not body["spec"].get("paused"):
                self._make_pods(body)
        self._schedule()
        for body in self.all(DEPLOYMENTS):
            self._report(body)
        self._count_quotas()

    def pods_of(self, workload: Mapping[str, Any]) -> list[Body]:
        """Return the pods of a Deployment, in the order in which they were made."""
        found = [body for body in self.all(PODS, key_of(workload).namespace) if _is_of(body, workload)]
        return sorted(found, key=lambda body: int(body["metadata"]["annotations"]["made"]))

    def _look_who_writes(self, before: Mapping[str, Any] | None, user: str, what: str) -> None:
        if before is not None and user == USER and self.makers[uid_of(before)] != USER:
            self.trespasses.append(f"{what} {before['kind']} {key_of(before)}")

    def _existing(self, kind: ObjectKind, key: ObjectKey, uid: str | None = None) -> Body:
        found = self.objects.get((kind, key))
        if found is None:
            raise ClusterRefused(f"{kind.plural} {key}", _NOT_FOUND, "not found")
        if uid not in (None, uid_of(found)):
            raise ClusterRefused(f"{kind.plural} {key}", _CONFLICT, "the UID in the precondition does not match")
        return found

    def _store(
        self, kind: ObjectKind, key: ObjectKey, body: Mapping[str, Any], user: str, subresource: str = ""
    ) -> Body:
        before = self.objects.get((kind, key))
        if not subresource and kind not in _OF_PEOPLE:
            self._look_who_writes(before, user, "write")
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        if before is not None and before == body:
            self._note(user, "patch", resource, key, 200, before)
            return before
        self.version += 1
        head = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
        if before is None:
            self._births[kind, key] += 1
            head["uid"] = f"{kind.plural}/{key.namespace}/{key.name}/{self._births[kind, key]}"
            head |= {"creationTimestamp": self.clock.text, "generation": 1}
            self.makers[head["uid"]] = user
        else:
            known = before["metadata"]
            head |= {name: known[name] for name in ("uid", "creationTimestamp")}
            head["generation"] = known["generation"] + (before.get("spec") != body.get("spec"))
        head["resourceVersion"] = str(self.version)
        stored = {**body, "metadata": head}
        self.objects[kind, key] = stored
        self.changes.append((kind, "ADDED" if before is None else "MODIFIED", stored))
        verb, status = ("create", 201) if before is None else ("patch", 200)
        self._note(user, verb, resource, key, status, stored)
        return stored

    def _note(self, user: str, verb: str, resource: str, key: ObjectKey, status: int, body: Any) -> None:
        self.writes.append(AuditEvent(user, verb, resource, key.namespace, key.name, status, self.clock.text, body))

    def _collect_garbage(self) -> None:
        """Remove what belongs to objects that are gone, and in turn what belongs to that."""
        removed = True
        while removed:
            uids = {uid_of(body) for body in self.objects.values() if "uid" in body["metadata"]}
            orphans = [
                (kind, key)
                for (kind, key), body in self.objects.items()
                if any(each.get("uid") not in uids for each in body["metadata"].get("ownerReferences") or ())
            ]
            for kind, key in orphans:
                self.delete(kind, key, user=CLUSTER)
            removed = bool(orphans)

    def _lose_pods(self) -> None:
        nodes = {body["metadata"]["name"] for body in self.all(NODES)}
        for body in self.all(PODS):
            if body["spec"].get("nodeName") and body["spec"]["nodeName"] not in nodes:
                self.delete(PODS, key_of(body), user=CLUSTER)

    def _make_pods(self, workload: Body) -> None:
        """Make and remove pods until there are as many of the newest template as wanted."""
        digest = _digest(workload["spec"]["template"])
        pods = self.pods_of(workload)
        for body in pods:
            if body["metadata"]["annotations"]["template"] != digest:
                self.delete(PODS, key_of(body), user=CLUSTER)
        kept = [body for body in pods if body["metadata"]["annotations"]["template"] == digest]
        wanted = int(workload["spec"].get("replicas") or 0)
        for body in kept[wanted:]:
            self.delete(PODS, key_of(body), user=CLUSTER)
        refusal = ""
        for _ in range(len(kept), wanted):
            pod = self._pod(workload, digest)
            refusal = self._beyond_quota(pod)
            if refusal:
                break
            self._store(PODS, key_of(pod), gated(pod, self.clock.text) if self.has_kueue else pod, CLUSTER)
        self._note_refusal(workload, refusal)

    def _pod(self, workload: Body, digest: str) -> Body:
        template, key = workload["spec"]["template"], key_of(workload)
        head = template.get("metadata") or {}
        self.version += 1
        reference = {"kind": "ReplicaSet", "name": f"{key.name}-{digest}", "uid": uid_of(workload), "controller": True}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **head,
                "name": f"{key.name}-{digest}-{self.version}",
                "namespace": key.namespace,
                "annotations": {**(head.get("annotations") or {}), "template": digest, "made": str(self.version)},
                "ownerReferences": [reference],
            },
            "spec": template["spec"],
            "status": {"phase": "Pending"},
        }

    def _note_refusal(self, workload: Body, refusal: str) -> None:
        status = workload.get("status") or {}
        known = [each for each in status.get("conditions") or () if each["type"] == "ReplicaFailure"]
        if refusal and not known:
            failed = {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": self.clock.text}
            self.put_status(DEPLOYMENTS, key_of(workload), {"conditions": [failed | {"message": refusal}]}, CLUSTER)
        elif known and not refusal:
            self.put_status(DEPLOYMENTS, key_of(workload), {"conditions": []}, CLUSTER)

    def _beyond_quota(self, pod: Body) -> str:
        """Return why a ResourceQuota forbids a pod; empty where none does."""
        namespace = pod["metadata"]["namespace"]
        for quota in self.all(RESOURCE_QUOTAS, namespace):
            used = self._used(namespace)
            for name, asked in _asked(pod).items():
                limit = (quota["spec"].get("hard") or {}).get(name)
                if limit is not None and used[name] + asked > _number(limit):
                    return f"exceeded quota: {quota['metadata']['name']}, requested: {name}={asked}"
        return ""

    def _used(self, namespace: str) -> Counter[str]:
        used: Counter[str] = Counter()
        for pod in self.all(PODS, namespace):
            used.update(_asked(pod))
        return used

    def _count_quotas(self) -> None:
        for quota in self.all(RESOURCE_QUOTAS):
            used = self._used(key_of(quota).namespace)
            counts = {name: str(used[name]) for name in quota["spec"].get("hard") or {}}
            if (quota.get("status") or {}).get("used") != counts:
                self.put_status(RESOURCE_QUOTAS, key_of(quota), {"used": counts}, CLUSTER)

    def _schedule(self) -> None:
        free = {body["metadata"]["name"]: _allocatable(body) for body in self.all(NODES)}
        waiting = []
        for pod in self.all(PODS):
            if is_bound(pod):
                free[pod["spec"]["nodeName"]].subtract(_gpus(pod))
            elif not pod["spec"].get("nodeName") and not is_gated(pod):
                waiting.append(pod)
        for pod in sorted(waiting, key=lambda body: int(body["metadata"]["resourceVersion"])):
            if everywhere := obstacle_everywhere(self, pod):
                self._cannot_bind(pod, everywhere)
                continue
            refusals = {body["metadata"]["name"]: self._refusal(body, pod, free) for body in self.all(NODES)}
            node = next((name for name, refusal in refusals.items() if not refusal), None)
            if node is None:
                counts = sorted(Counter(refusals.values()).items())
                self._cannot_bind(pod, ", ".join(f"{count} {refusal}" for refusal, count in counts))
            else:
                free[node].subtract(_gpus(pod))
                bind_claims(self, pod, self.objects[NODES, ObjectKey("", node)], CLUSTER)
                self._bind(pod, node)

    def _refusal(self, node: Body, pod: Body, free: Mapping[str, Counter[str]]) -> str:
        """Return why a pod does not go to a node, in the scheduler's words; empty where it may."""
        if unfit := _unfit(node, pod):
            return unfit
        short = [name for name, count in _gpus(pod).items() if free[node["metadata"]["name"]][name] < count]
        return f"Insufficient {short[0]}" if short else obstacle_there(self, pod, node)

    def _cannot_bind(self, pod: Body, why: str) -> None:
        """Say that no node takes a pod. The time of transition stays where the pod had no node before."""
        total = len(self.all(NODES))
        message = f"0/{total} nodes are available: {why}." if total else "no nodes available to schedule pods"
        words = {"status": "False", "reason": "Unschedulable", "message": message}
        known = [each for each in (pod.get("status") or {}).get("conditions") or () if each["type"] == "PodScheduled"]
        since = known[0]["lastTransitionTime"] if known else self.clock.text
        listed = [{"type": "PodScheduled", "lastTransitionTime": since, **words}]
        if known == listed:
            return
        self.put_status(PODS, key_of(pod), {"conditions": listed}, CLUSTER)

    def _bind(self, pod: Body, node: str) -> None:
        """Bind a pod, and let its engine serve at once."""
        key, now = key_of(pod), self.clock.text
        conditions = [{"type": each, "status": "True", "lastTransitionTime": now} for each in ("PodScheduled", "Ready")]
        status = {"phase": "Running", "conditions": conditions, "startTime": now}
        self._store(PODS, key, {**pod, "spec": {**pod["spec"], "nodeName": node}}, CLUSTER)
        self._note(CLUSTER, "create", "pods/binding", key, 201, {"target": {"name": node}})
        self.put_status(PODS, key, status, CLUSTER)

    def _report(self, workload: Body) -> None:
        pods = self.pods_of(workload)
        counts = {
            "observedGeneration": workload["metadata"]["generation"],
            "replicas": len(pods),
            "updatedReplicas": len(pods),
            "readyReplicas": sum(1 for body in pods if body["spec"].get("nodeName")),
        }
        if any((workload.get("status") or {}).get(name) != count for name, count in counts.items()):
            self.put_status(DEPLOYMENTS, key_of(workload), counts, CLUSTER)


def _is_of(pod: Mapping[str, Any], workload: Mapping[str, Any]) -> bool:
    references = pod["metadata"].get("ownerReferences") or ()
    return any(each.get("uid") == uid_of(workload) for each in references) and "template" in (
        pod["metadata"].get("annotations") or {}
    )


def _digest(part: Any) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:10]


def _check_template(manifest: Mapping[str, Any]) -> None:
    """Refuse a Deployment whose pods could not be made. The real API server checks much more."""
    try:
        pod = {"metadata": {}, **manifest["spec"]["template"]}
        json.dumps(_asked(pod)), _gpus(pod), pod_need(pod)
    except Exception as error:
        raise ClusterRefused("apply deployments", _INVALID, f"spec.template: Invalid value: {error}") from error


def _gpus(pod: Mapping[str, Any]) -> Counter[str]:
    found: Counter[str] = Counter()
    for container in pod["spec"].get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        found.update({name: int(limits[name]) for name in _GPUS if name in limits})
    return found


def _asked(pod: Mapping[str, Any]) -> dict[str, int]:
    """What a pod takes from quotas, in whole units and bytes."""
    need = pod_need(pod)
    gpus = {f"requests.{name}": count for name, count in _gpus(pod).items()}
    return gpus | {"requests.memory": need.memory_bytes, "pods": 1}


def _number(quantity: str) -> int:
    units = {"Gi": 2**30, "Mi": 2**20}
    return int(quantity[:-2]) * units[quantity[-2:]] if quantity[-2:] in units else int(quantity)


def _allocatable(node: Mapping[str, Any]) -> Counter[str]:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return Counter({name: int(allocatable[name]) for name in _GPUS if name in allocatable})


def _unfit(node: Mapping[str, Any], pod: Mapping[str, Any]) -> str:
    """Return why a node's taints and labels keep a pod off, in the scheduler's words; empty where they do not."""
    labels, spec = node["metadata"].get("labels") or {}, pod["spec"]
    for taint in (node.get("spec") or {}).get("taints") or ():
        if taint["effect"] in _NO_SCHEDULE and not any(
            _tolerates(each, taint) for each in spec.get("tolerations") or ()
        ):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    is_selected = all(labels.get(name) == value for name, value in (spec.get("nodeSelector") or {}).items())
    if is_selected and (not required or any(_matches(labels, term) for term in required["nodeSelectorTerms"])):
        return ""
    return "node(s) didn't match Pod's node affinity/selector"


def _matches(labels: Mapping[str, str], term: Mapping[str, Any]) -> bool:
    for each in term.get("matchExpressions") or ():
        is_in = labels.get(each["key"]) in (each.get("values") or ())
        if is_in != (each["operator"] == "In"):
            return False
    return True


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    is_same_key = toleration.get("key") in (None, "", taint["key"])
    is_any = toleration.get("operator") == "Exists" or toleration.get("value") == taint.get("value")
    return is_same_key and is_any and toleration.get("effect") in (None, "", taint["effect"])


def _merged(live: Any, known: Any, wanted: Any) -> Any:
    """The live value with the wanted one applied. ``known`` is what the same user applied before.

    Lists are replaced as a whole.
    """
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        known = known if isinstance(known, Mapping) else {}
        kept = {name: value for name, value in live.items() if name in wanted or name not in known}
        return kept | {name: _merged(live.get(name), known.get(name), value) for name, value in wanted.items()}
    return wanted


@dataclass(frozen=True)
class InMemoryView:
    """One namespace, as its administrator sees it."""

    api: ApiInMemory
    namespace: str

    def all(self, plural: str, owner: str | None = None) -> list[Body]:
        """Objects of a kind, or only those of one InferenceDeployment."""
        found = [self.api.objects[each] for each in self._keys(plural)]
        label = "plimsoll.dev/deployment"
        return [body for body in found if owner in (None, (body["metadata"].get("labels") or {}).get(label))]

    def _keys(self, plural: str) -> Iterator[tuple[ObjectKind, ObjectKey]]:
        mine = (each for each in self.api.objects if each[0].plural == plural and each[1].namespace == self.namespace)
        return iter(sorted(mine, key=lambda each: each[1]))

    def get(self, name: str) -> Body:
        """Return an InferenceDeployment; empty where there is none."""
        return self.api.get(INFERENCE_DEPLOYMENTS, ObjectKey(self.namespace, name)) or {}
