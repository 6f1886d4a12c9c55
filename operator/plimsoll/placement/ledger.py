"""The ledger of free GPUs, and what one replica or one award takes from it and from its namespace's quotas.

Queries never change a ledger; :meth:`Ledger.take` returns a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.host import NO_HOST_NEED, UNKNOWN_HOST, Amounts, HostNeed, HostRoom, times
from plimsoll.domain.cluster.quota_accounts import is_counted, resource_in, spot_account
from plimsoll.domain.decisions.outcomes import Option, ReplicaShape
from plimsoll.domain.kubernetes_names import ALL_PODS, CPU_LIMITS, CPU_REQUESTS, MEMORY_LIMITS, MEMORY_REQUESTS, PODS
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.options.candidates import Candidate
from plimsoll.placement.options.nodes import host_need

Answer = TypeVar("Answer")

Quotas = Mapping[str, Mapping[str, int]]
"""Amounts that a namespace may still take, by namespace and account. A missing entry means no limit. An amount is
negative if a limit was lowered below what is taken, or if pods that were promised go beyond it.

:mod:`plimsoll.domain.cluster.quota_accounts` has the accounts. GPUs are counted by the name of their resource.
:mod:`plimsoll.domain.kubernetes_names` has the names and units of CPU,
memory and pods.
"""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The resources left after all bound pods and all promises of this pass.

    ``free`` counts GPUs per account of a node. ``hosts`` holds the other resources of each node, by the node's name;
    all accounts of a node share them. ``quota`` holds what namespaces may still take of GPUs, CPU, memory
    and pods.
    """

    free: Mapping[str, int]
    hosts: Mapping[str, HostRoom] = field(default_factory=dict)
    quota: Quotas = field(default_factory=dict)
    _known: dict[tuple[object, ...], tuple[tuple[GpuNode, ...], object]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Cached answers about nodes; quotas do not change them. The nodes are kept too, so that no others get their id."""

    @staticmethod
    def of(fleet: Fleet, quota: Quotas | None = None) -> Ledger:
        """Return the ledger before any promise: allocatable resources minus those that pods hold."""
        return Ledger(
            {node.account: node.free for node in fleet.nodes},
            {node.name: node.host_free for node in fleet.nodes if node.host_free.is_bounded},
            quota or {},
        )

    def room_for(
        self,
        nodes: tuple[GpuNode, ...],
        shape: ReplicaShape,
        need: HostNeed = NO_HOST_NEED,
        *,
        enough: int | None = None,
    ) -> int:
        """Return how many replicas still fit on these nodes, each pod whole on one node. ``need`` is that of a pod.

        The count stops at ``enough``, so that not all nodes are read if much room is left.
        """
        return self.once("room", nodes, (shape, need, enough), lambda: self._count_room(nodes, shape, need, enough))

    def has_room(self, nodes: tuple[GpuNode, ...], shape: ReplicaShape, need: HostNeed = NO_HOST_NEED) -> bool:
        """Whether these nodes have room for one replica."""
        return self.room_for(nodes, shape, need, enough=1) > 0

    def largest(self, nodes: tuple[GpuNode, ...]) -> int:
        """Return the most free GPUs on any one of these nodes."""
        return self.once("largest", nodes, (), lambda: max((self.free[node.account] for node in nodes), default=0))

    def hosts_with(self, nodes: tuple[GpuNode, ...], gpus: int) -> list[tuple[GpuNode, HostRoom]]:
        """Return the nodes with at least ``gpus`` free GPUs, each with its other free resources."""
        return [(node, self.hosts.get(node.name, UNKNOWN_HOST)) for node in nodes if self.free[node.account] >= gpus]

    def once(
        self, question: str, nodes: tuple[GpuNode, ...], about: tuple[object, ...], find: Callable[[], Answer]
    ) -> Answer:
        """Return the answer to a question about the free resources of these nodes. Each answer is computed once."""
        key = (question, id(nodes), *about)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = nodes, find()
        answer: Answer = known[1]  # type: ignore[assignment]
        return answer

    def take(
        self, nodes: tuple[GpuNode, ...], shape: ReplicaShape, replicas: int, need: HostNeed = NO_HOST_NEED
    ) -> Ledger:
        """Promise GPUs for ``replicas`` replicas. The node with the fewest free GPUs comes first, then by name.

        Raises:
            ValueError: these nodes have no room for that many; call :meth:`room_for` first.
        """
        if replicas <= 0:
            return self
        free, hosts, left, gpus = dict(self.free), dict(self.hosts), shape.pods_of(replicas), shape.gpus_per_pod
        roomy = [node for node in nodes if free[node.account] >= gpus]
        # The node with the fewest free GPUs keeps that rank while it is filled, so one ordered pass is enough.
        for node in sorted(roomy, key=lambda node: (self.free[node.account], node.account)):
            taken = min(left, self._room_on(node, gpus, need))
            if taken == 0:
                continue
            free[node.account] -= taken * gpus
            if node.name in hosts:
                hosts[node.name] = hosts[node.name].without(need, taken)
            left -= taken
            if left == 0:
                return Ledger(free, hosts, self.quota)
        raise ValueError(f"over-committed: {replicas} replicas of {shape.gpus} GPUs, room for fewer")

    def without_quota(self) -> Ledger:
        """Return a ledger with the same GPUs and no quotas."""
        return replace(self, quota={})

    def _count_room(self, nodes: tuple[GpuNode, ...], shape: ReplicaShape, need: HostNeed, enough: int | None) -> int:
        pods, free, gpus = 0, self.free, shape.gpus_per_pod
        most = None if enough is None else shape.pods_of(enough)
        for node in nodes:
            if free[node.account] < gpus:
                continue
            pods += self._room_on(node, gpus, need)
            if most is not None and pods >= most:
                return shape.replicas_of(most)
        return shape.replicas_of(pods)

    def _room_on(self, node: GpuNode, gpus: int, need: HostNeed) -> int:
        by_gpus = self.free[node.account] // gpus
        host = self.hosts.get(node.name) if by_gpus else None
        return by_gpus if host is None else host.takes(need, by_gpus)


@dataclass(frozen=True, slots=True)
class Taken:
    """The difference between two ledgers.

    ``gpus`` are counted per account of a node. ``hosts`` are the other resources of each node, by the node's name.
    ``quota`` holds amounts by namespace and resource. Nodes and namespaces without a difference are left out.
    """

    gpus: Mapping[str, int]
    hosts: Mapping[str, HostRoom]
    quota: Quotas

    def given_back_to(self, ledger: Ledger) -> Ledger:
        """Return the ledger with these resources added. The ledger itself is not changed."""
        return self._applied(ledger, 1)

    def taken_from(self, ledger: Ledger) -> Ledger:
        """Return the ledger without these resources. The ledger itself is not changed."""
        return self._applied(ledger, -1)

    def _applied(self, ledger: Ledger, sign: int) -> Ledger:
        free, hosts = dict(ledger.free), dict(ledger.hosts)
        for account, gpus in self.gpus.items():
            free[account] += sign * gpus
        for name, room in self.hosts.items():
            cpu, memory, pods = (-sign * (each or 0) for each in (room.cpu_millis, room.memory_bytes, room.pods))
            hosts[name] = hosts[name].less(cpu, memory, pods, times(room.others or (), -sign))
        quota = {namespace: dict(limits) for namespace, limits in ledger.quota.items()}
        for namespace, limits in self.quota.items():
            for resource, amount in limits.items():
                quota[namespace][resource] += sign * amount
        return Ledger(free, hosts, quota)


def taken_between(before: Ledger, left: Ledger, nodes: Iterable[GpuNode] | None = None) -> Taken | None:
    """Return what was taken from ``before`` so that ``left`` remained; None if nothing was taken.

    ``nodes`` are those that resources may have been taken from; by default, all nodes of the ledgers.
    """
    if left is before:
        return None
    accounts, names = (before.free, before.hosts) if nodes is None else _known(before, tuple(nodes))
    return Taken(
        {each: before.free[each] - left.free[each] for each in accounts if before.free[each] != left.free[each]},
        {name: before.hosts[name].above(now) for name in names if (now := left.hosts[name]) is not before.hosts[name]},
        _quota_taken(before.quota, left.quota),
    )


def _known(ledger: Ledger, nodes: tuple[GpuNode, ...]) -> tuple[Iterable[str], Iterable[str]]:
    """Return the nodes' accounts of GPUs, and the names of those with other resources in the ledger."""
    return [node.account for node in nodes], {node.name: None for node in nodes if node.name in ledger.hosts}


def _quota_taken(before: Quotas, left: Quotas) -> Quotas:
    return {
        namespace: {resource: amount - left[namespace][resource] for resource, amount in limits.items()}
        for namespace, limits in before.items()
        if left[namespace] is not limits
    }


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """The amounts that a replica takes of what a quota may limit, and the PriorityClass of its pods; empty for none."""

    amounts: Amounts = ()
    priority_class: str = ""

    def on(self, left: Mapping[str, int]) -> Amounts:
        """Return what it takes of each account of its namespace that counts its pods, in the order of the amounts."""
        if not left:
            return ()
        asked = dict(self.amounts)
        plain = tuple(each for each in self.amounts if each[0] in left)
        scoped = (each for each in left if each not in asked and is_counted(each, self.priority_class))
        return (*plain, *((each, asked[resource]) for each in scoped if (resource := resource_in(each)) in asked))


NO_USE = QuotaUse()


def use_of(request: Request, resource: str, shape: ReplicaShape, need: HostNeed) -> QuotaUse:
    """Return the amounts that a quota counts for the pods of one replica. ``need`` is that of a pod.

    A pod without a limit of its own counts with the one that a LimitRange gives it, else with its request: then the API
    server refuses the pod, whatever the quota leaves.
    """
    cpu, memory = request.counted_limits(need)
    of_pod = (
        (resource, shape.gpus_per_pod),
        (CPU_REQUESTS, need.cpu_millis),
        (MEMORY_REQUESTS, need.memory_bytes),
        (CPU_LIMITS, cpu),
        (MEMORY_LIMITS, memory),
        (PODS, 1),
        (ALL_PODS, 1),
    )
    return QuotaUse(times(of_pod, shape.pods), request.priority_class)


def use_at(request: Request, place: Option | Candidate) -> QuotaUse:
    """Return the amounts that a quota, or the deployment's own limit of spot nodes, counts for a replica at a place."""
    use = use_of(request, place.target.resource, place.split.shape, host_need(request, place))
    if not request.least_on_demand or place.gpu.capacity is not CapacityType.SPOT:
        return use
    return replace(use, amounts=(*use.amounts, (spot_account(request.key.name), 1)))


def quota_room(request: Request, place: Option | Candidate, ledger: Ledger) -> int | None:
    """Return the number of replicas that the namespace's quotas admit at a place. None: they do not limit it."""
    left = ledger.quota.get(request.key.namespace)
    return room_in(left, use_at(request, place)) if left else None


def room_in(left: Mapping[str, int], use: QuotaUse) -> int | None:
    """Return how often this use fits into what is left. None: nothing that it takes is limited."""
    found = min((left[name] // amount for name, amount in use.on(left) if amount > 0), default=None)
    return None if found is None else max(0, found)


def short_in(left: Mapping[str, int], use: QuotaUse) -> Amounts:
    """Return the accounts of which less is left than one replica takes, each with the amount that it takes."""
    return tuple((name, amount) for name, amount in use.on(left) if left[name] < amount)


def charged(ledger: Ledger, namespace: str, use: QuotaUse, replicas: int) -> Ledger:
    """Return the ledger after so many replicas took their part of the namespace's quotas. Below 0 they give it back."""
    left = ledger.quota.get(namespace, {})
    after = {name: left[name] - amount * replicas for name, amount in use.on(left) if amount * replicas}
    return replace(ledger, quota={**ledger.quota, namespace: {**left, **after}}) if after else ledger
