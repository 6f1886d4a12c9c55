"""Engine flags that follow from the request, the GPU and the split."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import ModelFacts, Task
from plimsoll.domain.models.precision import TURBOQUANT, WIDE, KvPrecision, Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.capabilities import lacks_bf16, refuses_float16, upcasts
from plimsoll.engines.vllm.memory.estimate import least_bytes, least_step
from plimsoll.engines.vllm.memory.laws.laws import law_for
from plimsoll.engines.vllm.memory.outside.cuda_graphs import NO_GRAPHS, GraphKind, graph_kind, largest_capture
from plimsoll.engines.vllm.memory.outside.outside_budget import Outside, outside_budget
from plimsoll.engines.vllm.releases.options import default_sequences, default_step, has_small_defaults
from plimsoll.engines.vllm.releases.support import needs_permission
from plimsoll.memory.draft import draft_tokens

_LARGE_GPU_BYTES = 70 * GIB
"""From this size on, a GPU gets the large step, except the A100 and, since 0.33, the GB10; below it, the small step.

The sizes are vLLM's defaults of a server (``engine/arg_utils.py``, ``get_batch_defaults``), with two exceptions. vLLM
0.8 counts the A100 as large. Since 0.28 (#51726) vLLM takes 16,384 tokens on GPUs of 160 GiB and more. The operator
always passes the flag, and stays at 8,192 there: activations and buffers grow with the step, so a smaller step leaves
more memory for the cache, and a larger step only makes long prefills faster. The laws were fitted to starts with 8,192.
A user sets another step with ``spec.engine.maxBatchedTokens``.
"""

_LARGE_STEP_TOKENS = 8192
_SMALL_STEP_TOKENS = 2048

_LARGE_SEQUENCES = 1024
_SMALL_SEQUENCES = 256
"""vLLM's default ``--max-num-seqs`` of a server, on large GPUs and on others (``get_batch_defaults``)."""

_LARGE_SEQUENCES_SINCE = EngineVersion(0, 8, 5)
"""Before, large GPUs had the small default too, or one for all GPUs."""

_SAME_TYPES_SINCE = EngineVersion(0, 33)

_CASTS_SINCE = EngineVersion(0, 9)
"""0.8 refuses a bfloat16 checkpoint on a GPU without bfloat16 unless a type is named (``config.py``, 0.8.5, 0.9.0)."""

_VLLM_DTYPES = {Precision.FP32: "float32", Precision.BF16: "bfloat16", Precision.FP16: "float16"}
KV_DTYPES = {
    KvPrecision.BF16: "bfloat16",
    KvPrecision.FP16: "float16",
    KvPrecision.FP8: "fp8",
    KvPrecision.NVFP4: "nvfp4",
    KvPrecision.INT8: "int8_per_token_head",
    KvPrecision.INT4: "int4_per_token_head",
    KvPrecision.FP8_SCALED: "fp8_per_token_head",
    **{each: each.value for each in TURBOQUANT},
}
"""The engine's words for ``--kv-cache-dtype``."""


def engine_settings(request: Request, gpu: GpuType, split: Split) -> EngineSettings:
    """Return the flags of one replica. Every default that changed between releases is set explicitly."""
    engine, any_load = request.engine, _settings_of(request, gpu, split)
    batched_tokens = _batched_tokens(request, gpu, split)
    return EngineSettings(
        max_model_len=request.shape.context_tokens,
        max_num_seqs=sequences_of(request, gpu, split),
        max_num_batched_tokens=batched_tokens,
        gpu_memory_utilization_percent=_utilization_percent(request, gpu, split, any_load, batched_tokens),
        dtype=any_load.dtype,
        quantization=any_load.quantization,
        kv_cache_dtype=any_load.kv_cache_dtype,
        enforce_eager=engine.enforce_eager,
        residency=engine.residency,
        lora=engine.lora,
        media=engine.media,
        drafting=None if engine.speculation is None else engine.speculation.drafting,
        runner=_runner(request),
        deprecated_quantization=needs_permission(request.model, request.precision, engine.version),
        model_runner=engine.model_runner,
        host_cache_bytes=engine.host.kv_bytes if engine.host.by_spec else 0,
    )


class _AnyLoad(NamedTuple):
    """The part of the settings that is the same for every load, and the memory that decides the utilization."""

    dtype: str
    quantization: str | None
    kv_cache_dtype: str
    graphs: GraphKind
    outside: Outside


def _settings_of(request: Request, gpu: GpuType, split: Split) -> _AnyLoad:
    engine = request.engine
    return _any_load(
        request.model,
        request.precision,
        request.kv_precision,
        engine.version,
        engine.model_runner,
        gpu,
        split,
        adapters=engine.lora is not None,
        enforce_eager=engine.enforce_eager,
    )


@lru_cache(maxsize=4096)
def _any_load(
    model: ModelFacts,
    precision: Precision,
    kv_precision: KvPrecision,
    version: EngineVersion,
    model_runner: int | None,
    gpu: GpuType,
    split: Split,
    *,
    adapters: bool,
    enforce_eager: bool,
) -> _AnyLoad:
    law, dtype = law_for(version, model_runner), _dtype(model, precision, gpu, version)
    return _AnyLoad(
        dtype=_VLLM_DTYPES[dtype],
        quantization=_quantization(model, precision),
        kv_cache_dtype=_kv_cache_dtype(model, kv_precision, gpu, dtype),
        graphs=NO_GRAPHS if enforce_eager else graph_kind(model, split, law, gpu, adapters=adapters),
        outside=outside_budget(model, gpu, split, law),
    )


def sequences_of(request: Request, gpu: GpuType, split: Split) -> int:
    """Return the requests that an engine runs at the same time: the declared number, or the larger one that was chosen.

    Both are of a replica. With data parallelism each engine gets its share of the chosen number, or its seats for the
    declared number. An engine that somebody starts without an operator has the named number, or its own default.
    """
    if request.engine.own_defaults:
        return min(_own_sequences(request, gpu), _own_step(request, gpu))
    chosen = request.engine.max_sequences
    return (
        split.seats(request.shape.concurrency)
        if chosen is None
        else split.share(max(request.shape.concurrency, chosen))
    )


def _own_sequences(request: Request, gpu: GpuType) -> int:
    engine = request.engine
    return engine.max_sequences or default_sequences(engine.version, gpu)


def _own_step(request: Request, gpu: GpuType) -> int:
    """Return the tokens of a step that the engine chooses by itself, where nobody names them.

    Source: ``engine/arg_utils.py`` (``_set_default_max_num_seqs_and_batched_tokens_args``): at most all sequences at
    full length, and at least the longest input that is read as a whole: an engine of 0.25.1 raised its 2,048 to the
    2,496 tokens of Gemma 4's longest video.
    """
    engine, sequences = request.engine, _own_sequences(request, gpu)
    if engine.max_batched_tokens is not None:
        return engine.max_batched_tokens
    usual = min(default_step(engine.version, gpu), sequences * request.shape.context_tokens)
    return max(usual, least_step(request, 0))


def most_sequences(request: Request, gpu: GpuType) -> int:
    """Return the most requests at the same time that vLLM's own defaults and its CUDA graphs are made for.

    A step with more tokens than the largest captured graph runs without a full graph, and each sequence brings one
    token and its drafted ones (:data:`~plimsoll.engines.vllm.memory.outside.cuda_graphs.MAX_CAPTURE`).
    """
    large = _is_large(gpu, request.engine.version) and request.engine.version >= _LARGE_SEQUENCES_SINCE
    usual = _LARGE_SEQUENCES if large else _SMALL_SEQUENCES
    if request.engine.enforce_eager:
        return usual
    return min(usual, largest_capture(request.model, gpu) // (1 + draft_tokens(request)))


def with_a_small_step(request: Request, _: GpuType, __: Split, settings: EngineSettings) -> EngineSettings:
    """Return the same settings with the step of a small card, unless the user fixed the step.

    A large card has a larger step by default. The activations of that step can be the reason why a model does not fit.
    """
    tokens = _small_step(request, settings.max_num_seqs, settings.max_num_batched_tokens)
    return settings if tokens == settings.max_num_batched_tokens else replace(settings, max_num_batched_tokens=tokens)


def may_fit(request: Request, gpu: GpuType, split: Split) -> bool:
    """Whether weights and cache with the smallest step are within the user's share of the GPU. False is certain."""
    tokens = _small_step(request, sequences_of(request, gpu, split), _batched_tokens(request, gpu, split))
    most = gpu.usable_bytes * request.engine.gpu_memory_utilization_percent // 100
    return least_bytes(request, gpu, split, batched_tokens=tokens) <= most


def _small_step(request: Request, sequences: int, usual: int) -> int:
    """Return the step of a small card where the usual step is larger and the user has not fixed it."""
    if request.engine.max_batched_tokens is not None or request.engine.own_defaults:
        return usual
    return max(least_step(request, sequences), min(usual, _SMALL_STEP_TOKENS))


def _batched_tokens(request: Request, gpu: GpuType, split: Split) -> int:
    """Return the tokens per step: at least the engine's minimum, and at most all sequences at full length.

    If the two conflict, the minimum wins. An engine that somebody starts without an operator keeps its own step.
    """
    if request.engine.own_defaults:
        return _own_step(request, gpu)
    wanted = request.engine.max_batched_tokens or _step_tokens(request, gpu)
    sequences = sequences_of(request, gpu, split)
    return max(least_step(request, sequences), min(wanted, sequences * request.shape.context_tokens))


def _step_tokens(request: Request, gpu: GpuType) -> int:
    return _LARGE_STEP_TOKENS if _is_large(gpu, request.engine.version) else _SMALL_STEP_TOKENS


def _is_large(gpu: GpuType, version: EngineVersion) -> bool:
    small = "a100" in gpu.name or has_small_defaults(version, gpu)
    return gpu.usable_bytes >= _LARGE_GPU_BYTES and not small


def _runner(request: Request) -> str | None:
    """Return the runner that the engine is started with: by itself it generates for some names of classes."""
    return "pooling" if request.model.task is Task.POOL else None


def _utilization_percent(request: Request, gpu: GpuType, split: Split, any_load: _AnyLoad, batched_tokens: int) -> int:
    """Return the user's share, lowered where CUDA, NCCL and uncharged graphs would not fit outside it.

    The engine refuses to start when less than its share is free at its first snapshot. It fails in graph capture when
    the graphs are not in its budget and do not fit outside it. Nobody lowers it where there is no operator.
    """
    if request.engine.own_defaults:
        return request.engine.gpu_memory_utilization_percent
    sequences = sequences_of(request, gpu, split)
    graphs = any_load.graphs.parts(sequences * (1 + draft_tokens(request)), batched_tokens)
    outside = any_load.outside.total_bytes(graphs, sequences, batched_tokens)
    most = 100 * (gpu.usable_bytes - outside) // gpu.usable_bytes
    return max(1, min(request.engine.gpu_memory_utilization_percent, most))


def served_on(request: Request, gpu: GpuType) -> Request:
    """Return the request in the type that the engine chooses where nobody names one.

    A GPU without bfloat16 gets float16. A model that the release does not start in float16 gets bfloat16, or float32 on
    such a GPU; its cache then has 32 bits, too. Source: ``_resolve_auto_dtype`` of vLLM's ``config/model.py``, 0.9 to
    0.33. What it does to the parts of a quantized checkpoint that are not quantized is left to a doubt.
    """
    engine, model = request.engine, request.model
    if not engine.casts_type or engine.version < _CASTS_SINCE or request.precision.is_quantized:
        return request
    if upcasts(request, gpu):
        return _in_type(request, Precision.FP32, KvPrecision.BF16)
    if request.precision is Precision.BF16 and lacks_bf16(gpu):
        return _in_type(request, Precision.FP16, KvPrecision.FP16)
    if request.precision is Precision.FP16 and refuses_float16(model, engine.version):
        return _in_type(request, Precision.BF16, KvPrecision.BF16)
    return request


def _in_type(request: Request, precision: Precision, cache: KvPrecision) -> Request:
    """Return the request in another type. A cache that is not quantized follows it."""
    is_wide = request.kv_precision in WIDE
    return replace(request, precision=precision, kv_precision=cache if is_wide else request.kv_precision)


def _dtype(model: ModelFacts, precision: Precision, gpu: GpuType, release: EngineVersion) -> Precision:
    """Return the 16- or 32-bit type of everything that is not quantized. Cards before Ampere have no bf16."""
    dtype = _dtype_beside_quantized(model, precision)
    if dtype is Precision.FP16 and precision.is_quantized and refuses_float16(model, release):
        return Precision.BF16
    return Precision.FP16 if dtype is Precision.BF16 and lacks_bf16(gpu) else dtype


def _dtype_beside_quantized(model: ModelFacts, precision: Precision) -> Precision:
    return model.checkpoint.dtype_beside_quantized if precision.is_quantized else precision


def _quantization(model: ModelFacts, precision: Precision) -> str | None:
    """Return the quantization flag, which only online quantization needs.

    For a quantized checkpoint, the engine reads the checkpoint's configuration.
    """
    if precision is model.checkpoint.precision or not precision.is_quantized:
        return None
    return precision.value


def _kv_cache_dtype(model: ModelFacts, precision: KvPrecision, gpu: GpuType, dtype: Precision) -> str:
    """Return ``auto`` where the engine would choose the same type. Without bf16, cache and weights are cast to fp16."""
    casts = precision is KvPrecision.BF16 and lacks_bf16(gpu) and dtype is not Precision.FP32
    wanted = KvPrecision.FP16 if casts else precision
    automatic = model.checkpoint.kv_precision or _same_as(dtype)
    return "auto" if wanted is automatic else KV_DTYPES[wanted]


def cache_refusal(
    model: ModelFacts, precision: Precision, kv_precision: KvPrecision, release: EngineVersion
) -> str | None:
    """Return why the engine does not start with a 16-bit cache, and what to write; None where it does.

    Source: ``_reject_mismatched_float_kv_cache`` of ``config/vllm.py``, 0.33. On GPUs without bf16 both types are fp16.
    """
    if release < _SAME_TYPES_SINCE or kv_precision not in (KvPrecision.BF16, KvPrecision.FP16):
        return None
    dtype = _dtype_beside_quantized(model, precision)
    if KV_DTYPES[kv_precision] == _VLLM_DTYPES[dtype]:
        return None
    return (
        f"Since {_SAME_TYPES_SINCE} vLLM refuses to start where a 16-bit cache has another type than the model, here "
        f"{dtype.value}: write auto, or use a release before {_SAME_TYPES_SINCE}."
    )


def _same_as(dtype: Precision) -> KvPrecision:
    return KvPrecision.FP16 if dtype is Precision.FP16 else KvPrecision.BF16
