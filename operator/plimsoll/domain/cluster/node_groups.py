"""Groups of nodes that can grow: GPUs that a cluster does not have and could get, at a price."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from plimsoll.domain.cluster.fleet import Fleet, GpuNode, Labels, Taint
from plimsoll.domain.cluster.gpus import CapacityType, GpuType
from plimsoll.domain.cluster.host import UNKNOWN_HOST, HostRoom
from plimsoll.domain.cluster.spot import card_name


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of one kind that somebody or an autoscaler can add.

    Each has ``gpus`` GPUs of type ``gpu``, with the price in force. ``most_gpus`` is the most that all nodes of the
    group may have together; None sets no limit. ``members`` are the labels by which its nodes are counted; without any,
    nodes with as many GPUs of that type count. ``labels``, ``taints`` and ``host`` are those of a new node.
    ``most_usd_per_hour`` is what all nodes of the group together may cost if pods wait for new ones, so that its
    autoscaler starts them; None: no pod waits for it.
    """

    name: str
    gpu: GpuType
    resource: str
    gpus: int
    most_gpus: int | None = None
    host: HostRoom = UNKNOWN_HOST
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    members: Labels = ()
    most_usd_per_hour: Decimal | None = None

    @property
    def usd_per_hour(self) -> Decimal | None:
        """US dollars an hour for one node; None if the type has no price."""
        price = self.gpu.price_in_force
        return None if price is None else price.usd_per_hour * self.gpus

    def node(self) -> GpuNode:
        """Return a new node of the group."""
        return GpuNode(
            name=self.name,
            gpu=self.gpu,
            resource=self.resource,
            selector=("", ""),
            allocatable=self.gpus,
            held=0,
            labels=(*self.gpu.own_labels, *self.labels),
            taints=self.taints,
            host=self.host,
            host_free=self.host,
            capacity_type=self.gpu.capacity,
        )

    def nodes_left(self, fleet: Fleet) -> int | None:
        """Return how many nodes may still be added; None without a limit."""
        if self.most_gpus is None:
            return None
        present = sum(node.allocatable for node in fleet.nodes if self.has(node))
        return max(0, self.most_gpus - present) // self.gpus

    def nodes_to_wake(self, fleet: Fleet, awaited: int) -> int:
        """Return how many more nodes pods may wait for, when ``awaited`` nodes are waited for already."""
        price, most = self.usd_per_hour, self.most_usd_per_hour
        if most is None or price is None:
            return 0
        present = sum(self.has(node) for node in fleet.nodes)
        affordable = int(most // price) - present - awaited if price else 0
        left = self.nodes_left(fleet)
        return max(0, affordable if left is None else min(affordable, left - awaited))

    def own_label(self, fleet: Fleet) -> tuple[str, str] | None:
        """Return a label of its nodes that no node with other GPUs has; None without one."""
        card = card_name(self.gpu.name)
        taken = {label for node in fleet.nodes if card_name(node.gpu.name) != card for label in node.labels}
        return next((label for label in self.labels if label not in taken), None)

    def has(self, node: GpuNode) -> bool:
        """Whether a node of the cluster is one of the group."""
        if self.members:
            return set(self.members) <= set(node.labels)
        alike = (card_name(node.gpu.name), node.allocatable) == (card_name(self.gpu.name), self.gpus)
        return alike and (node.capacity_type is CapacityType.SPOT) == (self.gpu.capacity is CapacityType.SPOT)
