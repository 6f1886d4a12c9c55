"""The cluster's GPUs as one snapshot: all GPUs, the GPUs that pods hold, and the free GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from plimsoll.domain.cluster.gpus import CapacityType, GpuType
from plimsoll.domain.cluster.host import DISK, UNKNOWN_HOST, Amounts, HostRoom, times
from plimsoll.domain.cluster.node_rules import DISK_FIELD, NAME_FIELD, NodeRule
from plimsoll.domain.cluster.spot import card_name, on_spot
from plimsoll.domain.public_words import NodeReason


class Taint(NamedTuple):
    """A node's taint. ``value`` is empty if the node sets none."""

    key: str
    value: str
    effect: str

    @property
    def words(self) -> str:
        """The taint as ``kubectl`` writes it: ``dedicated=gpu:NoSchedule``."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(NamedTuple):
    """A pod's toleration, with Kubernetes' defaults filled in (``operator`` Equal or Exists)."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether the taint is tolerated, by the rule of Kubernetes.

        An empty key with Exists matches all taints, and an empty effect matches every effect.
        """
        if self.effect and self.effect != taint.effect:
            return False
        if not self.key:
            return self.operator == "Exists"
        if self.key != taint.key:
            return False
        return self.operator == "Exists" or self.value == taint.value


class Placeholders(NamedTuple):
    """The GPUs, CPU in thousandths, bytes, pods and others that pods of one negative priority hold of a node.

    They hold it for pods of a higher priority, for which the scheduler ends them.
    """

    priority: int
    gpus: int
    cpu_millis: int = 0
    memory_bytes: int = 0
    pods: int = 0
    others: Amounts = ()


@dataclass(frozen=True, slots=True)
class GpuNode:
    """One node with one kind of GPU. A node with whole GPUs and slices of others has one entry for each resource.

    ``allocatable`` and ``held`` count GPUs of ``resource``. ``held`` sums over *all* pods that are bound to the node
    and have not ended, whoever created them. ``selector`` is the node label ``(key, value)`` that selects nodes of this
    class. ``host`` is what the node offers other than GPUs. ``host_free`` is the part of it that those pods leave free.
    ``capacity_type`` says whether the cloud may take the node back. ``since`` is when the node was made, in POSIX
    seconds; None if that is not known. ``unhealthy`` counts the GPUs that the node has and does not offer, because
    its device plugin reports them as unhealthy. ``placeholders`` are the parts of ``held`` that give way, and
    ``claimed`` is the part that no pod requests: ResourceClaims hold it through another driver of the same GPUs.
    ``driver`` is the branch of its NVIDIA driver; None if that is not known.
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
    account: str = field(init=False, repr=False, compare=False)
    """The ledger key of its GPUs: the node's name, and for slices also the resource, separate from whole GPUs."""
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    since: float | None = None
    unhealthy: int = 0
    placeholders: tuple[Placeholders, ...] = ()
    claimed: int = 0
    driver: int | None = None

    def __post_init__(self) -> None:
        # A pass reads it about a million times, so it is made once.
        account = f"{self.name}/{self.resource}" if self.gpu.is_slice else self.name
        object.__setattr__(self, "account", account)

    @property
    def free(self) -> int:
        """The number of GPUs that no pod holds. Never below zero, even if the cluster reports too many held GPUs."""
        return max(0, self.allocatable - self.held)

    @property
    def disk_bytes(self) -> int | None:
        """The bytes of its disk for all its pods together; None if it does not report them."""
        return next((amount for name, amount in self.host.others or () if name == DISK), None)

    def for_pods_of(self, priority: int) -> GpuNode:
        """Return the node without the placeholders that give way to pods of this priority."""
        lower = [each for each in self.placeholders if each.priority < priority]
        if not lower:
            return self
        free = self.host_free
        for each in lower:
            free = free.less(-each.cpu_millis, -each.memory_bytes, -each.pods, times(each.others, -1))
        left = tuple(each for each in self.placeholders if each.priority >= priority)
        return replace(self, held=self.held - sum(each.gpus for each in lower), host_free=free, placeholders=left)


@dataclass(frozen=True, slots=True)
class IgnoredNode:
    """A node that has or should have GPUs but is not used for placement, with the reason.

    ``gpus`` is how many GPUs, slices or other devices it offers. ``since`` is when the node was made, in POSIX seconds;
    None if that is not known. ``driver`` is the DRA driver that publishes them if no node counts them.
    """

    name: str
    reason: NodeReason
    detail: str = ""
    gpus: int = 0
    since: float | None = None
    driver: str = ""


