"""The nodes that could be added: declared by the admin, and Karpenter's NodePools, which are read repeatedly."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plimsoll.adapters.cluster.api_errors import GONE
from plimsoll.adapters.cluster.client import Cluster, ClusterRefused
from plimsoll.adapters.cluster.kinds import NODE_POOLS
from plimsoll.api.node_groups import CHART_KEY, DeclaredGroups, declared_groups
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.facts.cluster.node_pools import read_node_pools

PAUSE_SECONDS = 60.0
"""The longest time until a change is noticed. Suggestions to people need no more."""

logger = logging.getLogger("plimsoll.node_groups")


def declared_in(text: str, types: Sequence[GpuType]) -> DeclaredGroups:
    """Read the admin's list. Raises :class:`InvalidInput` naming the entry and its field."""
    try:
        given = json.loads(text or "[]")
    except (ValueError, RecursionError) as error:
        raise InvalidInput(CHART_KEY, text, f"Write a JSON list: {error}.") from error
    return declared_groups(given, CHART_KEY, types)


@dataclass(slots=True)
class NodeGroups:
    """The declared groups, and the NodePools that were read last."""

    declared: DeclaredGroups = field(default_factory=DeclaredGroups)
    pools: tuple[Mapping[str, Any], ...] = ()
    said: str = ""
    _known: tuple[Sequence[GpuType], tuple[Mapping[str, Any], ...], tuple[NodeGroup, ...]] | None = None

    def of(self, types: Sequence[GpuType]) -> tuple[NodeGroup, ...]:
        """Return the groups with the prices of these types: the same objects until a pool or a price changes."""
        known = self._known
        if known is None or known[0] is not types or known[1] is not self.pools:
            groups = (*self.declared.of(types), *read_node_pools(self.pools, types))
            self._known = known = (types, self.pools, groups)
        return known[2]

    async def run(self, cluster: Cluster, on_change: Callable[[], None]) -> None:
        """Read NodePools repeatedly until cancelled. If they cannot be read, the last ones stay."""
        while True:
            try:
                await self.refresh(cluster, on_change)
                self.said = ""
            except PlimsollError as error:
                if str(error) != self.said:
                    logger.warning("node pools stay as they are: %s", error)
                self.said = str(error)
            await asyncio.sleep(PAUSE_SECONDS)

    async def refresh(self, cluster: Cluster, on_change: Callable[[], None]) -> None:
        """Read once. A cluster without Karpenter has no NodePools."""
        try:
            found = tuple(_pruned(pool) for pool in (await cluster.list(NODE_POOLS)).items)
        except ClusterRefused as refusal:
            if refusal.status != GONE:
                raise
            found = ()
        if found != self.pools:
            self.pools = found
            on_change()


def _pruned(pool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is read of a pool. Its status counts resources and changes with every node."""
    conditions = (pool.get("status") or {}).get("conditions") or ()
    return {
        "metadata": {"name": pool["metadata"].get("name")},
        "spec": pool.get("spec"),
        "status": {"conditions": [{"type": each.get("type"), "status": each.get("status")} for each in conditions]},
    }
