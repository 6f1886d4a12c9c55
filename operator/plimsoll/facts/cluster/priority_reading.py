"""Priorities of deployments, from the cluster's PriorityClasses, and of pods that only hold a place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plimsoll.domain.cluster.priorities import NO_PRIORITY, Priority
from plimsoll.domain.kubernetes_names import GROUP

Body = Mapping[str, Any]

PREEMPTS = f"{GROUP}/preempts"
"""The annotation of a PriorityClass that lets its deployments ask for the GPUs of lower ones. Only an admin of the
cluster can write it, and it is seen if the class is seen."""


@dataclass(frozen=True, slots=True)
class PriorityClasses:
    """The priorities by the name of their class, and class and priority of pods that name no class; empty for none."""

    by_name: Mapping[str, Priority] = field(default_factory=dict)
    default: Priority = NO_PRIORITY
    default_name: str = ""

    def of(self, name: str | None) -> Priority | None:
        """Return the priority of pods with this class; None if the cluster has no such class.

        Kubernetes makes two classes in every cluster. So if none is known, they cannot be read, and all count as 0.
        Nothing gives way to a class that is not known.
        """
        if not self.by_name:
            return Priority(evicts=False) if name else NO_PRIORITY
        return self.by_name.get(name) if name else self.default


def read_priority_classes(bodies: Iterable[Body]) -> PriorityClasses:
    """Return the priorities of all classes. Of several global defaults the lowest counts, as in Kubernetes."""
    by_name: dict[str, Priority] = {}
    defaults: list[tuple[Priority, str]] = []
    for body in bodies:
        priority = _priority(body)
        by_name[str(body["metadata"]["name"])] = priority
        if body.get("globalDefault") is True:
            defaults.append((priority, str(body["metadata"]["name"])))
    default, name = min(defaults, key=lambda each: each[0].value, default=(NO_PRIORITY, ""))
    return PriorityClasses(by_name, default, name)


def _priority(body: Body) -> Priority:
    value = body.get("value")
    annotations = body["metadata"].get("annotations") or {}
    evicts = body.get("preemptionPolicy") != "Never"
    allowed = annotations.get(PREEMPTS) == "true" and evicts
    return Priority(value if isinstance(value, int) else 0, preempts=allowed, evicts=evicts)


def placeholder_priority(pod: Body) -> int:
    """Return the negative priority of a pod that holds a place for others; 0 for every other pod.

    Such pods are how cluster-autoscaler is made to keep spare nodes: "pods with low (negative) priority"
    (https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md). Pods of ours are none, whatever
    their priority is: no other label begins with our group, and no plan may take the GPUs of what serves.
    """
    priority = (pod.get("spec") or {}).get("priority")
    if not isinstance(priority, int) or priority >= 0:
        return 0
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return 0 if any(str(name).startswith(f"{GROUP}/") for name in labels) else priority
