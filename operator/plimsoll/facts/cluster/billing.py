"""Whether the dollars of a node end with its use: what the admin says, or what the cluster shows.

A node that somebody removes when nothing runs on it costs its price only while it is used. Any other node is paid for
whoever uses it, so that an idle GPU there costs nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.gpus import Billing, CapacityType
from plimsoll.domain.cluster.node_groups import NodeGroup

AUTOSCALED_LABELS = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name", "eks.amazonaws.com/compute-type")
"""Labels of nodes that Karpenter, its releases before 0.32, or EKS Auto Mode made: each of them removes empty nodes."""


RESERVED = {
    "karpenter.sh/capacity-type": "reserved",
    "eks.amazonaws.com/capacityType": "capacity_block",
    "cloud.google.com/gke-provisioning": "reservation",
}
"""Labels and values, in small letters, of capacity that is paid for until its term ends."""


def with_billing(fleet: Fleet, groups: Iterable[NodeGroup], declared: Billing | None) -> Fleet:
    """Return the fleet with the billing of each GPU type.

    Args:
        fleet: the nodes.
        groups: the groups that can grow. What grows by itself shrinks by itself.
        declared: what the admin says of all nodes; None: each type is judged by its nodes.
    """
    known = tuple(groups)
    return fleet.once(("billing", known, declared), lambda: _with_billing(fleet, known, declared))


def _with_billing(fleet: Fleet, groups: tuple[NodeGroup, ...], declared: Billing | None) -> Fleet:
    billed = {gpu.name: declared or _of_type(fleet.of_type(gpu.name), groups) for gpu in fleet.gpu_types()}
    if all(each is Billing.ON_DEMAND for each in billed.values()):
        return fleet
    return replace(fleet, nodes=tuple(_billed(node, billed) for node in fleet.nodes))


def _billed(node: GpuNode, billed: Mapping[str, Billing]) -> GpuNode:
    return replace(node, gpu=replace(node.gpu, billing=billed[node.gpu.name]))


def _of_type(nodes: Iterable[GpuNode], groups: tuple[NodeGroup, ...]) -> Billing:
    """Return the billing of a type. If only some of its nodes are removed when they are empty, it counts as all."""
    return Billing.ON_DEMAND if any(_comes_and_goes(node, groups) for node in nodes) else Billing.ASSUMED_OWNED


def _comes_and_goes(node: GpuNode, groups: tuple[NodeGroup, ...]) -> bool:
    labels = dict(node.labels)
    if any(labels.get(name, "").casefold() == value for name, value in RESERVED.items()):
        return False
    return (
        node.capacity_type is CapacityType.SPOT
        or any(labels.get(name) for name in AUTOSCALED_LABELS)
        or any(group.has(node) for group in groups)
    )
