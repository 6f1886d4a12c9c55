"""Engines report their memory, and that becomes part of their deployment's request, and of those of others.

Observations of engines are found in pods and metrics: their memory, the KV tokens by pool, and the kinds of placement
that proved too small. ``lessons`` says what is kept of them and what follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from plimsoll.decision.deployment import Deployment, PlacedPools
from plimsoll.decision.kept import ChangedRequests
from plimsoll.decision.lessons import (
    CommonLessons,
    Contribution,
    contribution,
    lessons,
    merged,
    remembered,
    speed_factor,
)
from plimsoll.decision.outcome import Observed, Ready
from plimsoll.decision.surroundings import Surroundings, is_updating, memory_failure
from plimsoll.decision.turns import Standing
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.observations import MeasuredSpeed, Observation, Seen, Witness
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.requests.serving import ObservedCapacity, Request
from plimsoll.engines.registry import engine_of
from plimsoll.placement.demands.pools import Pool, as_it_runs
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.feasibility import sized
from plimsoll.rebalance.signals.load import summarize
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.status.record.places import split_of
from plimsoll.status.record.reading import Record


def observe(deployment: Deployment, reading: Reading | None, fleet: Fleet, memo: Memo) -> Observed:
    """Return what the engines of a deployment report about their memory, now and earlier."""
    record, around, identity = deployment.record, deployment.placed.around, deployment.identity
    request, pools, spec = deployment.asked.request, deployment.placed.pools, deployment.identity.digests.engine
    seen = remembered(record.observations, spec)
    reading = _of_own_engines(about_cache(reading, request), deployment.placed)
    now = reported_now(around, reading)
    reported = reported_tokens(record, identity.generation, now)
    silent = silent_pools(around, reading, record, reported)
    in_host = reported_tokens(record, identity.generation, reported_now(around, reading, HOST_CACHE), HOST_CACHE)
    if request is None:
        return Observed(seen, reported, silent, in_host)
    try:
        found = observed_now(request, pools, around, now, fleet, generation=identity.generation, spec=spec, memo=memo)
        now = capacities(request, pools, now, fleet, memo)
    except PlimsollError:
        return Observed(seen, reported, silent, in_host)  # the model has no memory law: planning reports that
    return Observed(merged(seen, found), reported_tokens(record, identity.generation, now), silent, in_host)


def contribution_of(deployment: Deployment, found: Observed) -> Contribution:
    """Return the observations of a deployment's engines that count for others."""
    spec = deployment.identity.digests.engine
    speeds = measured_speeds(deployment)
    return contribution(deployment.key, spec, found.seen, teaches=deployment.asked.teaches, speeds=speeds)


def measured_speeds(deployment: Deployment) -> tuple[MeasuredSpeed, ...]:
    """Return the speeds of a deployment's own pools as the live loop has learned them, and the status keeps them."""
    learned, request = deployment.record.learned, deployment.asked.request
    if learned is None or request is None:
        return ()
    known = dict(learned.others) | {learned.pool: learned.slowness}
    found = []
    for pool in (each for each in deployment.placed.pools if each.engine == learned.engine):
        factor, own = speed_factor(known.get(pool.name, 1.0)), request.on(pool.engine)
        if factor != 1 and own is not None:
            own = own.with_cache_as(narrow=pool.has_narrow_cache, host_bytes=None)
            found.append(MeasuredSpeed(own.engine_kind(pool.gpu_type, pool.split), factor))
    return tuple(found)


def ready_of(
    deployment: Deployment,
    found: Observed,
    common: CommonLessons,
    changed: ChangedRequests,
    *,
    reading: Reading | None,
    now: float,
) -> Ready | None:
    """Return a deployment with what engines taught, for the replicas that its live loop wants; None: it has no request.

    Args:
        deployment: the deployment.
        found: what its engines report.
        common: what the engines of others teach.
        changed: gives equal requests as the same Python object, pass after pass.
        reading: the latest signals; None: there are none.
        now: POSIX seconds.
    """
    request, identity, placed = deployment.asked.request, deployment.identity, deployment.placed
    if request is None or deployment.spec is None:
        return None
    spec, reported = identity.digests.engine, found.reported
    observed = observed_capacities(deployment.record, spec, placed.pools, placed.around, reported)

    def taught(each: Request) -> dict[str, Any]:
        return {
            "observed": tuple(seen for seen in observed if seen.engine == each.engine.name),
            "corrections": lessons(found.seen, (*common.of(deployment.key, each.model.name), *each.corrections)),
            "failed_starts": failed_starts(each, found.seen),
            "speeds": _speeds(deployment, each, common),
        }

    request = changed.each(identity.uid, request, taught)
    entry = deployment.record.status.rebalancing
    is_another = entry is not None and entry.base_replicas != request.replicas
    standing = Standing.read(
        deployment.spec,
        deployment.record,
        request.replicas,
        came_back=deployment.writes.came_back,
        unread=_unread(placed.around, reading, now) if is_another else 0,
    )
    target = min(standing.target_replicas, 1) if request.mounts_alone else standing.target_replicas
    return Ready(deployment, changed.of(identity.uid, request, replicas=target), standing, found)


