"""The GPUs that can compute in each precision."""

from __future__ import annotations

import re
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import TURBOQUANT, KvPrecision, Precision
from plimsoll.domain.requests.serving import Request

MIN_COMPUTE_CAPABILITY = (7, 5)
"""vLLM's images are built for 7.5 and up, so Volta is not supported (``docker/Dockerfile``)."""

_NVIDIA_MINIMUM: dict[Precision, tuple[int, int]] = {
    Precision.FP32: (7, 5),
    Precision.FP16: (7, 5),
    Precision.BF16: (8, 0),
    Precision.FP8: (7, 5),
    Precision.INT8: (7, 5),
    Precision.AWQ: (7, 5),
    Precision.GPTQ: (7, 5),
    Precision.MXFP4: (8, 0),
    Precision.NVFP4: (7, 5),
    Precision.BITSANDBYTES: (7, 5),
}
"""Least CUDA compute capability per weight precision: ``get_min_capability`` of vLLM's quantization methods.

FP8 runs natively from 8.9 on, and on older cards with 16-bit activations (Marlin). NVFP4 runs natively from 10.0 on.
The weights take the same memory in all cases. Where the method of a checkpoint needs more, its facts hold the minimum.
"""

_KV_MINIMUM: dict[KvPrecision, tuple[int, int]] = {
    KvPrecision.FP8: (8, 0),
    KvPrecision.NVFP4: (10, 0),
    KvPrecision.INT8: (8, 0),
    KvPrecision.INT4: (8, 0),
    KvPrecision.FP8_SCALED: (8, 9),
    **dict.fromkeys(TURBOQUANT, (8, 0)),
}
"""Least capability per KV precision.

FP8: FlashInfer and FlashAttention need 8.0. Older cards have only a slow path, which this table does not allow.
NVFP4: FlashInfer reads it natively on 10.x. The workaround of vLLM 0.32 on 8.x, 9.x and 12.x lacks head size 64 and
attention sinks (``v1/attention/backends/flashinfer.py``, ``supports_combination``). Older releases have no workaround.
INT8, INT4 and FP8 with a scale for every token and head run on Triton's backend alone, which takes any capability
(``v1/attention/backends/triton_attn.py``); it computes in bfloat16 from 8.0 on, and Triton converts FP8 from 8.9 on.
TurboQuant's first and last layers, which keep 16 bits, need FlashAttention 2, which needs 8.0.
"""

_GFX_WITH_FP8 = ("gfx942", "gfx950")
"""AMD targets with FP8 units: CDNA3 (FNUZ) and CDNA4."""

_NVIDIA_CACHES = (KvPrecision.NVFP4, *TURBOQUANT)
"""Formats without kernels for AMD's GPUs, or (TurboQuant) with such that nothing is known of."""

_FP8_CACHES = (KvPrecision.FP8, KvPrecision.FP8_SCALED)

_GFX_WITH_MX = ("gfx90a", "gfx942", "gfx950", "gfx11", "gfx12")
"""AMD targets, or families of targets, with the Triton kernels for MXFP4 experts.

Source: vLLM, ``gpt_oss_triton_kernels_moe.py``; gpt-oss-20b was measured on a Radeon AI PRO R9700 (gfx1201).
"""

_NVIDIA_ONLY = (Precision.NVFP4, Precision.BITSANDBYTES)
"""Precisions that ``supported_quantization`` of ``platforms/rocm.py`` does not list, or that have no kernels there."""


_FLOAT32_METHODS = ("compressed-tensors", "torchao")
"""Methods of checkpoints that take activations in float32, besides bitsandbytes (0.32, 0.33)."""


class _Overflow(NamedTuple):
    """Classes that overflow in float16, the first release that does not start them in it, and that which does again."""

    classes: re.Pattern[str]
    since: EngineVersion
    until: EngineVersion | None = None


_OVERFLOWS = (
    _Overflow(
        re.compile(r"(Gemma2|Glm4)(For\w+|Model)|Gemma3(ForConditionalGeneration|Model)"), EngineVersion(0, 9, 1)
    ),
    _Overflow(re.compile(r"Gemma3(ForCausalLM|Text(For\w+|Model))"), EngineVersion(0, 10, 2)),
    _Overflow(re.compile(r"Plamo2(For\w+|Model)"), EngineVersion(0, 9, 1), EngineVersion(0, 27)),
)
"""``_FLOAT16_NOT_SUPPORTED_MODELS`` of ``config/model.py`` (earlier ``config.py``) in the wheels of 0.8.5 to 0.33. It
names kinds of configurations: ``gemma3`` is the class with a tower, ``gemma3_text`` the one without."""

BF16_SINCE = (8, 0)
"""The first compute capability with bfloat16 (``check_if_supports_dtype`` of ``platforms/cuda.py``)."""


