"""Observations of engines: found in pods and metrics. ``lessons`` says what is kept of them and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from plimsoll.decision.surroundings import Surroundings, is_updating
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.observations import Observation, Seen, Witness
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.engines.failures import EngineFailure
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.placement.demands.pools import Pool, as_it_runs
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.feasibility import sized

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
    """Return GPU types and splits where engines of exactly this request ran out of memory and reported no figure.

    An engine that ran more requests at the same time than are declared does not count: it first tries again with fewer.
    """
    declared = max(request.shape.concurrency, request.engine.max_sequences or 0)  # of all engines of a replica
    failures = (seen.observation for seen in own if seen.observation.witness is Witness.OUT_OF_MEMORY)
    kinds = [each.kind for each in failures if each.sequences <= each.kind.split.seats(declared)]
    places = {(kind.gpu_type, kind.split): kind for kind in kinds}
    asked = (request, request.with_narrow_cache()) if request.may_narrow_cache else (request,)
    return tuple(place for place, kind in places.items() if kind in [each.engine_kind(*place) for each in asked])


def capacities(
    request: Request, pools: Sequence[Pool], reported: Mapping[str, int], fleet: Fleet, memo: Memo | None = None
) -> dict[str, int]:
    """Convert ``reported``, by pool, to the tokens that requests of full length get."""
    found, engine = dict(reported), engine_of(request.engine.name)
    for pool in pools:
        gpu = fleet.named(pool.gpu_type)
        if pool.name in reported and gpu is not None:
            _, settings, figures = _predicted(request, gpu, pool, memo)
            tokens = engine.full_length_tokens(request, gpu, pool.split, settings, figures, reported[pool.name])
            found[pool.name] = tokens
    return found


def _of_pool(
    request: Request, pool: Pool, around: Surroundings, tokens: int | None, fleet: Fleet, memo: Memo | None
) -> Observation | None:
    gpu = fleet.named(pool.gpu_type)
    failure = _memory_failure(around, pool) if pool.too_large else None
    serves = tokens is not None and pool.ready > 0
    if gpu is None or not (serves or failure is not None):
        return None
    by_law, settings, figures = _predicted(request, gpu, pool, memo)
    kind = by_law.engine_kind(gpu.name, pool.split)
    step = (settings.max_num_batched_tokens, settings.max_num_seqs)
    most = figures.budget_bytes - figures.weights_bytes * LEAST_WEIGHTS_PERCENT // 100
    if tokens is not None and serves:
        engine = engine_of(request.engine.name)
        predicted, available = engine.cache_bytes(by_law, gpu, pool.split, settings, figures, tokens)
        if available > most:
            return None  # no engine has that much: the figure belongs to another engine or is garbled
        return Observation(kind, Witness.METRICS, predicted, available, *step)
    left = None if failure is None else failure.available_kv_bytes
    if left is not None and not -gpu.usable_bytes <= left <= most:
        left = None  # no engine lacks more than a whole GPU: the message is garbled, and only the failure counts
    witness = Witness.OUT_OF_MEMORY if left is None else Witness.START_FAILURE
    return Observation(kind, witness, figures.available_kv_bytes, left, *step)


def _predicted(
    request: Request, gpu: GpuType, pool: Pool, memo: Memo | None
) -> tuple[Request, EngineSettings, MemoryEstimate]:
    """The estimate by the memory law alone, for the settings that the pool's engines were given."""
    by_law = replace(request, corrections=()) if request.corrections else request
    by_law = as_it_runs(by_law, pool)
    return by_law, *sized(by_law, gpu, pool.split, memo)


def _memory_failure(around: Surroundings, pool: Pool) -> EngineFailure | None:
    failures = [pod.failure for pod in around.pods.get(pool.name, ()) if pod.failure is not None]
    return next((failure for failure in failures if failure.is_about_memory), None)