def _unread(around: Surroundings, reading: Reading | None, now: float) -> int:
    """Return how many replicas serve if nothing is known of their load; 0 if something is."""
    ready = [pod.name for pod in around.ready_pods()]
    signals = () if reading is None or reading.state is not SignalState.FRESH else tuple(reading.pods.values())
    load = summarize(signals, ready, now, window_seconds=1, capacity_tokens=0)
    return 0 if load.fresh_pods else len(ready)


def _speeds(deployment: Deployment, request: Request, common: CommonLessons) -> tuple[MeasuredSpeed, ...]:
    """Return the measured speeds that count for a deployment: its own come before those of others."""
    others = {each.kind: each for each in common.speeds_of(deployment.key, request.model.name)}
    return tuple((others | {each.kind: each for each in measured_speeds(deployment)}).values())


ENOUGH_SAMPLES = 2
"""Samples after which an engine that has named no size will not name one: it reports it from its start."""


def about_cache(reading: Reading | None, request: Request | None) -> Reading | None:
    """Return what counts of a reading for the KV cache: nothing for an encoder, which has none.

    Its engine may report blocks all the same. They are no memory, so nothing is learned from them.
    """
    return None if request is not None and not request.model.keeps_cache else reading


def _of_own_engines(reading: Reading | None, placed: PlacedPools) -> Reading | None:
    """Return a reading of the pods that run their pool's engine: another one says nothing of the pool's cache."""
    others = placed.of_other_engines
    if reading is None or not others:
        return reading
    return replace(reading, pods={pod: signals for pod, signals in reading.pods.items() if pod not in others})


class ReportedSize(NamedTuple):
    """The size of a cache in tokens: the figure of a sample, and the field of a pool's status that keeps it."""

    figure: str
    field: str


KV_CACHE = ReportedSize("kv_capacity_tokens", "kv_tokens_reported")
HOST_CACHE = ReportedSize("host_cache_tokens", "host_tokens_reported")


def reported_now(around: Surroundings, reading: Reading | None, size: ReportedSize = KV_CACHE) -> dict[str, int]:
    """Return the tokens of one replica by pool: the smallest of its ready pods, as their release counts them."""
    reported: dict[str, int] = {}
    if reading is None:
        return reported
    for pool, pods in around.pods.items():
        seen = [_latest(reading, pod.name, size.figure) for pod in pods if pod.ready]
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


def reported_tokens(
    record: Record, generation: int, now: Mapping[str, int], size: ReportedSize = KV_CACHE
) -> dict[str, int]:
    """Return the tokens of one replica by pool: the engines' reports ``now``, else their last ones under the same spec.

    An earlier report stays valid while Prometheus is away, but not for engines that got other settings since.
    """
    entries = (pool for pool in record.status.pools or () if pool.generation == generation)
    before = {pool.name: tokens for pool in entries if (tokens := getattr(pool, size.field)) is not None}
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
        ObservedCapacity(pool.gpu_type, pool.split, reported[pool.name], pool.engine)
        for pool in pools
        if pool.name in reported and not is_updating(around.workloads.get(pool.name))
    ]
    known = {(seen.gpu_type, seen.split, seen.engine) for seen in running}
    earlier = (
        ObservedCapacity(entry.gpu_type, split_of(entry), entry.kv_tokens, entry.engine or DEFAULT_ENGINE)
        for entry in record.status.too_small or ()
        if entry.spec == spec
    )
    return (*running, *(seen for seen in earlier if (seen.gpu_type, seen.split, seen.engine) not in known))


def _is_silent(reading: Reading | None, pod: str) -> bool | None:
    """Whether a pod with several samples names no size in any of them; None if there are fewer samples."""
    signals = None if reading is None else reading.pods.get(pod)
    loads = [sample for sample in signals.samples if sample.kv_usage is not None] if signals else []
    if len(loads) < ENOUGH_SAMPLES:
        return None
    return all(sample.kv_capacity_tokens is None for sample in loads)


def _latest(reading: Reading, pod: str, figure: str) -> int | None:
    signals = reading.pods.get(pod)
    samples = sorted(signals.samples, key=lambda sample: sample.at) if signals else ()
    known: list[int] = [size for sample in samples if (size := getattr(sample, figure)) is not None]
    return known[-1] if known else None


