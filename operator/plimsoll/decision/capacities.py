"""The engines' reports: KV tokens by pool, and the kinds of placement that proved too small."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from plimsoll.decision.surroundings import Surroundings, is_updating
from plimsoll.domain.requests.serving import ObservedCapacity, Request
from plimsoll.placement.demands.pools import Pool
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.status.places import split_of
from plimsoll.status.reading import Record

ENOUGH_SAMPLES = 2
"""Samples after which an engine that has named no size will not name one: it reports it from its start."""


def about_cache(reading: Reading | None, request: Request | None) -> Reading | None:
    """Return what counts of a reading for the KV cache: nothing for an encoder, which has none.

    Its engine may report blocks all the same. They are no memory, so nothing is learned from them.
    """
    return None if request is not None and not request.model.keeps_cache else reading


def told_now(around: Surroundings, reading: Reading | None) -> dict[str, int]:
    """Return the tokens of one replica by pool: the smallest of its ready pods, as their release counts them."""
    reported: dict[str, int] = {}
    if reading is None:
        return reported
    for pool, pods in around.pods.items():
        seen = [_latest_capacity(reading, pod.name) for pod in pods if pod.ready]
        known = [tokens for tokens in seen if tokens is not None]
        if known:
            reported[pool] = min(known)
    return reported


def silent_pools(
    around: Surroundings, reading: Reading | None, record: Record, known: Collection[str]
) -> frozenset[str]:
    """Return the pools whose engines report their load, and not the size of their KV cache.

    What was seen before stays while nothing is known of the ready pods. ``known`` are pools with a reported size.
    """
    before = {pool.name for pool in record.status.pools or () if pool.kv_tokens_note is not None}
    pools = {
        pool: [_is_silent(reading, pod.name) for pod in pods if pod.ready]
        for pool, pods in around.pods.items()
        if pool not in known
    }
    return frozenset(pool for pool, seen in pools.items() if any(seen) or (None in seen and pool in before))


def reported_tokens(record: Record, generation: int, now: Mapping[str, int]) -> dict[str, int]:
    """Return KV tokens of one replica by pool: the engines' reports ``now``, else their last ones under the same spec.

    An earlier report stays valid while Prometheus is away, but not for engines that got other settings since.
    """
    entries = (pool for pool in record.status.pools or () if pool.generation == generation)
    before = {pool.name: pool.kv_tokens_reported for pool in entries if pool.kv_tokens_reported is not None}
    return {**before, **now}


def observed_capacities(
    record: Record, spec: str, pools: Sequence[Pool], around: Surroundings, reported: Mapping[str, int]
) -> tuple[ObservedCapacity, ...]:
    """Return the reports of the pools' engines, and the reports of earlier engines that proved too small.

    Without the earlier reports, a replica added later would go to the same GPU type that the deployment was moved away
    from. They hold until the spec changes (``spec`` is its digest), because then the engines may get other settings.
    They never count against a running pool. Engines that are being replaced are left out: they say nothing about the
    next ones.
    """
    running = [
        ObservedCapacity(pool.gpu_type, pool.split, reported[pool.name])
        for pool in pools
        if pool.name in reported and not is_updating(around.workloads.get(pool.name))
    ]
    known = {(seen.gpu_type, seen.split) for seen in running}
    earlier = [
        ObservedCapacity(entry.gpu_type, split_of(entry), entry.kv_tokens)
        for entry in record.status.too_small or ()
        if entry.spec == spec and (entry.gpu_type, split_of(entry)) not in known
    ]
    return (*running, *earlier)


def _is_silent(reading: Reading | None, pod: str) -> bool | None:
    """Whether a pod with several samples names no size in any of them; None where there are fewer samples."""
    signals = None if reading is None else reading.pods.get(pod)
    loads = [sample for sample in signals.samples if sample.kv_usage is not None] if signals else []
    if len(loads) < ENOUGH_SAMPLES:
        return None
    return all(sample.kv_capacity_tokens is None for sample in loads)


def _latest_capacity(reading: Reading, pod: str) -> int | None:
    signals = reading.pods.get(pod)
    samples = sorted(signals.samples, key=lambda sample: sample.at) if signals else ()
    known = [sample.kv_capacity_tokens for sample in samples if sample.kv_capacity_tokens is not None]
    return known[-1] if known else None
