"""The kernel that runs the experts, and its scratch for a step: by number format, GPU, split and release.

Since 0.11.1 modular kernels keep their scratch allocated for the rest of the step, since 0.14 through
``v1/worker/workspace.py``. Older functions free everything after the layer. The kernel is the default of an engine
without environment settings, with FlashInfer and DeepGEMM installed as in the published images. Sources: vLLM
``fused_moe/oracle/*.py`` (before 0.14 ``quantization/fp8.py`` and its like), ``modular_kernel.py`` and
``workspace_shapes`` of each kernel, read in 0.10.2 to 0.31; FlashInfer 0.6.4 for the memory inside its kernels.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from plimsoll.domain.gpus import GpuType, Vendor
from plimsoll.domain.model import ExpertFacts, ModelFacts, Sharding
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.domain.storage import Storage
from plimsoll.domain.units import ceil_div
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.vllm.memory.engine_law import EngineLaw

DEEP_GEMM_ROWS = 128
"""The rows of one expert are padded to a multiple of this."""

TRTLLM_ROWS = 64
"""The same for TensorRT-LLM's kernels, whose tile depends on the load (8 to 128)."""

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
    """How the ranks share the experts."""

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
_DEEP_GEMM_APART_SINCE = _V(0, 13)

_EXPERTS = (Sharding.EXPERT_OUTPUTS, Sharding.EXPERT_INPUTS)


class Scratch(NamedTuple):
    """Bytes of the experts' scratch in a step: the part that stays allocated, and the part freed after the layer."""

    kernel: Kernel
    kept: int = 0
    given_back: int = 0


class Shape(NamedTuple):
    """One layer's experts on one rank, in elements. ``rows`` are tokens times the experts per token."""

    tokens: int
    rows: int
    width: int
    hidden: int
    experts: int
    gated: bool

    @property
    def first(self) -> int:
        """The number of outputs of the first projection: gate and up."""
        return 2 * self.width if self.gated else self.width

    def filled_rows(self, step: int) -> int:
        """Return the number of rows when the rows of every expert are padded to a multiple of ``step``."""
        return ceil_div(self.rows + (step - 1) * self.experts, step) * step


def expert_scratch(
    model: ModelFacts,
    precision: Precision,
    split: Split,
    law: EngineLaw,
    gpu: GpuType | None,
    *,
    batched_tokens: int,
    dtype_bytes: int,
) -> Scratch:
    """Return the scratch of the experts of one rank for a step of ``batched_tokens`` tokens."""
    if model.experts is None:
        return Scratch(Kernel.NONE)
    kernel = kernel_of(model, precision, split, law, gpu)
    shape = shape_of(model, model.experts, split, batched_tokens)
    match kernel:
        case Kernel.NONE:
            return Scratch(kernel)
        case Kernel.FUSED:
            return Scratch(kernel, 0, dtype_bytes * shape.rows * (max(shape.first, shape.hidden) + shape.width))
        case Kernel.MODULAR:
            return Scratch(kernel, dtype_bytes * shape.rows * modular_width(shape))
        case Kernel.DEEP_GEMM:
            return _deep_gemm(shape, law, dtype_bytes)
        case Kernel.FLASHINFER:
            inside = dtype_bytes * shape.rows * modular_width(shape)
            return Scratch(kernel, dtype_bytes * shape.tokens * shape.hidden, inside)
        case Kernel.TRTLLM:
            rows = shape.filled_rows(TRTLLM_ROWS)
            return Scratch(kernel, 0, rows * (shape.first + shape.width + dtype_bytes * shape.hidden))
        case Kernel.FP4_CUTLASS:
            return Scratch(kernel, dtype_bytes * shape.rows * (max(2 * shape.first, shape.hidden) + shape.first))


def modular_width(shape: Shape) -> int:
    """Return the values of one row: the first projection's buffer, and the one that the product and the last share."""
    return max(shape.first, shape.hidden) + max(shape.width, shape.hidden)


def _deep_gemm(shape: Shape, law: EngineLaw, dtype_bytes: int) -> Scratch:
    rows = shape.filled_rows(DEEP_GEMM_ROWS)
    return Scratch(
        Kernel.DEEP_GEMM,
        dtype_bytes * rows * deep_gemm_width(shape, law),
        dtype_bytes * rows * shape.width,
    )


def deep_gemm_width(shape: Shape, law: EngineLaw) -> int:
    """Return the values of one row."""
    return shape.first + max(shape.width, shape.hidden) if holds_product(law) else modular_width(shape)


def holds_product(law: EngineLaw) -> bool:
    """Whether DeepGEMM's first buffer holds only the first projection, as before 0.13."""
    return law.release < _DEEP_GEMM_APART_SINCE


@lru_cache(maxsize=1024)
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


@lru_cache(maxsize=256)
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


def shape_of(model: ModelFacts, experts: ExpertFacts, split: Split, batched_tokens: int) -> Shape:
    """Return the shape of a step for one layer's experts."""
    tokens = batched_tokens * split.data_parallel
    return Shape(
        tokens=tokens,
        rows=tokens * experts.experts_per_token,
        width=expert_width(experts, split),
        hidden=model.hidden,
        experts=ceil_div(experts.experts, split.expert_ranks) if split.expert_parallel else experts.experts,
        gated=is_gated(model),
    )


def expert_width(experts: ExpertFacts, split: Split) -> int:
    """Return the width of one expert on one rank."""
    return experts.intermediate if split.expert_parallel else ceil_div(experts.intermediate, split.expert_ranks)


@lru_cache(maxsize=256)
def is_gated(model: ModelFacts) -> bool:
    """Whether the experts have a gate in addition to their first projection."""
    names = [weight.name for kind in model.kinds for weight in kind.weights if weight.sharding in _EXPERTS]
    return not names or any("gate" in name for name in names)
