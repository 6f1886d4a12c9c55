"""The pools of one object as they run: read from its status and its pods, with the changes that are under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plimsoll.decision.deployment import Identity, Placed, Refusal
from plimsoll.decision.pools.delays import delay_of
from plimsoll.decision.pools.retunes import with_retune
from plimsoll.decision.surroundings import Surroundings, held_back, read_pools
from plimsoll.placement.demands.clocks import trusted
from plimsoll.placement.demands.failed_moves import standing
from plimsoll.placement.demands.pools import Pool
from plimsoll.placement.demands.rehoming import of_last_hour
from plimsoll.placement.demands.roll_back import is_late
from plimsoll.status.reading import Record


def placed_now(
    identity: Identity,
    record: Record,
    around: Surroundings,
    *,
    wanted: int,
    concurrency: object,
    now: float,
    grace_seconds: float,
    refusal: Refusal | None = None,
) -> Placed:
    """Return the pools of one object, and the changes of them that are under way.

    Args:
        identity: which object.
        record: its status.
        around: its pods and Deployments.
        wanted: the upper limit for a pool's replicas when it is read from its workload, because anyone can scale that.
        concurrency: ``spec.concurrency`` as it is written.
        now: POSIX seconds.
        grace_seconds: how long a pod may be without a node before it counts as stranded.
        refusal: what the API server refused last.
    """
    names = [*(pool.name for pool in record.pools), *around.workloads]
    refused = {} if refusal is None else refusal.since_by_pool(names)
    pools = read_pools(record, around, wanted=wanted, now=now, grace_seconds=grace_seconds, refused_since=refused)
    pools = _with_sequences(pools, identity, record, concurrency)
    move = trusted(record.move, identity.digests.start, now)
    is_over = move is not None and move.is_over(now)
    if is_over:
        pools = tuple(
            replace(pool, delay=delay_of(pool, around, record, refusal, now)) if is_late(pool) else pool
            for pool in pools
        )
    placed = Placed(
        around,
        pools,
        left=of_last_hour(record.rehomings, now),
        failed=standing(record.failed_moves, identity.digests.start, now),
        move=move,
        is_late=is_over,
        held_back=tuple(_held_back(pools, around, now)),
    )
    return placed if record.retune is None else with_retune(placed, identity, record, refusal, now)


def _held_back(pools: Sequence[Pool], around: Surroundings, now: float) -> list[tuple[str, int]]:
    held = ((pool.name, held_back(around, pool, now)) for pool in pools)
    return [(name, most) for name, most in held if most is not None]


def _with_sequences(
    pools: tuple[Pool, ...], identity: Identity, record: Record, concurrency: object
) -> tuple[Pool, ...]:
    """Return the pools with the most requests at the same time that their engines got.

    Earlier releases recorded it for the deployment only, and it was always ``spec.concurrency``. The engines keep it as
    long as that is so: an upgrade of the operator must not restart them.
    """
    number = record.max_sequences
    if number is None or all(pool.max_sequences is not None for pool in pools):
        return pools
    if record.status.observed_generation != identity.generation and number != concurrency:
        return pools
    return tuple(
        replace(pool, max_sequences=number, spec=identity.digests.engine) if pool.max_sequences is None else pool
        for pool in pools
    )
