"""Everything that one person may see of a cluster at one moment. It never changes.

Parts of a cluster that a person cannot see now, and why.

Whether the operator is at work: when it last looked at all objects, as its Lease says.

A pod that holds GPUs, in short.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from plimsoll.app.election.leadership import LAST_PASS_ANNOTATION
from plimsoll.console.views.rows import Body, DeploymentRow, key_of
from plimsoll.console.views.words import age, clock
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.spot import card_name
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.workload import ENGINE_CONTAINER
from plimsoll.domain.units import from_rfc3339
from plimsoll.facts.cluster.fleet_reading import gpus_held, held_resources
from plimsoll.facts.cluster.pod_reading import read_statuses
from plimsoll.render.names import DEPLOYMENT_LABEL, POOL_LABEL


class GapKind(StrEnum):
    """Why a kind of objects is missing."""

    FORBIDDEN = "Forbidden"
    """The person may not list it."""
    UNREACHABLE = "Unreachable"
    """The API server does not answer: the last state is shown with its age."""
    ABSENT = "Absent"
    """The cluster does not have the kind."""
    LOADING = "Loading"
    """It is read for the first time."""


@dataclass(frozen=True, slots=True)
class KindGap:
    """A kind that is missing or old. ``namespace`` is empty for the whole cluster. ``since`` is in POSIX seconds."""

    kind: str
    reason: GapKind
    since: float
    namespace: str = ""
    message: str = ""
    group: str = ""

    @property
    def sentence(self) -> str:
        """The gap in one sentence, with the missing right if one is missing."""
        where = f"in the namespace {self.namespace}" if self.namespace else "in all namespaces"
        resource = f"{self.kind}.{self.group}" if self.group else self.kind
        match self.reason:
            case GapKind.FORBIDDEN:
                return f"You may not list {resource} {where}. Ask for the verbs list and watch on {resource}."
            case GapKind.ABSENT:
                return f"The cluster has no {resource}. Install or upgrade Plimsoll's chart with its CRDs."
            case GapKind.LOADING:
                return f"The {resource} are being read."
            case GapKind.UNREACHABLE:
                return f"The API server does not answer for {resource}: this is their last state."


SILENT_SECONDS = 150.0
"""An operator makes a pass once a minute at least. Two that are missing, and the time that a long one takes."""


@dataclass(frozen=True, slots=True)
class OperatorSign:
    """The operator's last sign of life.

    Attributes:
        lease: the Lease that was read.
        read_at: when, in POSIX seconds.
        exists: whether there is such a Lease.
        last_pass: when its holder last made a pass, in POSIX seconds; None if the Lease does not say it.
    """

    lease: ObjectKey
    read_at: float
    exists: bool
    last_pass: float | None = None

    @property
    def is_silent(self) -> bool:
        """Whether the last pass was too long ago when the Lease was read. What was not read since is not known."""
        return self.last_pass is not None and self.read_at - self.last_pass > SILENT_SECONDS

    def complaint(self, now: float) -> str:
        """Return what is wrong with the operator at this time (POSIX seconds), and what to do; empty for nothing."""
        if not self.exists:
            return (
                f"There is no sign of an operator: no Lease {self.lease} exists. Nothing is placed and no status "
                "changes until one runs. If it runs under another name, give the console --operator NAMESPACE/NAME."
            )
        if self.last_pass is None or not self.is_silent:
            return ""
        return (
            f"The operator is silent. Its last pass was {age(now - self.last_pass)} ago, {clock(self.last_pass)}, and "
            "decisions and statuses are from then. Engines that run go on without it. Look at its pods: "
            f"kubectl get pods -n {self.lease.namespace}"
        )


def sign_of(lease: ObjectKey, body: Mapping[str, Any] | None, now: float) -> OperatorSign:
    """Return the sign in a Lease; ``body`` is None if there is none.

    An operator that does not mark its passes yet counts by the time at which it renewed the Lease.
    """
    if body is None:
        return OperatorSign(lease, now, exists=False)
    marks = body["metadata"].get("annotations") or {}
    renewed = (body.get("spec") or {}).get("renewTime")
    return OperatorSign(
        lease, now, exists=True, last_pass=from_rfc3339(str(marks.get(LAST_PASS_ANNOTATION) or renewed))
    )


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
        key=key_of(body),
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
    for container in reversed(read_statuses(status)):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting:
            name = container.get("name", ENGINE_CONTAINER)
            whose = "" if name == ENGINE_CONTAINER else f"container {name}"
            return ": ".join(str(part) for part in (whose, waiting.get("reason"), waiting.get("message")) if part)
    return ""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A person's view of a cluster.

    Attributes:
        revision: grows with every change.
        heard: when the API server last answered, in POSIX seconds; 0 before its first answer.
        rows: the InferenceDeployments in short.
        pods: pods that hold GPUs, and our own.
        fleet: the GPU nodes; None if the person may not list nodes, or if they have not been read yet.
        proposals: the PlacementProposals.
        gaps: what is missing or old.
        namespaces: the namespaces that are shown; empty for all.
        operator: the operator's last sign of life; None if the person may not read its Lease.
    """

    revision: int = 0
    heard: float = 0.0
    rows: Mapping[ObjectKey, DeploymentRow] = field(default_factory=lambda: MappingProxyType({}))
    pods: tuple[PodRow, ...] = ()
    fleet: Fleet | None = None
    proposals: tuple[Body, ...] = ()
    gaps: tuple[KindGap, ...] = ()
    namespaces: tuple[str, ...] = ()
    operator: OperatorSign | None = None

    @property
    def is_loading(self) -> bool:
        """Whether something is read for the first time."""
        return any(gap.reason is GapKind.LOADING for gap in self.gaps)

    @property
    def is_stale(self) -> bool:
        """Whether the API server does not answer for some kind."""
        return any(gap.reason is GapKind.UNREACHABLE for gap in self.gaps)

    @property
    def gpu_types(self) -> frozenset[str]:
        """The names of the cluster's GPU types; without the right to list nodes, of those that deployments are on."""
        if self.fleet is not None:
            return frozenset(card_name(gpu.name) for gpu in self.fleet.gpu_types())
        return frozenset(card_name(pool.gpu_type) for row in self.rows.values() for pool in row.pools)

    def gap_of(self, kind: str) -> KindGap | None:
        """Return the first gap of a kind of objects, by its plural."""
        return next((gap for gap in self.gaps if gap.kind == kind), None)
