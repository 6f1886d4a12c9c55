"""Whether a node is spot capacity, by the labels of the clouds and of Karpenter."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.domain.gpus import CapacityType
from plimsoll.domain.spot import SPOT_LABELS


def capacity_type(labels: Mapping[str, str]) -> CapacityType:
    """Return the capacity type of a node. Without such a label a node stays until somebody removes it: on demand.

    Reserved capacity (``karpenter.sh/capacity-type: reserved``) and capacity blocks are not taken back early, so they
    count as on demand.
    """
    spot = any(str(labels.get(name, "")).casefold() in values for name, values in SPOT_LABELS.items())
    return CapacityType.SPOT if spot else CapacityType.ON_DEMAND
