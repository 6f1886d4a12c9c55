"""A pod that holds GPUs, in short."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.times import from_rfc3339
from plimsoll.facts.cluster.fleet_reading import gpus_held, held_resources
from plimsoll.render.names import DEPLOYMENT_LABEL, POOL_LABEL

Body = Mapping[str, Any]

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod that holds or asks for GPUs.

    ``gpus`` has the number by resource. ``deployment`` and ``pool`` are empty for pods of others. ``node`` is empty
    while the pod waits for one.
    """

    key: ObjectKey
    node: str
    gpus: tuple[tuple[str, int], ...]
    phase: str
    is_ready: bool = False
    deployment: str = ""
    pool: str = ""
    created: float | None = None
    waits_for: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether the pod serves an InferenceDeployment."""
        return bool(self.deployment)

    @property
    def owner(self) -> ObjectKey:
        """The InferenceDeployment that the pod serves."""
        return ObjectKey(self.key.namespace, self.deployment)

    def holds(self, resource: str) -> int:
        """Return how many GPUs of a resource the pod holds."""
        return dict(self.gpus).get(resource, 0)


def pod_of(body: Body) -> PodRow | None:
    """Return a pod in short; None for a pod that has ended, or that neither holds GPUs nor is ours."""
    head, status = body["metadata"], body.get("status") or {}
    labels = head.get("labels") or {}
    gpus = tuple((each, gpus_held(body, each)) for each in sorted(held_resources(body)))
    phase = str(status.get("phase") or "")
    if phase in ENDED or not (gpus or DEPLOYMENT_LABEL in labels):
        return None
    conditions = {str(each.get("type")): each for each in status.get("conditions") or ()}
    return PodRow(
        key=ObjectKey(str(head.get("namespace") or ""), str(head["name"])),
        node=str((body.get("spec") or {}).get("nodeName") or ""),
        gpus=gpus,
        phase=phase,
        is_ready=(conditions.get("Ready") or {}).get("status") == "True",
        deployment=str(labels.get(DEPLOYMENT_LABEL) or ""),
        pool=str(labels.get(POOL_LABEL) or ""),
        created=from_rfc3339(str(head.get("creationTimestamp") or "")),
        waits_for=_waits_for(conditions, status),
    )


def _waits_for(conditions: Mapping[str, Body], status: Body) -> str:
    """Return what a pod waits for: the scheduler's message, or what a container says."""
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "")
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting:
            return ": ".join(str(part) for part in (waiting.get("reason"), waiting.get("message")) if part)
    return ""
