"""Replacements: pods that start before a node goes, so that its engines are not missed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.serving import Request
from plimsoll.placement.eligibility import eligible_nodes
from plimsoll.placement.host import need_of_pool
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.pools import PlannedPool, PoolState
from plimsoll.placement.quota import charged, room_in, use_of

REPLACEMENT_SECONDS = 3600.0
"""How long replacements are kept for a node that does not go after all. A drain follows a cordon within minutes."""


@dataclass(frozen=True, slots=True)
class OnLeavingNodes:
    """The pods of one pool that serve on nodes that go soon, and the pods that the pool has beyond its replicas."""

    serving: int
    spare: int


Replacements = tuple[tuple[str, int], ...]
"""More pods than planned, by pool."""


def replacements(
    request: Request,
    pools: Sequence[PlannedPool],
    leaving: Mapping[str, OnLeavingNodes],
    nodes: Collection[str],
    fleet: Fleet,
    ledger: Ledger,
) -> tuple[Replacements, Ledger]:
    """Return how many more pods each pool gets, and the ledger without their resources.

    A pool gets one for each of its pods that serve on a node that goes, as far as other nodes have room and the
    namespace's quotas allow it. Those that it has already stay.

    Args:
        request: the deployment.
        pools: its pools as planned.
        leaving: its pods on such nodes, by pool.
        nodes: the names of these nodes.
        fleet: all nodes.
        ledger: what all decisions leave free.
    """
    found: list[tuple[str, int]] = []
    if request.mounts_alone:
        return (), ledger
    for pool in pools:
        here = leaving.get(pool.name)
        if here is None or pool.state is not PoolState.ACTIVE:
            continue
        if pool.choice is None:  # its workload is not rendered
            continue
        wanted = min(here.serving, pool.replicas)
        kept = min(wanted, here.spare)
        more, ledger = _more(request, pool, wanted - kept, nodes, fleet, ledger)
        if kept + more > 0:
            found.append((pool.name, kept + more))
    return tuple(found), ledger


def _more(
    request: Request, pool: PlannedPool, wanted: int, nodes: Collection[str], fleet: Fleet, ledger: Ledger
) -> tuple[int, Ledger]:
    """Return how many of the wanted pods have room elsewhere, and the ledger without their resources."""
    if wanted <= 0:
        return 0, ledger
    namespace, gpus = request.key.namespace, pool.split.gpus
    need = need_of_pool(request, pool.gpu_type, pool.split, fleet)
    use = use_of(request, pool.target.resource, gpus, need)
    others = tuple(node for node in eligible_nodes(request, fleet, pool.gpu_type) if node.name not in nodes)
    reached = tuple(node for node in others if node.selector in pool.target.labels)
    admitted = room_in(ledger.quota.get(namespace, {}), use)
    room = ledger.room_for(reached, gpus, need, enough=wanted)
    more = room if admitted is None else min(room, admitted)
    return more, charged(ledger.take(reached, gpus, more, need), namespace, use, more)
