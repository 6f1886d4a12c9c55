"""Read PersistentVolumeClaims with their volumes and storage classes: which nodes can mount them.

A claim that is bound goes where its volume is. A claim that waits for its first pod goes where its storage class makes
volumes. Sources in Kubernetes 1.36: ``pkg/scheduler/framework/plugins/volumebinding`` (node affinity, topologies of a
class; claims that are deleted, lost or not bound) and ``pkg/scheduler/framework/plugins/volumezone`` (zone labels of
volumes without a node affinity).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from plimsoll.domain.cluster.node_rules import Claim, ClaimHolder, Holders, KnownClaims, Requirement, Term
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import parse_bytes
from plimsoll.facts.cluster.host_reading import ENDED

Body = Mapping[str, Any]

ZONE_LABELS: Mapping[str, str] = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels of volumes that bind them to a zone or a region, each with the label of nodes today."""

_SEPARATOR = "__"
"""Between the zones of a volume that is in several."""

MOST_TERMS = 64
"""The most terms, and the most requirements of one, that are read of a volume: real ones have a handful."""


def read_claim(
    name: str, claim: Body | None, volume: Body | None, storage_class: Body | None, *, lacks_class: bool = False
) -> Claim:
    """Return what is known of a claim.

    Args:
        name: the claim's name.
        claim: the PersistentVolumeClaim; None if it does not exist.
        volume: the PersistentVolume that it is bound to, if it is and can be read.
        storage_class: its StorageClass, if it is not bound and the class can be read.
        lacks_class: it is known that the class that it names does not exist, and that no volume waits for it.
    """
    spec = _mapping((claim or {}).get("spec"))
    modes = tuple(str(mode) for mode in _list(spec.get("accessModes")))
    fault = "" if claim is None else _fault(claim, lacks_class=lacks_class)
    if volume is not None:
        return Claim(name, modes, volume_terms(volume), fault, capacity_bytes=_capacity(claim))
    if storage_class is None:
        return Claim(name, modes, fault=fault)
    remark = "" if claim is None else _remark(name, claim, storage_class)
    return Claim(name, modes, class_terms(storage_class), fault, remark)


def read_claims(
    claims: Iterable[Body],
    volumes: Iterable[Body],
    storage_classes: Iterable[Body],
    holders: Holders | None = None,
) -> KnownClaims:
    """Return what is known of all these claims, and of volumes that these classes make for each pod.

    Without any class, nothing is known of classes. Else one that is not among them does not exist. ``holders`` are the
    pods that mount a claim.
    """
    by_name, classes = ({_name(each): each for each in listed} for listed in (volumes, storage_classes))
    found: dict[ObjectKey, Claim] = {}
    for claim in claims:
        volume, kind = volume_name(claim), class_name(claim)
        key = _key(claim)
        lacks = bool(classes) and kind not in classes and not any(_is_for(each, claim) for each in by_name.values())
        made_by = None if volume else classes.get(kind)
        found[key] = read_claim(key.name, claim, by_name.get(volume), made_by, lacks_class=lacks)
    return KnownClaims(found, {name: class_terms(each) for name, each in classes.items()}, holders or {})


def read_holders(pods: Iterable[Body], deployment_label: str) -> dict[ObjectKey, tuple[ClaimHolder, ...]]:
    """Return the pods on nodes that mount claims, by claim, without those that have ended.

    Args:
        pods: pods with the volumes that :func:`claims_of_pod` returns.
        deployment_label: the label that names the InferenceDeployment of a pod.
    """
    found: dict[ObjectKey, tuple[ClaimHolder, ...]] = {}
    for pod in pods:
        spec = _mapping(pod.get("spec"))
        if "volumes" not in spec:
            continue
        phase = _mapping(pod.get("status")).get("phase")
        if not spec.get("nodeName") or phase in ENDED:
            continue
        key = _key(pod)
        owner = _mapping(_mapping(pod.get("metadata")).get("labels")).get(deployment_label)
        holder = ClaimHolder(key.name, str(spec["nodeName"]), str(owner or ""), runs=phase == "Running")
        for name in claims_of_pod(spec):
            claim = ObjectKey(key.namespace, name)
            found[claim] = (*found.get(claim, ()), holder)
    return found


def claims_of_pod(spec: Body) -> tuple[str, ...]:
    """Return the names of the claims that a pod mounts, each once."""
    named = (_mapping(_mapping(each).get("persistentVolumeClaim")) for each in _list(spec.get("volumes")))
    return tuple(sorted({str(each["claimName"]) for each in named if "claimName" in each}))


