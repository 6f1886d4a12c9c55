"""Spot capacity: the labels by which clouds and Karpenter mark it, and the names of GPU types on it.

A GPU on spot nodes is a GPU type of its own, named like the card with ``-spot``: it has another price, and pods that
run on it may lose their node at any time. All that concerns the card goes by the card's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plimsoll.domain.cluster.gpus import CapacityType, GpuType

SPOT_LABELS: Mapping[str, frozenset[str]] = {
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

_SUFFIX = "-spot"


def card_name(gpu_type: str) -> str:
    """Return the name of the card, which is in the catalogue, for a type on capacity of any kind."""
    return gpu_type.removesuffix(_SUFFIX)


def on_spot(gpu_type: str) -> str:
    """Return the name of the card's type on spot nodes."""
    return card_name(gpu_type) + _SUFFIX


def capacity_of(gpu_type: str) -> CapacityType:
    """Return the capacity type that the name of a type says."""
    return CapacityType.ON_DEMAND if gpu_type == card_name(gpu_type) else CapacityType.SPOT


def spot_type(gpu: GpuType) -> GpuType:
    """Return the card's type on spot nodes."""
    return replace(gpu, name=on_spot(gpu.name), capacity=CapacityType.SPOT)
