"""Replaces names in the objects of a snapshot, and leaves out sentences and fields that hold names and are not read.

A digest is the same for a name wherever it is. A salt that is not kept makes them different in each file. Each digest
has a number in front of it that keeps the alphabetical order of the names: the operator breaks ties by name, so it
breaks them in the same way.
Labels and taints get digests in place of the admin's words. Those of GPU vendors and clouds stay: they are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from plimsoll.adapters.cluster.kinds import (
    DEPLOYMENTS,
    INFERENCE_DEPLOYMENTS,
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
from plimsoll.app.exports.specs import LEFT_OUT
from plimsoll.domain.cluster.spot import SPOT_LABELS
from plimsoll.domain.engines.images import vendor_of
from plimsoll.facts.cluster.cloud_labels import AWS_LABELS, GKE_ACCELERATOR, GPU_TYPE_LABEL
from plimsoll.facts.cluster.gpu_count import COUNTS, INSTANCE_TYPE, SHARING
from plimsoll.facts.cluster.node_pools import POOL_LABEL as NODE_POOL
from plimsoll.facts.cluster.other_devices import claim_with_names, slice_with_names
from plimsoll.facts.cluster.pod_reading import SCHEDULED
from plimsoll.facts.cluster.scheduler_words import Obstacle, read_obstacles
from plimsoll.facts.cluster.taints import DISRUPTION_TAINTS, STARTUP_PREFIX, is_startup_taint
from plimsoll.render.names import DEPLOYMENT_LABEL, POOL_LABEL, workload_name
from plimsoll.status.sharing import with_other_image, with_other_nodes, without_sentences

PHRASES: Mapping[Obstacle, str] = {
    Obstacle.GPUS: "Insufficient nvidia.com/gpu",
    Obstacle.NODES_GONE: "node(s) were unschedulable",
    Obstacle.OTHER_NODES: "node(s) didn't match Pod's node affinity/selector",
    Obstacle.CPU: "Insufficient cpu",
    Obstacle.MEMORY: "Insufficient memory",
    Obstacle.OTHER_RESOURCE: "Insufficient example.com/resource",
    Obstacle.PODS: "Too many pods",
    Obstacle.VOLUME_ELSEWHERE: "node(s) had volume node affinity conflict",
    Obstacle.NO_VOLUME_THERE: "node(s) exceed max volume count",
    Obstacle.VOLUMES: "pod has unbound immediate PersistentVolumeClaims",
    Obstacle.PORTS: "node(s) didn't have free ports for the requested pod ports",
    Obstacle.SPREADING: "node(s) didn't match pod anti-affinity rules",
    Obstacle.GATES: "scheduling gates",
    Obstacle.QUOTA: "exceeded quota",
    Obstacle.UNKNOWN: "another reason",
}
"""The scheduler's words for each obstacle, without the names that its own message may hold."""

_NOT_HASHED = frozenset({
    "PLIMSOLL_POD_POLICY", "PLIMSOLL_ENGINE_IMAGE_NVIDIA", "PLIMSOLL_ENGINE_IMAGE_AMD", "PLIMSOLL_ENGINE_REGISTRY",
})  # fmt: skip

HOSTNAME = "kubernetes.io/hostname"

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

_READ = frozenset({
    GPU_TYPE_LABEL, GKE_ACCELERATOR, *(label for pair in AWS_LABELS for label in pair), *SHARING, *COUNTS,
    INSTANCE_TYPE, *SPOT_LABELS, *DISRUPTION_TAINTS,
})  # fmt: skip

_OF_VENDORS = re.compile(r"(nvidia|amd)\.com/.*|node\.kubernetes\.io/.*|kubernetes\.io/(arch|os)")
"""Labels and taints that GPU vendors and Kubernetes write."""

_DIGITS = 6
_LONG_DIGITS = 12


