"""Read PersistentVolumeClaims with their volumes and storage classes: which nodes can mount them.

A claim that is bound goes where its volume is. A claim that waits for its first pod goes where its storage class makes
volumes. Sources in Kubernetes 1.36: ``pkg/scheduler/framework/plugins/volumebinding`` (node affinity, topologies of a
class) and ``pkg/scheduler/framework/plugins/volumezone`` (zone labels of volumes without a node affinity).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from plimsoll.domain.cluster.node_rules import Claim, KnownClaims, Requirement, Term
from plimsoll.domain.kubernetes_names import ObjectKey

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


def read_claim(name: str, claim: Body | None, volume: Body | None, storage_class: Body | None) -> Claim:
    """Return what is known of a claim.

    Args:
        name: the claim's name.
        claim: the PersistentVolumeClaim; None where it does not exist.
        volume: the PersistentVolume that it is bound to, if it is and can be read.
        storage_class: its StorageClass, if it is not bound and the class can be read.
    """
    spec = _mapping((claim or {}).get("spec"))
    modes = tuple(str(mode) for mode in _list(spec.get("accessModes")))
    if volume is not None:
        return Claim(name, modes, volume_terms(volume))
    return Claim(name, modes, None if storage_class is None else class_terms(storage_class))


def read_claims(claims: Iterable[Body], volumes: Iterable[Body], storage_classes: Iterable[Body]) -> KnownClaims:
    """Return what is known of all these claims, and of volumes that these classes make for each pod."""
    by_name, classes = ({_name(each): each for each in listed} for listed in (volumes, storage_classes))
    found: dict[ObjectKey, Claim] = {}
    for claim in claims:
        volume, kind = volume_name(claim), class_name(claim)
        key = ObjectKey(str(_mapping(claim.get("metadata")).get("namespace") or "default"), _name(claim))
        found[key] = read_claim(key.name, claim, by_name.get(volume), None if volume else classes.get(kind))
    return KnownClaims(found, {name: class_terms(each) for name, each in classes.items()})


def volume_name(claim: Body) -> str:
    """Return the name of the volume that a claim is bound to; empty where it is not bound."""
    return str(_mapping(claim.get("spec")).get("volumeName") or "")


def class_name(claim: Body) -> str:
    """Return the name of a claim's storage class; empty where it has none."""
    return str(_mapping(claim.get("spec")).get("storageClassName") or "")


def volume_terms(volume: Body) -> tuple[Term, ...] | None:
    """Return the nodes that can mount a volume; None where all can."""
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
    """Return the nodes for which a class makes volumes; None where it names none, or makes them before any pod."""
    if storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
        return None
    topologies = _list(storage_class.get("allowedTopologies"))
    return tuple(_topology(each) for each in topologies) or None


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