class Weakest(NamedTuple):
    """The smallest disk of any node, in bytes, and the oldest branch of NVIDIA's driver; None if no node says."""

    disk_bytes: int | None = None
    driver: int | None = None


UNKNOWN_NODES = Weakest()

Answer = TypeVar("Answer")

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
"""The taint effects that keep pods off a node. PreferNoSchedule is only a preference."""

Layout = tuple[object, ...]
"""A fleet without what its pods hold."""

_OF_PODS = ("held", "host_free", "placeholders", "claimed", "account")

_what_nodes_offer = attrgetter(*(each.name for each in fields(GpuNode) if each.name not in _OF_PODS))

Labels = tuple[tuple[str, str], ...]


class Where(NamedTuple):
    """The nodes on which pods may run.

    They have all ``labels``, they follow all ``rules``, and ``tolerations`` are for their taints.
    """

    labels: Labels = ()
    tolerations: tuple[Toleration, ...] = ()
    rules: tuple[NodeRule, ...] = ()


@dataclass(frozen=True)
class Fleet:
    """All GPU nodes of the cluster at one moment. ``nodes`` can take pods; ``ignored`` cannot, and hold the reason.

    A fleet never changes, so each answer is computed once. (It has no slots, because the answers are cached in it.)
    """

    nodes: tuple[GpuNode, ...] = ()
    ignored: tuple[IgnoredNode, ...] = field(default=())

    def gpu_types(self) -> tuple[GpuType, ...]:
        """Return the different types, by name. If nodes of one type differ in memory, the smallest one counts."""
        return self._gpu_types

    def of_type(self, name: str) -> tuple[GpuNode, ...]:
        """Return the nodes with GPUs of that type. If the card is on spot nodes alone, its name means these."""
        return self._by_type.get(name) or self._by_type.get(on_spot(name), ())

    def named(self, name: str) -> GpuType | None:
        """Return the type of that name, or of its card on spot nodes; None if the fleet has neither."""
        return self._by_name.get(name) or self._by_name.get(on_spot(name))

    def has_both_capacities(self, gpu_type: str) -> bool:
        """Whether the card of a type is on nodes on demand and on spot nodes."""
        card = card_name(gpu_type)
        return card in self._by_type and on_spot(card) in self._by_type

    def labels_of(self, gpu_type: str) -> tuple[tuple[str, str], ...]:
        """Return the labels that select nodes of the type: the one of the most nodes first, then the others, sorted.

        A label that nodes of another type have too is left out if there is a better one.
        """
        return self._labels[gpu_type if gpu_type in self._labels else on_spot(gpu_type)]

    def accepting(self, gpu_type: str, where: Where) -> tuple[GpuNode, ...]:
        """Return the type's nodes on which the pods may run."""
        return self.once(("accepting", gpu_type, where), lambda: self._find_accepting(gpu_type, where))

    def accepting_unhealthy(self, gpu_type: str, where: Where) -> tuple[GpuNode, ...]:
        """Return those of these nodes with GPUs that are unhealthy."""
        return self.once(
            ("accepting, unhealthy", gpu_type, where),
            lambda: tuple(node for node in self.accepting(gpu_type, where) if node.unhealthy),
        )

    def most_gpus(self, gpu_type: str, where: Where) -> int | None:
        """Return the most GPUs that one engine can have on one of those nodes; None without a node.

        GPUs in use count like free ones. Slices of a GPU cannot work together.
        """
        return self.once(("most GPUs", gpu_type, where), lambda: self._find_most_gpus(gpu_type, where))

    @cached_property
    def weakest(self) -> Weakest:
        """The least that any node has. Rules about disks and drivers matter if it is too little for a deployment."""
        disks = [size for node in self.nodes if (size := node.disk_bytes) is not None]
        drivers = [node.driver for node in self.nodes if node.driver is not None]
        return Weakest(min(disks, default=None), min(drivers, default=None))

    @cached_property
    def claimed(self) -> tuple[GpuNode, ...]:
        """The nodes with GPUs that ResourceClaims hold."""
        return tuple(node for node in self.nodes if node.claimed)

    @cached_property
    def unhealthy(self) -> tuple[GpuNode, ...]:
        """The nodes with GPUs that are unhealthy, and others that work."""
        return tuple(node for node in self.nodes if node.unhealthy)

    def once(self, question: Hashable, find: Callable[[], Answer]) -> Answer:
        """Return the answer to a question about the fleet. Each answer is computed once.

        ``question`` holds everything else that the answer depends on.
        """
        if question not in self._answers:
            self._answers[question] = find()
        answer: Answer = self._answers[question]
        return answer

    def with_nodes(self, nodes: Iterable[GpuNode]) -> Fleet:
        """Return the same fleet with other nodes, in a stable order."""
        return replace(self, nodes=tuple(sorted(nodes, key=lambda node: node.name)))

    def for_pods_of(self, priority: int) -> Fleet:
        """Return the fleet without the placeholders that give way to pods of this priority."""
        if not any(node.placeholders for node in self.nodes):
            return self
        return self.once(
            ("for pods of", priority),
            lambda: replace(self, nodes=tuple(node.for_pods_of(priority) for node in self.nodes)),
        )

    @cached_property
    def emptied(self) -> Fleet:
        """The same nodes with nothing running."""
        return self.with_nodes(
            replace(node, held=0, host_free=node.host, placeholders=(), claimed=0) for node in self.nodes
        )

    @cached_property
    def layout(self) -> Layout:
        """Everything about the fleet except what pods hold. Fleets with equal layouts allow the same placements."""
        return (tuple(_what_nodes_offer(node) for node in self.nodes), *self._others)

    @cached_property
    def _others(self) -> tuple[object, ...]:
        return tuple(getattr(self, each.name) for each in fields(self) if each.name != "nodes")

    def has_layout_of(self, other: Fleet, layout: Layout) -> bool:
        """Whether its layout equals that of another fleet. Nodes that are the same objects need no comparison."""
        both = zip(self.nodes, other.nodes, layout[0], strict=False)  # type: ignore[call-overload] # the nodes of it
        return (
            len(self.nodes) == len(other.nodes)
            and self._others == other._others
            and all(mine is its or _what_nodes_offer(mine) == offered for mine, its, offered in both)
        )

    @cached_property
    def _gpu_types(self) -> tuple[GpuType, ...]:
        smallest: dict[str, GpuType] = {}
        for node in self.nodes:
            seen = smallest.get(node.gpu.name)
            if seen is None or node.gpu.usable_bytes < seen.usable_bytes:
                smallest[node.gpu.name] = node.gpu
        return tuple(smallest[name] for name in sorted(smallest))

    @cached_property
    def _by_name(self) -> Mapping[str, GpuType]:
        return {gpu.name: gpu for gpu in self._gpu_types}

    @cached_property
    def _by_type(self) -> Mapping[str, tuple[GpuNode, ...]]:
        found: dict[str, list[GpuNode]] = {}
        for node in self.nodes:
            found.setdefault(node.gpu.name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def _labels(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        counts = {name: Counter(node.selector for node in nodes) for name, nodes in self._by_type.items()}
        types: dict[tuple[str, str], set[str]] = {}
        for name, counted in counts.items():
            for label in counted:
                types.setdefault(label, set()).add(card_name(name))
        found = {}
        for name, counted in counts.items():
            own = [label for label in counted if len(types[label]) == 1] or list(counted)
            first = min(own, key=lambda label: (-counted[label], label))
            found[name] = (first, *sorted(label for label in own if label != first))
        return found

    @cached_property
    def _label_sets(self) -> Mapping[str, frozenset[tuple[str, str]]]:
        return {node.account: frozenset(node.labels) for node in self.nodes}

    @cached_property
    def _answers(self) -> dict[Hashable, Any]:
        return {}

    def _find_most_gpus(self, gpu_type: str, where: Where) -> int | None:
        nodes = self.accepting(gpu_type, where)
        return max((1 if node.gpu.is_slice else node.allocatable for node in nodes), default=None)

    def _find_accepting(self, gpu_type: str, where: Where) -> tuple[GpuNode, ...]:
        nodes = self.of_type(gpu_type)
        if where.labels:
            nodes = tuple(node for node in nodes if self._label_sets[node.account].issuperset(where.labels))
        tolerated = {taints: not untolerated(taints, where.tolerations) for taints in {node.taints for node in nodes}}
        nodes = tuple(node for node in nodes if tolerated[node.taints])
        return tuple(node for node in nodes if follows(node, where.rules)) if where.rules else nodes


def follows(node: GpuNode, rules: tuple[NodeRule, ...]) -> bool:
    """Whether a node follows all rules."""
    labels = {**dict(node.labels), NAME_FIELD: node.name}
    if node.disk_bytes is not None:
        labels[DISK_FIELD] = str(node.disk_bytes)
    return all(rule.accepts(labels) for rule in rules)


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> tuple[Taint, ...]:
    """Return the taints that keep pods with these tolerations off a node."""
    blocking = (taint for taint in taints if taint.effect in BLOCKING_EFFECTS)
    allowed = tuple(tolerations)
    return tuple(taint for taint in blocking if not any(each.tolerates(taint) for each in allowed))
