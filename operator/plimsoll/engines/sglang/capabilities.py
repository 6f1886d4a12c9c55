"""The GPUs that an SGLang image can run on, as far as anything is known of it."""

from __future__ import annotations

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.sglang.launch import rocm_releases

_LEAST = (8, 0)
"""FlashInfer's kernels for attention, the usual ones, need Ampere."""

_WEIGHTS = {Precision.FP8: (8, 0), Precision.MXFP4: (8, 0), Precision.NVFP4: (8, 0)}
"""``get_min_capability`` of the quantization methods (``layers/quantization``), 0.5.23; others need less."""

_CACHES = {KvPrecision.FP8: (8, 6), KvPrecision.NVFP4: (10, 0)}
"""FP8 caches ran on RTX 3090 (0.5.12). What is lower has no start that is known."""


def missing_capability(request: Request, gpu: GpuType) -> Numbers:
    """Return what is needed and what the GPU has, as numbers for a rejection. Empty where the GPU can run it.

    SGLang's images for AMD's GPUs are one for each generation, and named by a date. Where no tag is known, the image is
    the user's to name.
    """
    if gpu.vendor is Vendor.AMD:
        release, known = str(request.engine.version), rocm_releases(gpu.gfx)
        if request.engine.image or release in known:
            return ()
        releases = f"spec.engine.version {' or '.join(known)}, or " if known else ""
        own = f"{releases}an image for {gpu.gfx} in spec.engine.image"
        return _numbers(f"SGLang {release} on AMD's GPUs", own, f"none of SGLang's own for {gpu.gfx}")
    have = gpu.compute_capability or (0, 0)
    needs = (
        ("SGLang", _LEAST),
        (f"precision {request.precision}", _WEIGHTS.get(request.precision, _LEAST)),
        (f"kvCache.precision {request.kv_precision}", _CACHES.get(request.kv_precision, _LEAST)),
    )
    for what, least in needs:
        if have < least:
            return _numbers(what, f"compute capability {_dotted(least)}", _dotted(have))
    return ()


def _numbers(what: str, need: str, have: str) -> Numbers:
    return (("what", what), ("need", need), ("have", have))


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
