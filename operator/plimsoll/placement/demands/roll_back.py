"""Roll-back: a move, or other settings of engines, are taken back if new replicas do not serve in time.

If new pools do not serve, the old ones that serve are wanted again. Nothing that serves is given up: new replicas
that serve stay, and an old pool gives the rest. If engines of a pool do not serve with other settings, the pool gets
back the earlier ones. Its replicas that have them serve on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from plimsoll.placement.demands.failed_moves import Delay, RollBack
from plimsoll.placement.demands.pools import Pool, PoolState, Tenant, active

NOT_READY = Delay("EnginesStarting", "its pods did not get ready")
"""The delay if no pod says anything."""


def rolled_back(tenant: Tenant, may_return: Callable[[Pool], bool]) -> tuple[Tenant, tuple[RollBack, ...]]:
    """Return the deployment after a roll-back, and the places that did not come up.

    Nothing is changed while the move has time, or if no old pool serves that ``may_return``: the new replicas are
    all that there is then. A new total load has to choose a size first.
    """
    old = [pool for pool in tenant.pools if pool.state is PoolState.RETIRING]
    if not (tenant.overdue and old) or tenant.request.total is not None:
        return tenant, ()
    new = active(tenant.pools)
    serving = [kept for pool in new if (kept := _serving_part(pool)).replicas > 0]
    missing = tenant.request.replicas - sum(pool.replicas for pool in serving)
    back = [pool for pool in old if pool.ready > 0 and may_return(pool)] if missing > 0 else []
    if not back:
        return tenant, ()
    returned = _wanted_again(back, missing, tenant)
    names = {pool.name for pool in returned}
    rest = [pool for pool in old if pool.name not in names]
    failed = tuple(_failure(pool) for pool in new if is_late(pool))
    return replace(tenant, pools=(*serving, *returned, *rest), overdue=False), failed


def called_back(tenant: Tenant, fits: Callable[[Pool], bool], is_ruled_out: Callable[[Pool], bool]) -> Tenant:
    """Return the deployment with old pools wanted again, if a change of the spec rules out all new ones of a move.

    Else the old pools would hold the GPUs that their successors wait for. Nothing is changed once a new replica serves.
    """
    old = [pool for pool in tenant.pools if pool.state is PoolState.RETIRING]
    back = [pool for pool in old if pool.ready > 0 and fits(pool)]
    new = active(tenant.pools)
    is_given_up = bool(new) and all(pool.ready == 0 and is_ruled_out(pool) for pool in new)
    if not back or not is_given_up or tenant.request.total is not None:
        return tenant
    returned = _wanted_again(back, tenant.request.replicas, tenant)
    names = {pool.name for pool in returned}
    return replace(tenant, pools=(*returned, *(pool for pool in old if pool.name not in names)), overdue=False)


def settings_restored(tenant: Tenant, fits: Callable[[Pool], bool]) -> tuple[Tenant, tuple[RollBack, ...]]:
    """Return the deployment with the earlier settings of pools that do not come up with others, and what failed there.

    Nothing is changed if the earlier settings are not valid any more: ``fits`` judges a pool with its settings. A
    new total load has to choose a size first.
    """
    if tenant.request.total is not None:
        return tenant, ()
    late = [pool for pool in active(tenant.pools) if pool.overdue and pool.earlier]
    back = {pool.name: _restored(pool) for pool in late}
    failed = [pool for pool in late if fits(back[pool.name])]
    if not failed:
        return tenant, ()
    names = {pool.name for pool in failed}
    pools = tuple(back[pool.name] if pool.name in names else pool for pool in tenant.pools)
    return replace(tenant, pools=pools), tuple(replace(_failure(pool), limits=pool.limits) for pool in failed)


def _restored(pool: Pool) -> Pool:
    earlier = pool.earlier
    assert earlier is not None  # noqa: S101 - checked by the caller
    return replace(pool, limits=earlier.limits, drain_seconds=earlier.drain_seconds, overdue=False, delay=None)


def is_late(pool: Pool) -> bool:
    """Whether an active pool has replicas that do not serve."""
    return pool.is_active and pool.ready < pool.replicas


def _serving_part(pool: Pool) -> Pool:
    """Return the pool with the replicas that serve. Kubernetes ends those that are not ready first."""
    return replace(pool, replicas=min(pool.ready, pool.replicas), stranded=0, failing=0, stuck=0, obstacle="")


def _wanted_again(old: Iterable[Pool], missing: int, tenant: Tenant) -> Sequence[Pool]:
    """Return old pools as active ones, those with the most serving replicas first, for so many replicas at most.

    A pool with the engines of the present spec counts as planned for it, so it stays although it would not be chosen.
    """
    found: list[Pool] = []
    for pool in sorted(old, key=lambda pool: (-pool.ready, pool.name)):
        replicas = min(pool.replicas, missing)
        if replicas > 0:
            generation = tenant.generation if pool.spec == tenant.spec else pool.generation
            found.append(replace(pool, state=PoolState.ACTIVE, replicas=replicas, generation=generation))
        missing -= replicas
    return found


def _failure(pool: Pool) -> RollBack:
    return RollBack(pool.gpu_type, pool.split, pool.delay or NOT_READY, engine=pool.engine)
