"""The cluster's GPUs as one snapshot: what is there, who holds it, what is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.host import UNKNOWN_HOST, HostRoom
from plimsoll.domain.reasons import NodeReason


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint; ``value`` is empty where the node gives none."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration, with Kubernetes' defaults filled in (``operator`` Equal or Exists)."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Kubernetes' rule: an empty key with Exists matches all, an empty effect matches every effect."""
        if self.effect and self.effect != taint.effect:
            return False
        if not self.key:
            return self.operator == "Exists"
        if self.key != taint.key:
            return False
        return self.operator == "Exists" or self.value == taint.value


@dataclass(frozen=True, slots=True)
class GpuNode:
    """One node with one kind of GPU; a node with whole GPUs and slices of others is told once for each resource.

    ``allocatable`` and ``held`` count GPUs of ``resource``; ``held`` sums over *all* pods bound to the node that have
    not ended, whoever made them. ``selector`` is the node label ``(key, value)`` that picks nodes of this class.
    ``host`` is what the node offers beside GPUs, ``host_free`` what those same pods leave of it.
    """

    name: str
    gpu: GpuType
    resource: str
    selector: tuple[str, str]
    allocatable: int
    held: int
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    host: HostRoom = UNKNOWN_HOST
    host_free: HostRoom = UNKNOWN_HOST

    @property
    def account(self) -> str:
        """What its GPUs are booked under: the node, and for slices their resource, which whole GPUs do not share."""
        return f"{self.name}/{self.resource}" if self.gpu.is_slice else self.name

    @property
    def free(self) -> int:
        """GPUs nobody holds; never below zero, whatever the cluster claims."""
        return max(0, self.allocatable - self.held)


@dataclass(frozen=True, slots=True)
class IgnoredNode:
    """A node that has or should have GPUs and takes no part in placement, with the reason."""

    name: str
    reason: NodeReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every GPU node of the cluster at one moment; ``nodes`` can take pods, ``ignored`` cannot and say why."""

    nodes: tuple[GpuNode, ...] = ()
    ignored: tuple[IgnoredNode, ...] = field(default=())

    def gpu_types(self) -> tuple[GpuType, ...]:
        """The distinct types, by name. Where nodes of one type differ in memory, the smallest speaks for the type."""
        smallest: dict[str, GpuType] = {}
        for node in self.nodes:
            seen = smallest.get(node.gpu.name)
            if seen is None or node.gpu.usable_bytes < seen.usable_bytes:
                smallest[node.gpu.name] = node.gpu
        return tuple(smallest[name] for name in sorted(smallest))

    def of_type(self, name: str) -> tuple[GpuNode, ...]:
        """The nodes with GPUs of that type."""
        return tuple(node for node in self.nodes if node.gpu.name == name)

    def with_nodes(self, nodes: Iterable[GpuNode]) -> Fleet:
        """The same fleet with other nodes, in a stable order."""
        return replace(self, nodes=tuple(sorted(nodes, key=lambda node: node.name)))
