"""Replicas of the scenarios: their KV cache is our own estimate, their price the catalogue's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from benchmarks.placement.fleets import CATALOG
from benchmarks.placement.kinds import request_for
from benchmarks.rebalance.values import EngineSpec
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.engines.registry import engine_of
from plimsoll.performance.model import Load, hourly_usd, performance
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.engine_limits import OtherStep, other_steps
from plimsoll.placement.options.engine_limits import with_step as with_fixed_step

CONTEXT_TOKENS = 32_768
SEQUENCES = 256
"""Requests that an engine runs at the same time, where the scenario is not about this number."""

MOST_KV = 0.85
"""The part of the KV cache that mean requests may fill. Requests come and grow by chance, so it is not the whole."""

MOST_TPOT = 0.8
"""The part of the promised time per token that the mean may take."""

_TYPES = {gpu.name: gpu for gpu in CATALOG}


@dataclass(frozen=True, slots=True)
class _Place:
    request: Request
    gpu: GpuType
    split: Split


@cache
def engine_spec(
    model: str,
    gpu_type: str,
    tensor_parallel: int,
    sequences: int = SEQUENCES,
    context: int = CONTEXT_TOKENS,
    step: int | None = None,
) -> EngineSpec:
    """Return one replica, as the operator would run it with this context and number of requests at the same time.

    ``step`` is the most tokens of a step; None: as the operator chooses it for the GPU type.

    Raises:
        LookupError: the catalogue does not hold the model or the GPU type.
        ValueError: the catalogue has no price for the GPU type, or the model does not fit.
    """
    place = _place(model, gpu_type, tensor_parallel, sequences, context, step)
    engine = engine_of(place.request.engine.name)
    settings = engine.settings(place.request, place.gpu, place.split)
    figures = engine.estimate(place.request, place.gpu, place.split, settings)
    if place.gpu.price is None or figures.kv_capacity_tokens < context:
        raise ValueError(f"{model} on {tensor_parallel} x {gpu_type} has no price or no room for one request")
    return EngineSpec(
        model=model,
        gpu_type=gpu_type,
        tensor_parallel=tensor_parallel,
        kv_tokens=figures.kv_capacity_tokens,
        max_num_seqs=settings.max_num_seqs,
        max_batched_tokens=settings.max_num_batched_tokens,
        hourly_price=float(hourly_usd(place.gpu.price, place.split)),
        context_tokens=context,
    )


def with_sequences(engine: EngineSpec, sequences: int) -> EngineSpec:
    """Return the replica with another number of requests at the same time, and the KV cache that is left then."""
    if sequences == engine.max_num_seqs:
        return engine
    return engine_spec(*_words(engine), sequences, engine.context_tokens, _own_step(engine))


def with_step(engine: EngineSpec, tokens: int) -> EngineSpec:
    """Return the replica with another step, and the KV cache that is left then."""
    if tokens == engine.max_batched_tokens:
        return engine
    return engine_spec(*_words(engine), engine.max_num_seqs, engine.context_tokens, tokens)


def steps_of(engine: EngineSpec) -> tuple[OtherStep, ...]:
    """Return the other steps that the operator could give the engine, where one request at full length is declared."""
    place = _place(*_words(engine), engine.max_num_seqs, engine.context_tokens)
    declared = replace(place.request, shape=ServingShape(engine.context_tokens, 1))
    runs = with_fixed_step(declared, engine.max_batched_tokens)
    return other_steps(declared, runs, place.gpu, place.split, engine.kv_tokens, Memo())


def _words(engine: EngineSpec) -> tuple[str, str, int]:
    return engine.model, engine.gpu_type, engine.tensor_parallel


def _own_step(engine: EngineSpec) -> int | None:
    """Return the replica's step where it is not the one that the operator chooses for the GPU type."""
    usual = engine_spec(*_words(engine), engine.max_num_seqs, engine.context_tokens)
    return None if usual.max_batched_tokens == engine.max_batched_tokens else engine.max_batched_tokens


def most_sequences(engine: EngineSpec) -> int:
    """Return the most requests at the same time that the operator would give the engine."""
    place = _place(engine.model, engine.gpu_type, engine.tensor_parallel, engine.max_num_seqs, engine.context_tokens)
    return engine_of(place.request.engine.name).most_sequences(place.request, place.gpu)


def _place(
    model: str, gpu_type: str, tensor_parallel: int, sequences: int, context: int, step: int | None = None
) -> _Place:
    request = request_for(model, ServingShape(context, min(sequences, 16)))
    chosen = replace(request.engine, max_sequences=sequences, max_batched_tokens=step)
    return _Place(replace(request, engine=chosen), _TYPES[gpu_type], Split(tensor_parallel))


def sustained_rate(engine: EngineSpec, prompt: float, output: float, tpot_seconds: float = 0.1) -> float:
    """Return the requests a second that one replica serves with room to spare, by the operator's performance model.

    It runs the most requests at the same time that its KV cache (:data:`MOST_KV`), its settings and the promised time
    per token (:data:`MOST_TPOT`) allow.
    """
    most = min(engine.max_num_seqs, int(MOST_KV * engine.kv_tokens / (prompt + output / 2)))
    numbers = range(most, 1, -1)
    running = next((each for each in numbers if _tpot(engine, prompt, output, each) <= MOST_TPOT * tpot_seconds), 1)
    return rate_at(engine, prompt, output, running)


def rate_with_kv(engine: EngineSpec, prompt: float, output: float, part: float) -> float:
    """Return the requests a second at which a part of one replica's KV cache is in use."""
    return rate_at(engine, prompt, output, part * engine.kv_tokens / (prompt + output / 2))


def rate_at(engine: EngineSpec, prompt: float, output: float, running: float) -> float:
    """Return the requests a second of one replica that always runs so many of them (Little's law)."""
    ttft, tpot = _seconds(engine, prompt, output, running)
    return running / (ttft + (output - 1) * tpot)


def _tpot(engine: EngineSpec, prompt: float, output: float, running: float) -> float:
    return _seconds(engine, prompt, output, running)[1]


def _seconds(engine: EngineSpec, prompt: float, output: float, running: float) -> tuple[float, float]:
    """Return the seconds to the first token and per later token, when requests come at random."""
    place = _place(engine.model, engine.gpu_type, engine.tensor_parallel, engine.max_num_seqs, engine.context_tokens)
    found = performance(
        place.request.model,
        place.request.precision,
        place.request.kv_precision,
        place.gpu,
        place.split,
        Load(prompt, output, running, rounds=float("inf")),
        engine.max_batched_tokens,
    )
    return found.typical_ttft_seconds, found.tpot_seconds
