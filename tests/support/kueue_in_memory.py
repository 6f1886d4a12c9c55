"""Kueue's work on Deployments and their pods, on an API server in memory.

The behaviour is that of ``deployment_webhook.go``, ``pod_webhook.go`` and ``pod_controller.go`` in
kubernetes-sigs/kueue at ff69552e79: the labels of a Deployment go into its template, a pod with a queue is made behind
a gate, an admitted pod loses the gate, and an evicted pod gets a condition and is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import PODS
from plimsoll.app.watch.store import key_of
from plimsoll.domain.kubernetes_names import QUEUE_LABEL, QUEUE_LABELS
from plimsoll.facts.cluster.host_reading import is_bound
from tests.support.bodies import Body

if TYPE_CHECKING:
    from tests.support.api_in_memory import ApiInMemory

USER = "kueue"
GATES = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
"""Kueue puts the second one there since its topology-aware scheduling is on by default, and takes both away at once."""
MANAGED = {"kueue.x-k8s.io/managed": "true"}
PARENT = {"kueue.x-k8s.io/pod-suspending-parent": "deployment"}
ROLE = {"kueue.x-k8s.io/role-hash": "0123abcd"}

_REFUSED = 403


def queue_of(body: Mapping[str, Any]) -> str:
    """Return the queue that an object names."""
    return str((body["metadata"].get("labels") or {}).get(QUEUE_LABEL) or "")


def defaulted(workload: Body) -> Body:
    """Return a Deployment as the webhook lets it through."""
    labels = workload["metadata"].get("labels") or {}
    copied = {name: labels[name] for name in QUEUE_LABELS if name in labels}
    if not copied:
        return workload
    template = workload["spec"]["template"]
    head = template.get("metadata") or {}
    head = {
        **head,
        "labels": {**(head.get("labels") or {}), **MANAGED, **copied},
        "annotations": {**(head.get("annotations") or {}), **PARENT},
    }
    return {**workload, "spec": {**workload["spec"], "template": {**template, "metadata": head}}}


def check_update(before: Body, after: Body) -> None:
    """Refuse another queue while a pod serves, and the loss of a queue at any time."""
    is_serving = bool((before.get("status") or {}).get("readyReplicas"))
    if queue_of(before) != queue_of(after) and (is_serving or not queue_of(after)):
        raise ClusterRefused("apply deployments", _REFUSED, f"metadata.labels[{QUEUE_LABEL}]: field is immutable")


def gated(pod: Body, now: str) -> Body:
    """Return a new pod as the webhook and the API server let it through."""
    if not PARENT.items() <= (pod["metadata"].get("annotations") or {}).items():
        return pod
    head = {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], **ROLE}}
    waits = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastTransitionTime": now,
    }
    spec = {**pod["spec"], "schedulingGates": [{"name": name} for name in GATES]}
    return {**pod, "metadata": head, "spec": spec, "status": {**pod["status"], "conditions": [waits]}}


def is_gated(pod: Mapping[str, Any]) -> bool:
    """Whether a pod waits behind a gate."""
    return bool(pod["spec"].get("schedulingGates"))


@dataclass
class Kueue:
    """The controller: it admits and evicts pods when a test says so."""

    api: ApiInMemory

    def waiting(self) -> list[Body]:
        """Return the pods that are not admitted."""
        return [pod for pod in self.api.all(PODS) if is_gated(pod)]

    def admit(self, pod: Body) -> None:
        """Open the gates of a pod. Kueue writes the labels of a ResourceFlavor into the pod, too; this one has none."""
        spec = {name: value for name, value in pod["spec"].items() if name != "schedulingGates"}
        self.api.put({**pod, "spec": spec}, USER)

    def admitted(self) -> list[Body]:
        """Return the pods that were admitted and have a node."""
        return [pod for pod in self.api.all(PODS) if queue_of(pod) and is_bound(pod)]

    def evict(self, pod: Body) -> None:
        """End a pod in favour of another workload. Its ReplicaSet makes another one, behind a gate."""
        ended = {"type": "TerminationTarget", "status": "True", "reason": "WorkloadEvictedDueToPreempted"}
        conditions = [*pod["status"]["conditions"], ended]
        self.api.put_status(PODS, key_of(pod), {"conditions": conditions}, USER)
        self.api.delete(PODS, key_of(pod), user=USER)
