"""Promises: GPUs kept for pods that were decided earlier and have no node yet. They come before new placements."""

from __future__ import annotations

from plimsoll.domain.fleet import Fleet, GpuNode
from plimsoll.domain.host import DEFAULT_CPU_MILLIS, DEFAULT_MEMORY_BYTES, HostNeed
from plimsoll.placement.eligibility import eligible_nodes
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.pools import Pool, Tenant

_USUAL_NEED = HostNeed(DEFAULT_CPU_MILLIS, DEFAULT_MEMORY_BYTES)
"""The assumed CPU and memory request of a pod whose spec cannot be read now."""


def promise_unplanned(pool: Pool, fleet: Fleet, ledger: Ledger) -> Ledger:
    """Keep GPUs for a pool whose deployment cannot be planned now."""
    try:
        return _promise(pool, fleet.of_type(pool.gpu_type), ledger, _USUAL_NEED)
    except Exception:  # noqa: BLE001 - an error in one deployment must not stop the plan of the others
        return ledger


def promise_earlier(tenant: Tenant, fleet: Fleet, ledger: Ledger) -> Ledger:
    """Keep GPUs for replicas that were decided and whose pods are not bound yet."""
    promised = ledger
    try:
        for pool in tenant.pools:
            nodes = eligible_nodes(tenant.request, fleet, pool.gpu_type)
            promised = _promise(pool, nodes, promised, tenant.request.host_need, tenant.request.key.namespace)
    except Exception:  # noqa: BLE001 - the deployment's own turn reports the same error
        return ledger
    return promised


def _promise(pool: Pool, nodes: tuple[GpuNode, ...], ledger: Ledger, need: HostNeed, namespace: str = "") -> Ledger:
    """Keep GPUs for the pods of a pool that have no node yet.

    For pods that do not exist yet, GPUs are kept while the promise lasts. Where the API server refuses these pods, GPUs
    are kept only within the quota. The quota already counts pods that exist, so only the other pods are charged here.
    """
    gpus = pool.split.gpus
    waiting = max(0, pool.replicas - pool.bound - pool.stranded - pool.stuck)
    uncreated = min(waiting, pool.uncreated)
    created = waiting - uncreated
    quota = ledger.quota_left(namespace, pool.target.resource)
    if pool.promise_over:
        uncreated = 0
    elif pool.refused and quota is not None:
        uncreated = min(uncreated, quota // gpus)
    if created + uncreated == 0:
        return ledger
    room = ledger.room_for(nodes, gpus, need, enough=created + uncreated)
    return ledger.take(nodes, gpus, room, need).charge(namespace, pool.target.resource, uncreated * gpus)