class Pseudonyms:
    """The names of one snapshot.

    Args:
        salt: random text.
        nodes: names of nodes.
        namespaces: names of namespaces.
        names: names of other objects.
    """

    def __init__(self, salt: str, nodes: Iterable[str], namespaces: Iterable[str], names: Iterable[str]) -> None:
        self._salt = salt
        self._nodes = self._numbered("node", nodes)
        self._namespaces = self._numbered("ns", namespaces)
        self._names = self._numbered("name", names)

    def node(self, name: str) -> str:
        """The digest of a node's name."""
        return self._nodes.get(name) or f"node-{self._digest('node', name)}"

    def namespace(self, name: str) -> str:
        """The digest of a namespace; cluster-wide objects have none."""
        return self._namespaces.get(name) or (f"ns-{self._digest('ns', name)}" if name else "")

    def name(self, name: str) -> str:
        """The digest of any other name."""
        return self._names.get(name) or f"name-{self._digest('name', name)}"

    def uid(self, uid: str) -> str:
        """The digest of a uid."""
        return self._digest("uid", uid, _LONG_DIGITS)

    def word(self, word: str) -> str:
        """The digest of the key or the value of a label or a taint; nothing stays nothing."""
        return f"w-{self._digest('word', word, _LONG_DIGITS)}" if word else ""

    def _numbered(self, kind: str, names: Iterable[str]) -> Mapping[str, str]:
        ordered = sorted({name for name in names if name})
        width = len(str(len(ordered)))
        return {
            name: f"{kind}-{number:0{width}}-{self._digest(kind, name)}" for number, name in enumerate(ordered, start=1)
        }

    def _digest(self, kind: str, text: str, digits: int = _DIGITS) -> str:
        return sha256(f"{self._salt}/{kind}/{text}".encode()).hexdigest()[:digits]


def names_of(bodies: Mapping[ObjectKind, Iterable[Body]], namespaces: Iterable[str], salt: str) -> Pseudonyms:
    """Return digests for all names of these objects and for further namespaces."""
    nodes: set[str] = set()
    names: set[str] = set()
    spaces = set(namespaces)
    for kind, listed in bodies.items():
        for body in listed:
            (nodes if kind == NODES else names).add(str(body["metadata"]["name"]))
            spaces.add(str(body["metadata"].get("namespace") or ""))
            nodes.add(str((body.get("spec") or {}).get("nodeName") or ""))
    return Pseudonyms(salt, nodes, spaces, names)


@dataclass(frozen=True, slots=True)
class HashedLabels:
    """Replaces keys and values. A value is replaced in the same way in a node and in a selector."""

    names: Pseudonyms

    def labels(self, labels: Body) -> dict[str, Any]:
        """Return labels of a node, or a selector. Values may be missing."""
        return {self._key(key): self._value(key, value) for key, value in labels.items()}

    def taint(self, taint: Body) -> dict[str, Any]:
        """Return a taint or a toleration. A startup taint stays one."""
        key, value = str(taint.get("key") or ""), str(taint.get("value") or "")
        if not key or _is_known(key):
            return dict(taint)
        prefix = STARTUP_PREFIX if is_startup_taint(key) else ""
        return {**taint, "key": f"{prefix}{self.names.word(key)}"} | (
            {"value": self.names.word(value)} if value else {}
        )

    def requirement(self, requirement: Body) -> dict[str, Any]:
        """Return a requirement of a node pool."""
        key = str(requirement.get("key") or "")
        values = [self._value(key, each) for each in requirement.get("values") or ()]
        return {**requirement, "key": self._key(key)} | ({"values": values} if values else {})

    def named(self, requirement: Body) -> dict[str, Any]:
        """Return a requirement of names of nodes."""
        return {**requirement, "values": [self.names.node(str(each)) for each in requirement.get("values") or ()]}

    def _key(self, key: str) -> str:
        return key if _is_known(key) or key in (HOSTNAME, NODE_POOL) else self.names.word(key)

    def _value(self, key: str, value: Any) -> Any:
        if not isinstance(value, str) or _is_known(key):
            return value
        if key == HOSTNAME:
            return self.names.node(value)
        return self.names.name(value) if key == NODE_POOL else self.names.word(value)


