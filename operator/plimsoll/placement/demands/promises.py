"""Promises: GPUs kept for pods that were decided earlier and have no node yet. They come before new placements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.host import DEFAULT_CPU_MILLIS, DEFAULT_MEMORY_BYTES, HostNeed
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.pools import Pool, Tenant, as_it_runs
from plimsoll.placement.ledger import NO_USE, Ledger, QuotaUse, charged, room_in, use_of
from plimsoll.placement.options.nodes import eligible_nodes, need_of_pool

_USUAL_NEED = HostNeed(DEFAULT_CPU_MILLIS, DEFAULT_MEMORY_BYTES)
"""The assumed CPU and memory request of a pod whose spec cannot be read now."""


@dataclass(frozen=True, slots=True)
class Promise:
    """The replicas of a pool that have no node yet, the nodes that they may run on, and the quotas that each takes."""

    pool: Pool
    nodes: tuple[GpuNode, ...]
    need: HostNeed
    namespace: str = ""
    use: QuotaUse = NO_USE


def promise_of_unplanned(pool: Pool, fleet: Fleet) -> Promise:
    """Return the promise to a pool whose deployment cannot be planned now."""
    return Promise(pool, fleet.of_type(pool.gpu_type), _USUAL_NEED)


def promises_to(tenant: Tenant, fleet: Fleet) -> list[Promise]:
    """Return the promises to replicas of a deployment that were decided earlier and have no node yet."""
    request = tenant.request
    try:
        return [_promise(request, pool, fleet) for pool in tenant.pools if pool.waiting]
    except Exception:  # noqa: BLE001 - the deployment's own turn reports the same error
        return []


def _promise(request: Request, pool: Pool, fleet: Fleet) -> Promise:
    need = need_of_pool(as_it_runs(request, pool), pool.gpu_type, pool.split, fleet)
    use = use_of(request, pool.target.resource, pool.split.shape, need)
    return Promise(pool, eligible_nodes(request, fleet, pool.gpu_type), need, request.key.namespace, use)


def keep(promises: Iterable[Promise], ledger: Ledger) -> Ledger:
    """Return the ledger without the GPUs of all promises.

    Pods with more GPUs come first: the smaller ones fit into what is left. In the other order they might not all fit.
    """
    for promise in sorted(promises, key=lambda promise: -promise.pool.split.shape.gpus_per_pod):
        ledger = _kept_or_left(promise, ledger)
    return ledger


def _kept_or_left(promise: Promise, ledger: Ledger) -> Ledger:
    try:
        return _kept(promise, ledger)
    except Exception:  # noqa: BLE001 - an error in one deployment must not stop the plan of the others
        return ledger


def _kept(promise: Promise, ledger: Ledger) -> Ledger:
    """Keep GPUs for the pods of a pool that have no node yet.

    For pods that do not exist yet, GPUs are kept while the promise lasts. If the API server refuses these pods, GPUs
    are kept only within the quota. The quota already counts pods that exist, so only the other pods are charged here.
    """
    pool, nodes, need = promise.pool, promise.nodes, promise.need
    waiting = pool.waiting
    uncreated = min(waiting, pool.uncreated)
    created = waiting - uncreated
    admitted = room_in(ledger.quota.get(promise.namespace, {}), promise.use)
    if pool.promise_over:
        uncreated = 0
    elif pool.refused and admitted is not None:
        uncreated = min(uncreated, admitted)
    if created + uncreated == 0:
        return ledger
    room = ledger.room_for(nodes, pool.split.shape, need, enough=created + uncreated)
    return charged(ledger.take(nodes, pool.split.shape, room, need), promise.namespace, promise.use, uncreated)
