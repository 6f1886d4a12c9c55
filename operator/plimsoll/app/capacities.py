"""What the engines say they got: KV tokens by pool, and which kinds of placement proved too small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.adapters.prometheus import Reading
from plimsoll.app.objects import Surroundings, split_of
from plimsoll.domain.serving import ObservedCapacity
from plimsoll.placement.pools import Pool


def reported_tokens(status: Mapping[str, Any], around: Surroundings, reading: Reading | None) -> dict[str, int]:
    """KV tokens of one replica by pool, the smallest of its ready pods.

    What engines reported earlier (``status``) stays true while Prometheus is away.
    """
    told = {pool["name"]: pool.get("kvTokensReported") for pool in status.get("pools") or ()}
    before = {name: tokens for name, tokens in told.items() if tokens is not None}
    return before if reading is None else before | _reported_now(around, reading)


def observed_capacities(
    status: Mapping[str, Any], generation: int, pools: Sequence[Pool], reported: Mapping[str, int]
) -> tuple[ObservedCapacity, ...]:
    """What the pools' engines report, and what engines of earlier pools had reported when they proved too small.

    Without the second, a replica added later would go to the very GPU that the deployment was moved away from. It holds
    until the spec changes, for then the engines may be given other settings; and never against a pool that runs.
    """
    running = [
        ObservedCapacity(pool.gpu_type, pool.split, reported[pool.name]) for pool in pools if pool.name in reported
    ]
    known = {(seen.gpu_type, seen.split) for seen in running}
    earlier = [
        ObservedCapacity(entry["gpuType"], split_of(entry), entry["kvTokens"])
        for entry in status.get("tooSmall") or ()
        if entry["generation"] == generation and (entry["gpuType"], split_of(entry)) not in known
    ]
    return (*running, *earlier)


def _reported_now(around: Surroundings, reading: Reading) -> dict[str, int]:
    reported: dict[str, int] = {}
    for pool, pods in around.pods.items():
        seen = [_latest_capacity(reading, pod.name) for pod in pods if pod.ready]
        known = [tokens for tokens in seen if tokens is not None]
        if known:
            reported[pool] = min(known)
    return reported


def _latest_capacity(reading: Reading, pod: str) -> int | None:
    signals = reading.pods.get(pod)
    samples = sorted(signals.samples, key=lambda sample: sample.at) if signals else ()
    known = [sample.kv_capacity_tokens for sample in samples if sample.kv_capacity_tokens is not None]
    return known[-1] if known else None
