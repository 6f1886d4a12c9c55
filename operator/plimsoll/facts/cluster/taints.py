"""Taints of nodes: those of their start, and those of nodes that will be drained or taken away soon."""

from __future__ import annotations

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.public_words import NodeReason

_KEYS = frozenset({
    "karpenter.sh/unregistered",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cluster.x-k8s.io/uninitialized",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
})  # fmt: skip
"""``UnregisteredTaintKey`` of Karpenter (``pkg/apis/v1/taints.go``), ``TaintExternalCloudProvider`` of
``k8s.io/cloud-provider/api``, ``NodeUninitializedTaint`` of Cluster API, and Kubernetes' own, which its node
controllers remove (``staging/src/k8s.io/api/core/v1/well_known_taints.go``)."""

STARTUP_PREFIX = "startup-taint.cluster-autoscaler.kubernetes.io/"

_PREFIXES = (
    STARTUP_PREFIX,
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "readiness.k8s.io/",
)
"""``StartupTaintPrefix`` and ``IgnoreTaintPrefix`` of the cluster autoscaler (``utils/taints/taints.go``), and the
prefix that the node readiness controller demands of its taints (kubernetes-sigs/node-readiness-controller)."""

_SUFFIX = "/agent-not-ready"
"""So Cilium (``node.cilium.io/agent-not-ready``) and the CSI drivers (``ebs.csi.aws.com/agent-not-ready``) name the
taint that their agents remove."""


def is_startup_taint(key: str) -> bool:
    """Whether a taint of this key goes by itself when the node has started."""
    return key in _KEYS or key.startswith(_PREFIXES) or key.endswith(_SUFFIX)


DISRUPTION_TAINTS = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "cloud.google.com/impending-node-termination",
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/rebalance-recommendation",
    }
)
"""Keys of taints that say that a node goes: of the cluster autoscaler, Karpenter, GKE and AWS' node termination handler
(the README of each)."""


def leaving_nodes(fleet: Fleet) -> frozenset[str]:
    """Return the names of the nodes that go soon. Their pods may still serve."""
    return frozenset(node.name for node in fleet.ignored if node.reason in (NodeReason.CORDONED, NodeReason.LEAVING))
