"""The engines' reports: KV tokens by pool, and the kinds of placement that proved too small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.adapters.readings import Reading
from plimsoll.app.objects import Surroundings, is_updating
from plimsoll.app.record.reading import Record
from plimsoll.app.record.values import split_of
from plimsoll.domain.serving import ObservedCapacity
from plimsoll.placement.pools import Pool


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


def _latest_capacity(reading: Reading, pod: str) -> int | None:
    signals = reading.pods.get(pod)
    samples = sorted(signals.samples, key=lambda sample: sample.at) if signals else ()
    known = [sample.kv_capacity_tokens for sample in samples if sample.kv_capacity_tokens is not None]
    return known[-1] if known else None
