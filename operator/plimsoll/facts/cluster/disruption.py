"""Nodes that will be drained or taken away soon: cordoned ones, and those that a controller has tainted for it."""

from __future__ import annotations

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.reasons import NodeReason

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
    cordoned = {node.name for node in fleet.ignored if node.reason is NodeReason.CORDONED}
    tainted = {node.name for node in fleet.nodes if any(taint.key in DISRUPTION_TAINTS for taint in node.taints)}
    return frozenset(cordoned | tainted)