def _is_known(key: str) -> bool:
    return key in _READ or _OF_VENDORS.fullmatch(key) is not None


class Hashing:
    """Replaces the names of one snapshot.

    Args:
        names: the digests.
    """

    def __init__(self, names: Pseudonyms) -> None:
        self._names = names
        self._labels = HashedLabels(names)
        self._parts: Mapping[ObjectKind, Callable[[Body], dict[str, Any]]] = {
            NODES: self._node,
            PODS: self._pod,
            DEPLOYMENTS: self._workload,
            INFERENCE_DEPLOYMENTS: self._inference_deployment,
            PRIORITY_CLASSES: self._priority_class,
            NODE_POOLS: self._node_pool,
            RESOURCE_QUOTAS: self._quota,
            RESOURCE_SLICES: self._slice,
            RESOURCE_CLAIMS: self._claim,
        }

    def hashed(self, kind: ObjectKind, body: Body) -> dict[str, Any]:
        """Return an object of a snapshot with digests in place of names."""
        own = self._parts.get(kind)
        parts = {} if own is None else own(body)
        head = self._head(body["metadata"]) | parts.pop("metadata", {})
        return {**body, **parts, "metadata": head}

    def settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return settings with digests in place of names, and without images.

        Of the pod policy only the permitted PriorityClasses stay. :func:`marked` is for objects that it refuses.
        """
        found = {name: value for name, value in settings.items() if name not in _NOT_HASHED}
        found["PLIMSOLL_NAMESPACE"] = self._names.namespace(settings["PLIMSOLL_NAMESPACE"])
        found["PLIMSOLL_PRICES_CONFIGMAP"] = self._names.name(settings["PLIMSOLL_PRICES_CONFIGMAP"])
        watched = [each for each in settings.get("PLIMSOLL_WATCH_NAMESPACES", "").split(",") if each]
        if watched:
            found["PLIMSOLL_WATCH_NAMESPACES"] = ",".join(self._names.namespace(each) for each in watched)
        if "PLIMSOLL_NODE_GROUPS" in settings:
            groups = json.loads(settings["PLIMSOLL_NODE_GROUPS"])
            found["PLIMSOLL_NODE_GROUPS"] = json.dumps([self._group(each) for each in groups])
        policy = json.loads(settings.get("PLIMSOLL_POD_POLICY", "{}"))
        if "priorityClasses" in policy:
            found["PLIMSOLL_POD_POLICY"] = json.dumps({"priorityClasses": policy["priorityClasses"]})
        return found

    def _group(self, group: Body) -> dict[str, Any]:
        found = {**group, "name": self._names.name(str(group["name"]))}
        if "labels" in group:
            found["labels"] = self._labels.labels(group["labels"])
        if "taints" in group:
            found["taints"] = [self._labels.taint(each) for each in group["taints"]]
        return found

    def _head(self, head: Body) -> dict[str, Any]:
        found = {**head, "name": self._names.name(str(head["name"]))}
        if head.get("namespace"):
            found["namespace"] = self._names.namespace(str(head["namespace"]))
        if head.get("uid"):
            found["uid"] = self._names.uid(str(head["uid"]))
        if head.get("ownerReferences"):
            found["ownerReferences"] = [self._reference(each, head) for each in head["ownerReferences"]]
        labels = head.get("labels") or {}
        if DEPLOYMENT_LABEL in labels:
            found["labels"] = {**labels, DEPLOYMENT_LABEL: self._names.name(labels[DEPLOYMENT_LABEL])}
        return found

    def _reference(self, reference: Body, head: Body) -> dict[str, Any]:
        found = {**reference, "uid": self._names.uid(str(reference.get("uid")))}
        return found | ({"name": self._made(str(reference["name"]), head)} if "name" in reference else {})

    def _made(self, name: str, head: Body) -> str:
        """A name that begins with that of a Deployment of ours still does, because the operator checks it."""
        labels = head.get("labels") or {}
        if DEPLOYMENT_LABEL in labels and POOL_LABEL in labels:
            workload = workload_name(labels[DEPLOYMENT_LABEL], labels[POOL_LABEL])
            ours = workload_name(self._names.name(labels[DEPLOYMENT_LABEL]), labels[POOL_LABEL])
            if name == workload:
                return ours
            if name.startswith(f"{workload}-"):
                return f"{ours}-{self._names.uid(name)}"
        return self._names.name(name)

    def _node(self, body: Body) -> dict[str, Any]:
        head, spec = body["metadata"], body.get("spec") or {}
        found = {"name": self._names.node(str(head["name"])), "labels": self._labels.labels(head.get("labels") or {})}
        taints = [self._labels.taint(each) for each in spec.get("taints") or ()]
        return {"metadata": found, "spec": {**spec, **({"taints": taints} if taints else {})}}

    def _slice(self, body: Body) -> dict[str, Any]:
        return {"spec": slice_with_names(body, self._names.node)["spec"]}

    def _claim(self, body: Body) -> dict[str, Any]:
        return {"status": claim_with_names(body, self._names.node)["status"]}

    def _pod(self, body: Body) -> dict[str, Any]:
        spec, status = dict(body.get("spec") or {}), dict(body.get("status") or {})
        if spec.get("nodeName"):
            spec["nodeName"] = self._names.node(str(spec["nodeName"]))
        if status.get("conditions"):
            status["conditions"] = [_without_names(each) for each in status["conditions"]]
        return {"spec": spec} | ({"status": status} if status else {})

    def _workload(self, body: Body) -> dict[str, Any]:
        status = dict(body.get("status") or {})
        status["conditions"] = [{**each, "message": LEFT_OUT} for each in status.get("conditions") or ()]
        return {"metadata": {"name": self._made(str(body["metadata"]["name"]), body["metadata"])}, "status": status}

    def _inference_deployment(self, body: Body) -> dict[str, Any]:
        found: dict[str, Any] = {"spec": self._spec(body["spec"]), "status": self._status(body["status"])}
        before = (body["metadata"].get("annotations") or {}).get(LAST_APPLIED)
        if before is not None:
            spec = self._spec(json.loads(before)["spec"])
            found["metadata"] = {"annotations": {LAST_APPLIED: json.dumps({"spec": spec})}}
        return found

    def _status(self, status: Body) -> dict[str, Any]:
        return with_other_nodes(with_other_image(without_sentences(status), LEFT_OUT), self._names.node)

    def _spec(self, spec: Body) -> dict[str, Any]:
        """The parts of a spec that decisions read. It may be a spec without values."""
        found = dict(spec)
        if isinstance(spec.get("model"), Mapping):
            found["model"] = _without(spec["model"], "path", "tokenSecretRef", "source", "sourceSecretRef", "cache")
        if isinstance(spec.get("engine"), Mapping):
            found["engine"] = _engine(spec["engine"])
        if isinstance(spec.get("podTemplate"), Mapping):
            found["podTemplate"] = self._template(spec["podTemplate"])
        return found

    def _template(self, template: Body) -> dict[str, Any]:
        found = {name: template[name] for name in ("resources",) if name in template}
        if isinstance(template.get("nodeSelector"), Mapping):
            found["nodeSelector"] = self._labels.labels(template["nodeSelector"])
        if isinstance(template.get("tolerations"), list):
            found["tolerations"] = [self._labels.taint(each) for each in template["tolerations"]]
        for name in ("initContainers", "containers"):
            if isinstance(template.get(name), list):
                found[name] = [_outline(each, f"{name.lower()}-{at}") for at, each in enumerate(template[name])]
        if isinstance(template.get("affinity"), Mapping):
            found["affinity"] = self._affinity(template["affinity"])
        if "priorityClassName" in template:
            found["priorityClassName"] = self._priority(template["priorityClassName"])
        return found

    def _affinity(self, affinity: Body) -> dict[str, Any]:
        """The nodes that must be there: nothing else of an affinity is read."""
        required = (affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {}
        terms = [
            {
                "matchExpressions": [*map(self._labels.requirement, term.get("matchExpressions") or ())],
                "matchFields": [*map(self._labels.named, term.get("matchFields") or ())],
            }
            for term in required.get("nodeSelectorTerms") or ()
        ]
        return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}} if terms else {}

    def _priority(self, name: Any) -> Any:
        return self._names.name(name) if isinstance(name, str) and name and not name.startswith("system-") else name

    def _priority_class(self, body: Body) -> dict[str, Any]:
        return {"metadata": {"name": self._priority(body["metadata"]["name"])}}

    def _quota(self, quota: Body) -> dict[str, Any]:
        """The values of a scope name PriorityClasses."""
        spec = dict(quota["spec"])
        if isinstance(spec.get("scopeSelector"), Mapping):
            terms = spec["scopeSelector"].get("matchExpressions") or ()
            spec["scopeSelector"] = {"matchExpressions": [self._term(each) for each in terms]}
        return {"spec": spec}

    def _term(self, term: Body) -> dict[str, Any]:
        return {**term, **({"values": [self._priority(each) for each in term["values"]]} if term.get("values") else {})}

    def _node_pool(self, body: Body) -> dict[str, Any]:
        template = body["spec"]["template"]
        labels, spec = template["metadata"].get("labels") or {}, dict(template["spec"])
        if spec.get("requirements"):
            spec["requirements"] = [self._labels.requirement(each) for each in spec["requirements"]]
        if spec.get("taints"):
            spec["taints"] = [self._labels.taint(each) for each in spec["taints"]]
        made = {"metadata": {"labels": self._labels.labels(labels)}, "spec": spec}
        return {"spec": {**body["spec"], "template": made}}


def marked(body: Body) -> dict[str, Any]:
    """Return an InferenceDeployment that the pod policy refuses, because of a service account that it does not know."""
    template = {**(body["spec"].get("podTemplate") or {}), "serviceAccountName": LEFT_OUT}
    return {**body, "spec": {**body["spec"], "podTemplate": template}}


def _outline(container: Body, name: str) -> dict[str, Any]:
    """Return the resources of a further container, and when it runs."""
    kept = {name: container[name] for name in ("resources", "restartPolicy") if name in container}
    return {"name": name, "image": LEFT_OUT, **kept}


def _without(body: Body, *fields: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in fields}


def _engine(engine: Body) -> dict[str, Any]:
    """The engine without the name of its image: only the vendor of the image is read."""
    found = dict(engine)
    image, speculation = engine.get("image"), engine.get("speculation")
    if isinstance(image, str):
        found |= {"image": LEFT_OUT, "imageVendor": engine.get("imageVendor") or vendor_of(image).value.upper()}
    if isinstance(speculation, Mapping) and isinstance(speculation.get("draftModel"), Mapping):
        found["speculation"] = {**speculation, "draftModel": _without(speculation["draftModel"], "path")}
    return found


def _without_names(condition: Body) -> dict[str, Any]:
    """The condition with the same obstacles in words that hold no name."""
    message = str(condition.get("message") or "")
    if not message:
        return dict(condition)
    obstacles = read_obstacles(str(condition.get("reason") or ""), message)
    phrases = ", ".join(f"1 {PHRASES[obstacle]}" for obstacle in obstacles)
    is_scheduler = condition.get("type") == SCHEDULED
    return {**condition, "message": f"0/1 nodes are available: {phrases}." if is_scheduler else ""}
