"""The kernel that runs the experts: by number format, GPU, split and release.

The kernel is the default of an engine without environment settings, with FlashInfer and DeepGEMM installed as in the
published images. Sources: vLLM ``fused_moe/oracle/*.py`` (before 0.14 ``quantization/fp8.py`` and its like), read in
0.10.2 to 0.31.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import ModelFacts, Sharding
from plimsoll.domain.models.precision import Precision, Storage
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw

_WITHOUT_SCRATCH = ("GptOssForCausalLM",)
"""Classes without scratch: gpt-oss-20b takes as little as a dense model on vLLM 0.19.0 (H100)."""

_MANY_RANKS = 8


class Scheme(StrEnum):
    """The quantization of experts, as far as the choice of a kernel depends on it."""

    PLAIN = "16 bits"
    FP8_BLOCK = "FP8 in blocks"
    FP8_CHANNEL = "FP8 by channel"
    FP8_TENSOR = "FP8 by tensor"
    NVFP4 = "NVFP4"
    MXFP4 = "MXFP4"
    GPTQ = "GPTQ"
    AWQ = "AWQ"
    PACKED = "packed integers"
    OTHER = "other"


class Kernel(StrEnum):
    """The kernel that runs the experts."""

    FUSED = "fused function"
    """Frees all of its scratch."""
    MODULAR = "Triton, CUTLASS or Marlin"
    """Keeps a buffer for each projection."""
    DEEP_GEMM = "DeepGEMM"
    FLASHINFER = "FlashInfer"
    """Keeps only the output; the rest is inside."""
    TRTLLM = "TensorRT-LLM"
    """Keeps nothing."""
    FP4_CUTLASS = "CUTLASS for FP4"
    NONE = "none"


class _Ranks(StrEnum):
    """The way in which ranks share the experts."""

    ANY = "any"
    CUT = "cut"
    CUT_OFTEN = "cut over eight or more"


class _Row(NamedTuple):
    scheme: Scheme
    generations: tuple[int, ...]
    """Major compute capabilities; none means every GPU."""
    since: EngineVersion
    kernel: Kernel
    ranks: _Ranks = _Ranks.ANY


_V = EngineVersion
_HOPPER, _BLACKWELL, _CONSUMER = 9, 10, 12

_ROWS = (
    _Row(Scheme.PLAIN, (_HOPPER, _CONSUMER), _V(0, 20), Kernel.FLASHINFER),
    _Row(Scheme.PLAIN, (_BLACKWELL,), _V(0, 20), Kernel.TRTLLM),
    _Row(Scheme.PLAIN, (_HOPPER,), _V(0, 23), Kernel.MODULAR),
    _Row(Scheme.FP8_BLOCK, (_HOPPER, _BLACKWELL), _V(0, 11, 1), Kernel.DEEP_GEMM),
    _Row(Scheme.FP8_BLOCK, (_HOPPER, _BLACKWELL), _V(0, 12), Kernel.FUSED, _Ranks.CUT_OFTEN),
    _Row(Scheme.FP8_BLOCK, (_HOPPER, _BLACKWELL), _V(0, 14), Kernel.MODULAR, _Ranks.CUT_OFTEN),
    _Row(Scheme.FP8_BLOCK, (_HOPPER,), _V(0, 15), Kernel.FLASHINFER),
    _Row(Scheme.FP8_BLOCK, (_BLACKWELL,), _V(0, 15), Kernel.TRTLLM),
    _Row(Scheme.FP8_BLOCK, (_HOPPER,), _V(0, 17), Kernel.MODULAR, _Ranks.CUT),
    _Row(Scheme.FP8_BLOCK, (_CONSUMER,), _V(0, 24), Kernel.DEEP_GEMM),
    _Row(Scheme.FP8_CHANNEL, (_HOPPER, _BLACKWELL), _V(0, 11, 1), Kernel.MODULAR),
    _Row(Scheme.FP8_TENSOR, (_HOPPER,), _V(0, 15), Kernel.FLASHINFER),
    _Row(Scheme.FP8_TENSOR, (_BLACKWELL,), _V(0, 15), Kernel.TRTLLM),
    _Row(Scheme.FP8_TENSOR, (_CONSUMER,), _V(0, 16), Kernel.FLASHINFER),
    _Row(Scheme.NVFP4, (_BLACKWELL, _CONSUMER), _V(0, 11, 1), Kernel.FP4_CUTLASS),
    _Row(Scheme.NVFP4, (_BLACKWELL,), _V(0, 15), Kernel.TRTLLM),
    # FlashInfer's since 0.16. Six starts of 0.19 and 0.20 match this computation (forward.EXPERT_ROW_COPIES).
    _Row(Scheme.NVFP4, (_CONSUMER,), _V(0, 16), Kernel.MODULAR),
    _Row(Scheme.MXFP4, (_BLACKWELL,), _V(0, 20), Kernel.TRTLLM),
    _Row(Scheme.MXFP4, (_CONSUMER,), _V(0, 24), Kernel.DEEP_GEMM),
    _Row(Scheme.GPTQ, (), _V(0, 14), Kernel.FUSED),
    _Row(Scheme.GPTQ, (), _V(0, 20), Kernel.MODULAR),
    _Row(Scheme.AWQ, (), _V(0, 14), Kernel.FUSED),
    _Row(Scheme.AWQ, (), _V(0, 22), Kernel.MODULAR),
    _Row(Scheme.PACKED, (), _V(0, 14), Kernel.FUSED),
    _Row(Scheme.PACKED, (), _V(0, 23), Kernel.MODULAR),
)
"""The cases where a kernel other than the usual one runs. If several rows apply, the last one counts."""

_MODULAR_SINCE = _V(0, 14)

_EXPERTS = (Sharding.EXPERT_OUTPUTS, Sharding.EXPERT_INPUTS)


def kernel_of(model: ModelFacts, precision: Precision, split: Split, law: EngineLaw, gpu: GpuType | None) -> Kernel:
    """Return the kernel that runs the experts of ``model`` by default."""
    if model.architecture in _WITHOUT_SCRATCH:
        return Kernel.NONE
    usual = Kernel.MODULAR if law.release >= _MODULAR_SINCE else Kernel.FUSED
    capability = gpu.compute_capability if gpu is not None and gpu.vendor is Vendor.NVIDIA else None
    generation = None if capability is None else capability[0]
    scheme = scheme_of(model, precision)
    special = (
        row.kernel
        for row in reversed(_ROWS)
        if row.scheme is scheme
        and row.since <= law.release
        and (not row.generations or generation in row.generations)
        and _shared(split, row.ranks)
    )
    return next(special, usual)


def _shared(split: Split, ranks: _Ranks) -> bool:
    match ranks:
        case _Ranks.ANY:
            return True
        case _Ranks.CUT:
            return not split.expert_parallel
        case _Ranks.CUT_OFTEN:
            return not split.expert_parallel and split.expert_ranks >= _MANY_RANKS


def scheme_of(model: ModelFacts, precision: Precision) -> Scheme:
    """Return how most of the experts are stored. Experts quantized at load compute their input scales at run time."""
    if precision is not model.checkpoint.precision and precision.is_quantized:
        return Scheme.OTHER
    stored = [weight.storage for kind in model.kinds for weight in kind.weights if weight.sharding in _EXPERTS]
    quantized = [storage for storage in stored if storage.is_quantized]
    if not quantized:
        return Scheme.PLAIN
    return _scheme(max(quantized, key=quantized.count))


def _scheme(storage: Storage) -> Scheme:
    match storage.precision:
        case Precision.FP8 if storage.group_outputs is None:
            return Scheme.FP8_TENSOR
        case Precision.FP8 if storage.group_inputs is None:
            return Scheme.FP8_CHANNEL
        case Precision.FP8 if storage.group_outputs != 1:
            return Scheme.FP8_BLOCK
        case Precision.NVFP4:
            return Scheme.NVFP4
        case Precision.MXFP4:
            return Scheme.MXFP4
        case Precision.AWQ:
            return Scheme.AWQ
        case Precision.GPTQ:
            return Scheme.GPTQ if storage.zero_point_bits else Scheme.PACKED
        case _:
            return Scheme.OTHER


def is_gated(model: ModelFacts) -> bool:
    """Whether the experts have a gate in addition to their first projection."""
    names = [weight.name for kind in model.kinds for weight in kind.weights if weight.sharding in _EXPERTS]
    return not names or any("gate" in name for name in names)
