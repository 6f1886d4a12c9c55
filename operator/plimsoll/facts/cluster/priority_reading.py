"""Priorities of deployments, from the cluster's PriorityClasses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plimsoll.domain.cluster.priorities import NO_PRIORITY, Priority
from plimsoll.domain.kubernetes_names import GROUP

Body = Mapping[str, Any]

PREEMPTS = f"{GROUP}/preempts"
"""The annotation of a PriorityClass that lets its deployments ask for the GPUs of lower ones. Only an admin of the
cluster can write it, and it is seen where the class is seen."""


@dataclass(frozen=True, slots=True)
class PriorityClasses:
    """The priorities by the name of their class, and class and priority of pods that name no class; empty for none."""

    by_name: Mapping[str, Priority] = field(default_factory=dict)
    default: Priority = NO_PRIORITY
    default_name: str = ""

    def of(self, name: str | None) -> Priority | None:
        """Return the priority of pods with this class; None where the cluster has no such class.

        Kubernetes makes two classes in every cluster. So where none is known, they cannot be read, and all count as 0.
        """
        if not self.by_name:
            return NO_PRIORITY
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
    allowed = annotations.get(PREEMPTS) == "true" and body.get("preemptionPolicy") != "Never"
    return Priority(value if isinstance(value, int) else 0, preempts=allowed)
