"""Observations of engines: found in pods and metrics, kept in each object's status, used for every object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from plimsoll.app.objects import Surroundings, is_updating
from plimsoll.domain.engine_failures import EngineFailure
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.observations import Correction, Observation, Seen, Witness
from plimsoll.domain.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.memory.calibration import corrections
from plimsoll.placement.feasibility import sized
from plimsoll.placement.memo import Memo
from plimsoll.placement.pools import Pool, as_it_runs

MOST_KEPT = 40
"""Observations that one status holds; the newest stay."""

LEAST_WEIGHTS_PERCENT = 90
"""The least share of the estimated weights, which are counted exactly, that an engine must hold. An engine that reports
more KV cache than the rest of the budget is not believed."""


def remembered(recorded: Iterable[Seen], spec: str) -> tuple[Seen, ...]:
    """Return the recorded observations that count for this spec.

    A failed start counts until the spec changes: it may have another cause.
    """
    return tuple(seen for seen in recorded if seen.spec == spec or not _is_failure(seen.observation))


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


def merged(earlier: Iterable[Seen], now: Iterable[Seen]) -> tuple[Seen, ...]:
    """The latest success and the latest failure of each kind of engine, oldest first.

    An engine that serves removes an earlier failure of its kind.
    """
    latest = {(seen.observation.kind, _is_failure(seen.observation)): seen for seen in earlier}
    for seen in now:
        kind, failed = seen.observation.kind, _is_failure(seen.observation)
        if not failed:
            latest.pop((kind, True), None)
        latest.pop((kind, failed), None)
        latest[kind, failed] = seen
    return tuple(latest.values())[-MOST_KEPT:]


def common_lessons(seen: Iterable[Seen]) -> dict[str, tuple[Correction, ...]]:
    """Return the corrections learned from the engines of all objects, by model."""
    found: dict[str, list[Correction]] = {}
    for correction in corrections(each.observation for each in seen):
        found.setdefault(correction.kind.model, []).append(correction)
    return {model: tuple(each) for model, each in found.items()}


def lessons(own: Iterable[Seen], common: Iterable[Correction]) -> tuple[Correction, ...]:
    """Return one object's corrections: its own engines' measurements replace those of others for the same kind."""
    mine = tuple(each for each in corrections(seen.observation for seen in own) if each.exact)
    settled = {correction.kind for correction in mine}
    return (*mine, *(each for each in common if each.kind not in settled))


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
            tokens = engine.full_length_tokens(request, pool.split, settings, figures, reported[pool.name])
            found[pool.name] = tokens
    return found


def _is_failure(observation: Observation) -> bool:
    return observation.witness in (Witness.START_FAILURE, Witness.OUT_OF_MEMORY)


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
    if tokens is not None and serves:
        predicted, available = engine_of(request.engine.name).cache_bytes(by_law, pool.split, settings, figures, tokens)
        if available > figures.budget_bytes - figures.weights_bytes * LEAST_WEIGHTS_PERCENT // 100:
            return None  # no engine has that much: the figure belongs to another engine or is garbled
        return Observation(kind, Witness.METRICS, predicted, available, *step)
    left = None if failure is None else failure.available_kv_bytes
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