LEAST_WEIGHTS_PERCENT = 90
"""The least share of the estimated weights, which are counted exactly, that an engine must hold. An engine that reports
more KV cache than the rest of the budget is not believed."""


def observed_now(
    request: Request,
    pools: Sequence[Pool],
    around: Surroundings,
    reported: Mapping[str, int],
    fleet: Fleet,
    *,
    generation: int,
    spec: str,
    memo: Memo | None = None,
) -> tuple[Seen, ...]:
    """Return what the pools' engines show in this pass. A pool that was not planned for this spec yet is skipped.

    ``reported`` holds the tokens that ready engines report now, as their release counts them. ``memo`` is as in
    ``plan``.
    """
    found = []
    for pool in pools:
        if pool.generation != generation or is_updating(around.workloads.get(pool.name)):
            continue
        observation = _of_pool(request, pool, around, reported.get(pool.name), fleet, memo)
        if observation is not None:
            found.append(Seen(observation, spec))
    return tuple(found)


def failed_starts(request: Request, own: Iterable[Seen]) -> tuple[tuple[str, Split], ...]:
    """Return GPU types and splits on which engines of exactly this request ran out of memory and reported no figure.

    An engine that ran more requests at the same time than are declared does not count: it first tries again with fewer.
    """
    declared = max(request.shape.concurrency, request.engine.limits.sequences)  # of all engines of a replica
    failures = (seen.observation for seen in own if seen.observation.witness is Witness.OUT_OF_MEMORY)
    kinds = [each.kind for each in failures if each.limits.sequences <= each.kind.split.seats(declared)]
    places = {(kind.gpu_type, kind.split): kind for kind in kinds}
    asked = (request, request.with_narrow_cache()) if request.may_narrow_cache else (request,)
    return tuple(place for place, kind in places.items() if kind in [each.engine_kind(*place) for each in asked])


def capacities(
    request: Request, pools: Sequence[Pool], reported: Mapping[str, int], fleet: Fleet, memo: Memo | None = None
) -> dict[str, int]:
    """Convert ``reported``, by pool, to the tokens that requests of full length get.

    The figures of an engine that refuses the spec stay as they are.
    """
    found = dict(reported)
    for pool in pools:
        gpu, own = fleet.named(pool.gpu_type), request.on(pool.engine)
        if pool.name in reported and gpu is not None and own is not None:
            _, settings, figures = _predicted(request, gpu, pool, memo)
            engine = engine_of(pool.engine)
            tokens = engine.full_length_tokens(own, gpu, pool.split, settings, figures, reported[pool.name])
            found[pool.name] = tokens
    return found


def _of_pool(
    request: Request, pool: Pool, around: Surroundings, tokens: int | None, fleet: Fleet, memo: Memo | None
) -> Observation | None:
    gpu = fleet.named(pool.gpu_type)
    failure = memory_failure(pool, around.pods.get(pool.name, ())) if pool.too_large else None
    serves = tokens is not None and pool.ready > 0
    if gpu is None or not (serves or failure is not None) or request.on(pool.engine) is None:
        return None  # an engine that refuses the spec says nothing about the request's own one
    by_law, settings, figures = _predicted(request, gpu, pool, memo)
    kind = by_law.engine_kind(gpu.name, pool.split)
    most = figures.budget_bytes - figures.weights_bytes * LEAST_WEIGHTS_PERCENT // 100
    if tokens is not None and serves:
        engine = engine_of(by_law.engine.name)
        predicted, available = engine.cache_bytes(by_law, gpu, pool.split, settings, figures, tokens)
        if available > most:
            return None  # no engine has that much: the figure belongs to another engine or is garbled
        return Observation(kind, Witness.METRICS, predicted, available, settings.limits)
    left = None if failure is None else failure.available_kv_bytes
    if left is not None and not -gpu.usable_bytes <= left <= most:
        left = None  # no engine lacks more than a whole GPU: the message is garbled, and only the failure counts
    witness = Witness.OUT_OF_MEMORY if left is None else Witness.START_FAILURE
    return Observation(kind, witness, figures.available_kv_bytes, left, settings.limits)


def _predicted(
    request: Request, gpu: GpuType, pool: Pool, memo: Memo | None
) -> tuple[Request, EngineSettings, MemoryEstimate]:
    """The estimate by the memory law alone, for the settings that the pool's engines were given."""
    by_law = as_it_runs(request, pool)
    by_law = replace(by_law, corrections=()) if by_law.corrections else by_law
    return by_law, *sized(by_law, gpu, pool.split, memo)
