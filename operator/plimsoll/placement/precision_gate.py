"""Which GPUs can compute in which precision."""

from __future__ import annotations

from plimsoll.domain.gpus import GpuType, Vendor
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.precision import KvPrecision, Precision

MIN_COMPUTE_CAPABILITY = (7, 5)
"""vLLM's images are built for 7.5 and up; Volta is out (``docker/Dockerfile``)."""

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
}
"""Least CUDA compute capability per weight precision: ``get_min_capability`` of vLLM's quantization methods."""

_KV_FP8_MINIMUM = (8, 0)
"""FP8 KV cache: FlashInfer and FlashAttention need 8.0; older cards are left to the slow path nobody plans for."""

_GFX_WITH_FP8 = ("gfx942", "gfx950")
"""AMD targets with FP8 units: CDNA3 (FNUZ) and CDNA4."""

_GFX_WITH_MX = ("gfx950",)
"""AMD targets with MX formats: CDNA4."""


def missing_capability(
    model: ModelFacts, precision: Precision, kv_precision: KvPrecision, gpu: GpuType
) -> tuple[tuple[str, str], ...]:
    """Empty where the GPU can run it; else what is needed and what the GPU has, as numbers for a rejection."""
    if gpu.vendor is Vendor.AMD:
        return _missing_on_amd(precision, kv_precision, gpu.gfx or "unknown")
    return _missing_on_nvidia(model, precision, kv_precision, gpu.compute_capability or (0, 0))


def _missing_on_nvidia(
    model: ModelFacts, precision: Precision, kv_precision: KvPrecision, have: tuple[int, int]
) -> tuple[tuple[str, str], ...]:
    needs = [("precision " + precision, max(MIN_COMPUTE_CAPABILITY, _NVIDIA_MINIMUM[precision]))]
    if model.checkpoint.precision is Precision.FP32 and precision is Precision.FP32:
        needs.append(("precision fp32", MIN_COMPUTE_CAPABILITY))
    if kv_precision is KvPrecision.FP8:
        needs.append(("kvCache.precision fp8", _KV_FP8_MINIMUM))
    if kv_precision is KvPrecision.BF16 and not precision.is_quantized:
        needs.append(("kvCache.precision bf16", (8, 0)))
    for what, minimum in needs:
        if have < minimum:
            return _numbers(what, f"compute capability {_dotted(minimum)}", _dotted(have))
    return ()


def _missing_on_amd(precision: Precision, kv_precision: KvPrecision, gfx: str) -> tuple[tuple[str, str], ...]:
    if precision is Precision.FP8 and gfx not in _GFX_WITH_FP8:
        return _numbers("precision fp8", " or ".join(_GFX_WITH_FP8), gfx)
    if precision is Precision.MXFP4 and gfx not in _GFX_WITH_MX:
        return _numbers("precision mxfp4", " or ".join(_GFX_WITH_MX), gfx)
    if precision is Precision.NVFP4:
        return _numbers("precision nvfp4", "an NVIDIA GPU", gfx)
    if kv_precision is KvPrecision.FP8 and gfx not in _GFX_WITH_FP8:
        return _numbers("kvCache.precision fp8", " or ".join(_GFX_WITH_FP8), gfx)
    return ()


def _numbers(what: str, need: str, have: str) -> tuple[tuple[str, str], ...]:
    return (("what", what), ("need", need), ("have", have))


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
