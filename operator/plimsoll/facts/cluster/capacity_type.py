"""Whether a node is spot capacity, by the labels of the clouds and of Karpenter."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.domain.gpus import CapacityType

_SPOT: Mapping[str, frozenset[str]] = {
    "karpenter.sh/capacity-type": frozenset({"spot"}),
    "eks.amazonaws.com/capacityType": frozenset({"spot"}),
    "cloud.google.com/gke-spot": frozenset({"true"}),
    "cloud.google.com/gke-preemptible": frozenset({"true"}),
    "cloud.google.com/gke-provisioning": frozenset({"spot", "preemptible"}),
    "kubernetes.azure.com/scalesetpriority": frozenset({"spot"}),
    "node.kubernetes.io/lifecycle": frozenset({"spot"}),
}
"""The labels and their values that mean spot. EKS writes capital letters. The last label is a custom of node groups
that people make themselves."""


def capacity_type(labels: Mapping[str, str]) -> CapacityType:
    """Return the capacity type of a node. Without such a label a node stays until somebody removes it: on demand.

    Reserved capacity (``karpenter.sh/capacity-type: reserved``) and capacity blocks are not taken back early, so they
    count as on demand.
    """
    spot = any(str(labels.get(name, "")).casefold() in values for name, values in _SPOT.items())
    return CapacityType.SPOT if spot else CapacityType.ON_DEMAND
