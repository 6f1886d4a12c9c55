"""The resources that one award takes from a ledger, so that they can be given back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from plimsoll.domain.fleet import GpuNode
from plimsoll.domain.host import HostRoom
from plimsoll.placement.ledger import Ledger, Quotas


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
            hosts[name] = hosts[name].less(
                *(-sign * (each or 0) for each in (room.cpu_millis, room.memory_bytes, room.pods))
            )
        quota = {namespace: dict(limits) for namespace, limits in ledger.quota.items()}
        for namespace, limits in self.quota.items():
            for resource, amount in limits.items():
                quota[namespace][resource] += sign * amount
        return Ledger(free, hosts, quota)


def taken_between(before: Ledger, left: Ledger, nodes: Iterable[GpuNode] | None = None) -> Taken | None:
    """Return what was taken from ``before`` so that ``left`` remained; None where nothing was taken.

    ``nodes`` are those that resources may have been taken from; by default, all nodes of the ledgers.
    """
    if left is before:
        return None
    accounts, names = (before.free, before.hosts) if nodes is None else _known(before, tuple(nodes))
    return Taken(
        {each: before.free[each] - left.free[each] for each in accounts if before.free[each] != left.free[each]},
        {
            name: before.hosts[name].less(now.cpu_millis or 0, now.memory_bytes or 0, now.pods or 0)
            for name in names
            if (now := left.hosts[name]) is not before.hosts[name]
        },
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