def lacks_bf16(gpu: GpuType) -> bool:
    """Whether the GPU cannot compute in bfloat16."""
    return gpu.compute_capability is not None and gpu.compute_capability < BF16_SINCE


def refuses_float16(model: ModelFacts, release: EngineVersion) -> bool:
    """Whether a release does not start with the model in float16."""
    return any(
        row.since <= release
        and (row.until is None or release < row.until)
        and row.classes.fullmatch(model.architecture) is not None
        for row in _OVERFLOWS
    )


def upcasts(request: Request, gpu: GpuType) -> bool:
    """Whether the engine chooses float32: nobody names a type, and the model starts in no 16-bit type of the GPU.

    Source: ``_resolve_auto_dtype`` of vLLM's ``config/model.py``, 0.9.1 to 0.33. Most kernels for quantized weights
    take no such activations, and the engine refuses to start (``get_supported_act_dtypes`` of each method).
    """
    if not (request.engine.casts_type and lacks_bf16(gpu)):
        return False
    checkpoint = request.model.checkpoint
    takes_it = (
        not request.precision.is_quantized
        or request.precision is Precision.BITSANDBYTES
        or (request.precision is checkpoint.precision and checkpoint.method in _FLOAT32_METHODS)
    )
    return takes_it and refuses_float16(request.model, request.engine.version)


def missing_capability(request: Request, gpu: GpuType) -> tuple[tuple[str, str], ...]:
    """Return what is needed and what the GPU has, as numbers for a rejection. Empty where the GPU can run it."""
    model, precision = request.model, request.precision
    if precision is Precision.FP16 and refuses_float16(model, request.engine.version):
        return _numbers(f"{model.architecture}, which vLLM does not start in float16,", "precision bf16", "fp16")
    if gpu.vendor is Vendor.AMD:
        return _missing_on_amd(precision, request.kv_precision, gpu.gfx or "unknown")
    return _missing_on_nvidia(request, gpu)


def _missing_on_nvidia(request: Request, gpu: GpuType) -> tuple[tuple[str, str], ...]:
    model, precision, kv_precision = request.model, request.precision, request.kv_precision
    checkpoint, have = model.checkpoint, gpu.compute_capability or (0, 0)
    needs = [("precision " + precision, max(MIN_COMPUTE_CAPABILITY, _NVIDIA_MINIMUM[precision]))]
    if checkpoint.precision is precision and checkpoint.min_capability is not None:
        needs.append((f"the checkpoint's {precision}", checkpoint.min_capability))
    if kv_precision in _KV_MINIMUM:
        needs.append(("kvCache.precision " + kv_precision, _KV_MINIMUM[kv_precision]))
    if kv_precision is KvPrecision.BF16 and precision in (Precision.BF16, Precision.FP16):
        needs.append(("kvCache.precision bf16", BF16_SINCE))
    is_narrow = precision is not Precision.FP32 and not upcasts(request, gpu)
    if lacks_bf16(gpu) and is_narrow and refuses_float16(model, request.engine.version):
        needs.append((f"{model.architecture} in bfloat16 (vLLM does not start it in float16)", BF16_SINCE))
    for what, minimum in needs:
        if have < minimum:
            return _numbers(what, f"compute capability {_dotted(minimum)}", _dotted(have))
    if checkpoint.precision is precision and checkpoint.max_capability is not None and have > checkpoint.max_capability:
        most = f"compute capability {_dotted(checkpoint.max_capability)} at most"
        return _numbers(f"the checkpoint's {precision}", most, _dotted(have))
    return ()


def _missing_on_amd(precision: Precision, kv_precision: KvPrecision, gfx: str) -> tuple[tuple[str, str], ...]:
    if precision is Precision.FP8 and gfx not in _GFX_WITH_FP8:
        return _numbers("precision fp8", " or ".join(_GFX_WITH_FP8), gfx)
    if precision is Precision.MXFP4 and not gfx.startswith(_GFX_WITH_MX):
        return _numbers("precision mxfp4", " or ".join(_GFX_WITH_MX), gfx)
    if precision in _NVIDIA_ONLY:
        return _numbers("precision " + precision, "an NVIDIA GPU", gfx)
    if kv_precision in _NVIDIA_CACHES:
        return _numbers("kvCache.precision " + kv_precision, "an NVIDIA GPU", gfx)
    if kv_precision in _FP8_CACHES and gfx not in _GFX_WITH_FP8:
        return _numbers("kvCache.precision " + kv_precision, " or ".join(_GFX_WITH_FP8), gfx)
    return ()


def _numbers(what: str, need: str, have: str) -> tuple[tuple[str, str], ...]:
    return (("what", what), ("need", need), ("have", have))


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
