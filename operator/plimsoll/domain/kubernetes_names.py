"""Names of Kubernetes: group, version and kind of our API, keys of objects, labels of Kueue, and resources of quotas.

Group, version and kind are defined only here; code, chart and docs use them. Keys are values instead of joined strings.

The names under which a ResourceQuota limits the CPU and memory of pods, and their number.
Amounts of CPU are in thousandths of a core, and amounts of memory in bytes. GPUs have the names of their resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

GROUP = "plimsoll.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceDeployment"
PLURAL = "inferencedeployments"
SHORT_NAME = "infd"
CATEGORY = "inference"

PROPOSAL_KIND, PROPOSAL_PLURAL, PROPOSAL_SHORT_NAME = "PlacementProposal", "placementproposals", "pprop"
APPROVAL_KIND, APPROVAL_PLURAL, APPROVAL_SHORT_NAME = "PlacementApproval", "placementapprovals", "pappr"
SNAPSHOT_KIND = "PlimsollFleetSnapshot"
"""The kind of the file of ``plimsoll fleet export``. It is no kind of the API."""


class ObjectKey(NamedTuple):
    """A namespaced object of one kind. A tuple, because every pass looks thousands of them up."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""The LocalQueue (``pkg/controller/constants/constants.go`` in kubernetes-sigs/kueue at ff69552e79)."""

QUEUE_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""The WorkloadPriorityClass (same source)."""

QUEUE_LABELS = (QUEUE_LABEL, QUEUE_PRIORITY_LABEL)


def queue_labels(labels: object) -> dict[str, str]:
    """Return Kueue's labels among the labels of an object, which may be anything that somebody wrote."""
    if not isinstance(labels, Mapping):
        return {}
    return {name: labels[name] for name in QUEUE_LABELS if isinstance(labels.get(name), str) and labels[name]}


CPU_REQUESTS = "requests.cpu"
MEMORY_REQUESTS = "requests.memory"
CPU_LIMITS = "limits.cpu"
MEMORY_LIMITS = "limits.memory"

OF_CPU = frozenset({CPU_REQUESTS, CPU_LIMITS})
OF_MEMORY = frozenset({MEMORY_REQUESTS, MEMORY_LIMITS})

PODS = "pods"
"""Pods that have not ended."""

ALL_PODS = "count/pods"
"""Pods, with those that have ended and are still there."""

OF_PODS = frozenset({PODS, ALL_PODS})
