"""What the engines say they got: KV tokens by pool, and which kinds of placement proved too small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.adapters.prometheus import Reading
from plimsoll.app.objects import Surroundings, is_updating
from plimsoll.app.status_reading import split_of
from plimsoll.domain.serving import ObservedCapacity
from plimsoll.placement.pools import Pool


def told_now(around: Surroundings, reading: Reading | None) -> dict[str, int]:
    """Tokens of one replica by pool, the smallest of its ready pods, as their release counts them."""
    told: dict[str, int] = {}
    if reading is None:
        return told
    for pool, pods in around.pods.items():
        seen = [_latest_capacity(reading, pod.name) for pod in pods if pod.ready]
        known = [tokens for tokens in seen if tokens is not None]
        if known:
            told[pool] = min(known)
    return told


def reported_tokens(status: Mapping[str, Any], generation: int, now: Mapping[str, int]) -> dict[str, int]:
    """KV tokens of one replica by pool: what engines report ``now``, else what they said under the same spec.

    The earlier word stays true while Prometheus is away, but not of engines that were given other settings since.
    """
    entries = [pool for pool in status.get("pools") or () if pool.get("generation") == generation]
    before = {pool["name"]: pool["kvTokensReported"] for pool in entries if pool.get("kvTokensReported") is not None}
    return {**before, **now}


def observed_capacities(
    status: Mapping[str, Any], spec: str, pools: Sequence[Pool], around: Surroundings, reported: Mapping[str, int]
) -> tuple[ObservedCapacity, ...]:
    """What the pools' engines report, and what engines of earlier pools had reported when they proved too small.

    Without the second, a replica added later would go to the very GPU that the deployment was moved away from. It holds
    until the spec changes (``spec`` is a digest of it), for then the engines may be given other settings; and never
    against a pool that runs. Engines that are being replaced tell nothing of those to come.
    """
    running = [
        ObservedCapacity(pool.gpu_type, pool.split, reported[pool.name])
        for pool in pools
        if pool.name in reported and not is_updating(around.workloads.get(pool.name))
    ]
    known = {(seen.gpu_type, seen.split) for seen in running}
    earlier = [
        ObservedCapacity(entry["gpuType"], split_of(entry), entry["kvTokens"])
        for entry in status.get("tooSmall") or ()
        if entry.get("spec") == spec and (entry["gpuType"], split_of(entry)) not in known
    ]
    return (*running, *earlier)


def _latest_capacity(reading: Reading, pod: str) -> int | None:
    signals = reading.pods.get(pod)
    samples = sorted(signals.samples, key=lambda sample: sample.at) if signals else ()
    known = [sample.kv_capacity_tokens for sample in samples if sample.kv_capacity_tokens is not None]
    return known[-1] if known else None