def volume_name(claim: Body) -> str:
    """Return the name of the volume that a claim is bound to; empty if it is not bound."""
    return str(_mapping(claim.get("spec")).get("volumeName") or "")


def class_name(claim: Body) -> str:
    """Return the name of a claim's storage class; empty if it has none."""
    return str(_mapping(claim.get("spec")).get("storageClassName") or "")


def volume_terms(volume: Body) -> tuple[Term, ...] | None:
    """Return the nodes that can mount a volume; None if all can."""
    required = _mapping(_mapping(_mapping(volume.get("spec")).get("nodeAffinity")).get("required"))
    if "nodeSelectorTerms" in required:
        return tuple(_term(each) for each in _list(required["nodeSelectorTerms"]))
    labels = _mapping(_mapping(volume.get("metadata")).get("labels"))
    zones = {ZONE_LABELS[key]: tuple(str(labels[key]).split(_SEPARATOR)) for key in ZONE_LABELS if key in labels}
    if not zones:
        return None
    there = tuple(Requirement(key, "In", values) for key, values in sorted(zones.items()))
    anywhere = tuple(Requirement(key, "DoesNotExist") for key in sorted(set(ZONE_LABELS.values())))
    return there, anywhere  # the scheduler asks nodes without any of these labels for nothing


def class_terms(storage_class: Body) -> tuple[Term, ...] | None:
    """Return the nodes for which a class makes volumes; None if it names none, or makes them before any pod."""
    if storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
        return None
    topologies = _list(storage_class.get("allowedTopologies"))
    return tuple(_topology(each) for each in topologies) or None


def _fault(claim: Body, *, lacks_class: bool) -> str:
    """Return why Kubernetes starts no new pod with a claim, with what would help; empty if it starts one.

    A claim without a class waits for a volume that somebody makes, and so may one of a class that does not exist: the
    scheduler refuses its pods until then. Source: ``podHasPVCs`` and ``GetPodVolumeClaims`` of ``volumebinding``.
    """
    if _mapping(claim.get("metadata")).get("deletionTimestamp"):
        return (
            "The claim is being deleted, and no new pod can mount it. Name another claim, or make it again once it is "
            "gone."
        )
    if _mapping(claim.get("status")).get("phase") == "Lost":
        return (
            f"The claim has lost its volume {volume_name(claim)} (its status.phase is Lost). Name another claim, or "
            "delete this one and make it again."
        )
    if lacks_class and class_name(claim) and not volume_name(claim):
        return (
            f"The claim is not bound, and names the storage class {class_name(claim)}, which does not exist. Make the "
            "class or a volume for the claim, or name another claim."
        )
    return ""


def _capacity(claim: Body | None) -> int | None:
    """Return the bytes of the volume that a claim is bound to; None if the claim does not say."""
    stated = _mapping(_mapping((claim or {}).get("status")).get("capacity")).get("storage")
    try:
        return None if stated is None else parse_bytes(str(stated))
    except ValueError:
        return None


def _remark(name: str, claim: Body, storage_class: Body) -> str:
    """Return the warning about an unbound claim whose class does not wait for its first pod; empty if it does."""
    if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer":
        return ""
    return (
        f"The claim {name} is not bound, and its storage class {class_name(claim)} binds it before there is a pod "
        "(volumeBindingMode: Immediate): pods wait until it is bound."
    )


def _is_for(volume: Body, claim: Body) -> bool:
    """Whether a volume of a claim's class may be bound to it: such volumes need no StorageClass."""
    spec, key = _mapping(volume.get("spec")), _key(claim)
    if str(spec.get("storageClassName") or "") != class_name(claim):
        return False
    kept_for = _mapping(spec.get("claimRef"))
    return not kept_for or (kept_for.get("namespace"), kept_for.get("name")) == (key.namespace, key.name)


def _key(body: Body) -> ObjectKey:
    return ObjectKey(str(_mapping(body.get("metadata")).get("namespace") or "default"), _name(body))


def _name(body: Body) -> str:
    return str(_mapping(body.get("metadata")).get("name"))


def _term(term: Any) -> Term:
    parts = [*_list(_mapping(term).get("matchExpressions")), *_list(_mapping(term).get("matchFields"))]
    return tuple(_requirement(each, str(_mapping(each).get("operator"))) for each in parts)


def _topology(term: Any) -> Term:
    return tuple(_requirement(each, "In") for each in _list(_mapping(term).get("matchLabelExpressions")))


def _requirement(expression: Any, operator: str) -> Requirement:
    found = _mapping(expression)
    return Requirement(str(found.get("key")), operator, tuple(str(value) for value in _list(found.get("values"))))


def _mapping(value: Any) -> Body:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value)[:MOST_TERMS] if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else []
