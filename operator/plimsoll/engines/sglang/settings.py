"""Engine flags that follow from the request, the GPU and the split."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.engines.engine_choice import EngineVersion, StaticShare
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, ceil_div
from plimsoll.engines.sglang.memory.estimate import least_bytes
from plimsoll.engines.sglang.memory.free import free_bytes
from plimsoll.engines.sglang.memory.outside import graph_sequences, outside
from plimsoll.engines.sglang.memory.pool import STATES_OF_REQUEST, USUAL_WINDOW_THOUSANDTHS, cells_of
from plimsoll.memory.load import engine_shape, needed_tokens

_STEPS = ((35, 2048), (60, 4096))
_LARGE_STEP, _SMALL_STEP = 8192, 2048
"""Tokens of a step by GiB of the card, as the engine chooses them (``--chunked-prefill-size``), but for 16,384 from
160 GiB on, and 4,096 from 20 GiB on in 0.5.23 (2,048 in 0.5.14 and 0.5.19). What is kept free for steps grows with
them, so smaller ones stay."""

DTYPES = {Precision.FP32: "float32", Precision.BF16: "bfloat16", Precision.FP16: "float16"}
KV_DTYPES = {
    KvPrecision.BF16: "bfloat16",
    KvPrecision.FP8: "fp8_e4m3",
    KvPrecision.NVFP4: "nvfp4",
}
"""The engine's words for ``--kv-cache-dtype``."""

_ALL_WINDOWS = 1000


def engine_settings(request: Request, gpu: GpuType, split: Split) -> EngineSettings:
    """Return the flags of one replica. Every default that depends on the card or the release is set explicitly."""
    sequences = sequences_of(request, split)
    tokens = request.engine.max_batched_tokens or _step(gpu)
    dtype = _dtype(request.model, request.precision)
    settings = EngineSettings(
        max_model_len=request.shape.context_tokens,
        max_num_seqs=sequences,
        max_num_batched_tokens=min(tokens, max(_SMALL_STEP, sequences * request.shape.context_tokens)),
        gpu_memory_utilization_percent=request.engine.gpu_memory_utilization_percent,
        dtype=DTYPES[dtype],
        quantization=_quantization(request.model, request.precision),
        kv_cache_dtype=_kv_cache_dtype(request.model, request.kv_precision, dtype),
        enforce_eager=request.engine.enforce_eager,
        media=request.engine.media,
        drafting=None if request.engine.speculation is None else request.engine.speculation.drafting,
    )
    return with_share(request, gpu, split, settings)


def with_share(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> EngineSettings:
    """Return the settings with the largest share that leaves room for all that comes after the pools.

    It is at most the user's share of the card.
    """
    free = free_bytes(gpu, split)
    most = min(
        gpu.usable_bytes * request.engine.gpu_memory_utilization_percent // 100,
        free - outside(request, gpu, split, settings).total_bytes,
    )
    thousandths = max(1, min(999, 1000 * most // free))
    of_card = 100 * free * thousandths // (1000 * gpu.usable_bytes)
    static = _static(request, split, settings, thousandths)
    return replace(settings, gpu_memory_utilization_percent=of_card, static=static)


def with_a_small_step(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> EngineSettings:
    """Return the same settings with a small step, and the share that it allows, unless the user fixed the step."""
    if request.engine.max_batched_tokens is not None or settings.max_num_batched_tokens <= _SMALL_STEP:
        return settings
    return with_share(request, gpu, split, replace(settings, max_num_batched_tokens=_SMALL_STEP))


def may_fit(request: Request, gpu: GpuType, split: Split) -> bool:
    """Whether weights and cache are within the share that the smallest step leaves. False is certain."""
    static = with_a_small_step(request, gpu, split, engine_settings(request, gpu, split)).static
    if static is None:
        return True
    return least_bytes(request, split, static) <= gpu.usable_bytes * static.thousandths // 1000


def sequences_of(request: Request, split: Split) -> int:
    """Return the requests that an engine runs at the same time: the declared number, or a larger one that was chosen.

    ``--max-running-requests`` is of a replica: the engine divides it by its ranks of data parallelism.
    """
    declared, chosen = request.shape.concurrency, request.engine.max_sequences
    return split.share(declared if chosen is None else max(declared, chosen))


def most_sequences(request: Request, gpu: GpuType) -> int:
    """Return the most requests at the same time that the engine's own decode graphs are made for."""
    del request
    return graph_sequences(gpu)


def _static(request: Request, split: Split, settings: EngineSettings, thousandths: int) -> StaticShare:
    cells, sequences = cells_of(request, split), settings.max_num_seqs
    slots = STATES_OF_REQUEST * sequences if cells.slot else None
    if not cells.window:
        return StaticShare(thousandths, state_slots=slots)
    # A running request keeps its window and a page, and the one that is read a whole step in addition.
    held = sequences * (cells.window_tokens + cells.page) + settings.max_num_batched_tokens
    tokens = max(1, needed_tokens(engine_shape(request.shape, split)))
    wanted = ceil_div(1000 * held, tokens)
    ratio = wanted if wanted <= USUAL_WINDOW_THOUSANDTHS else min(_ALL_WINDOWS, wanted)
    return StaticShare(thousandths, ratio, slots)


def cache_refusal(model: ModelFacts, precision: Precision, kv_precision: KvPrecision, _: EngineVersion) -> str | None:
    """Return why the engine has no such cache for a model, and what to write; None where it has.

    ``--kv-cache-dtype`` has no word for float16: only a model in float16 gets it, by itself.
    """
    if kv_precision in KV_DTYPES or _automatic(model, _dtype(model, precision)) is kv_precision:
        return None
    return f"SGLang has no {kv_precision} cache for this model: write auto."


def _automatic(model: ModelFacts, dtype: Precision) -> KvPrecision:
    """Return the type of the cache where nobody names one."""
    return model.checkpoint.kv_precision or (KvPrecision.FP16 if dtype is Precision.FP16 else KvPrecision.BF16)


def _step(gpu: GpuType) -> int:
    return next((tokens for gib, tokens in _STEPS if gpu.total_bytes < gib * GIB), _LARGE_STEP)


def _dtype(model: ModelFacts, precision: Precision) -> Precision:
    """Return the 16- or 32-bit type of everything that is not quantized."""
    return model.checkpoint.dtype_beside_quantized if precision.is_quantized else precision


def _quantization(model: ModelFacts, precision: Precision) -> str | None:
    """Return the quantization flag, which only online quantization needs."""
    is_published = precision is model.checkpoint.precision or not precision.is_quantized
    return None if is_published else precision.value


def _kv_cache_dtype(model: ModelFacts, precision: KvPrecision, dtype: Precision) -> str:
    """Return ``auto`` where the engine would choose the same type."""
    return "auto" if precision is _automatic(model, dtype) else KV_DTYPES[precision]
