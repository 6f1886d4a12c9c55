"""A kubelet that rejects every pod of its node, as one does whose GPU is lost. kwok's own kubelet accepts them all."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from testbed.api_client import ApiClient, absence_is_fine
from testbed.background import BackgroundLoop
from testbed.kwok_config import DEPLOYMENT_LABEL

_ROUND_SECONDS = 0.8
"""With this a ReplicaSet makes about a pod a second (measured: 58 in 50 s)."""

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "UnexpectedAdmissionError": "Pod was rejected: Allocate failed due to requested number of devices unavailable "
        "for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected",
        "OutOfnvidia.com/gpu": "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, "
        "used: 8, capacity: 8",
        "OutOfcpu": "Pod was rejected: Node didn't have enough resource: cpu, requested: 8000, used: 5, capacity: 8000",
        "OutOfmemory": "Pod was rejected: Node didn't have enough resource: memory, requested: 8, used: 4, capacity: 8",
        "OutOfpods": "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110",
        "OutOfephemeral-storage": "Pod was rejected: Node didn't have enough resource: ephemeral-storage",
        "TopologyAffinityError": "Pod was rejected: Resources cannot be allocated with Topology locality",
        "SMTAlignmentError": "Pod was rejected: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
        "NodeAffinity": "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node "
        "affinity/selector",
        "TaintToleration": "Pod was rejected: Predicate TaintToleration failed",
        "NodePorts": "Pod was rejected: Predicate NodePorts failed",
        "VolumeAttachmentLimitExceeded": "Pod was rejected: Node has reached its volume attachment limit",
        "AppArmor": "Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host",
        "SysctlForbidden": "Pod was rejected: forbidden sysctl",
        "PodOSNotSupported": "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS",
        "PodOSSelectorNodeLabelDoesNotMatch": "Pod was rejected: the kubernetes.io/os label doesn't match node label",
        "PodFeatureUnsupported": "Pod was rejected: the node does not support a feature of the pod",
        "SupplementalGroupsPolicyNotSupported": "Pod was rejected: SupplementalGroupsPolicy=Strict is not supported",
        "UnexpectedPredicateFailureType": "Pod was rejected: an unexpected failure of a predicate",
        "Evicted": "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi.",
        "Preempting": "Preempted in order to admit critical pod",
        "Terminated": "Pod was terminated in response to imminent node shutdown.",
        "NodeShutdown": "Pod was rejected as the node is shutting down.",
    }
)
"""Reasons of pods that a kubelet ends or does not admit, each with a message like the kubelet's."""


class RejectingKubelet(BackgroundLoop):
    """Ends every engine pod of a node. Use as a context manager.

    Args:
        client: administrator of the control plane.
        node: the node's name.
        reason: one of :data:`REASONS`.
        spares: an InferenceDeployment whose pods it has accepted already.
    """

    def __init__(
        self, client: ApiClient, node: str, reason: str = "UnexpectedAdmissionError", *, spares: str = ""
    ) -> None:
        self._client, self._node, self._reason, self._spares = client, node, reason, spares
        super().__init__(f"testbed-kubelet-{node}", self.reject_once, _ROUND_SECONDS)
        self.rejected: list[str] = []
        """The pods that it has rejected, in order."""

    def reject_once(self) -> None:
        """Reject every engine pod that is bound to the node."""
        for pod in self._client.cached_pods(DEPLOYMENT_LABEL):
            head, is_here = pod["metadata"], pod["spec"].get("nodeName") == self._node
            if head["labels"][DEPLOYMENT_LABEL] == self._spares:
                continue
            if is_here and pod["status"].get("phase") != "Failed" and "deletionTimestamp" not in head:
                self._reject(head["namespace"], head["name"])

    def _reject(self, namespace: str, name: str) -> None:
        status = {
            "phase": "Failed",
            "reason": self._reason,
            "message": REASONS[self._reason],
            "containerStatuses": None,
        }
        with absence_is_fine():
            self._client.merge_patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": status})
            self.rejected.append(name)
