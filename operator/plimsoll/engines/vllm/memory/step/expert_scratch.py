"""The scratch of the kernel that runs the experts, for a step: its bytes, and the formulas behind them.

Since 0.11.1 modular kernels keep their scratch allocated for the rest of the step, since 0.14 through
``v1/worker/workspace.py``. Older functions free everything after the layer. Sources: vLLM
``fused_moe/modular_kernel.py`` and ``workspace_shapes`` of each kernel, read in 0.10.2 to 0.31; FlashInfer 0.6.4 for
the memory inside its kernels.
"""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.model import ExpertFacts, ModelFacts
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import ceil_div
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.laws.expert_kernels import Kernel, is_gated, kernel_of

_DEEP_GEMM_ROWS = 128
"""The rows of one expert are padded to a multiple of this."""

_TRTLLM_ROWS = 64
"""The same for TensorRT-LLM's kernels, whose tile depends on the load (8 to 128)."""

_DEEP_GEMM_APART_SINCE = EngineVersion(0, 13)


class Shape(NamedTuple):
    """One layer's experts on one rank, in elements.

    ``tokens`` are those of the step on each of ``engines`` data-parallel engines, and each goes to ``taken`` experts.
    ``value_bytes`` is the width of one value. ``first_apart`` means that DeepGEMM's first buffer holds only the first
    projection, as before 0.13.
    """

    tokens: int
    engines: int
    taken: int
    width: int
    hidden: int
    experts: int
    gated: bool
    value_bytes: int
    first_apart: bool

    @property
    def rows(self) -> int:
        """The tokens of all engines times the experts of each token."""
        return self.tokens * self.engines * self.taken

    @property
    def first(self) -> int:
        """The number of outputs of the first projection: gate and up."""
        return 2 * self.width if self.gated else self.width

    @property
    def wide(self) -> int:
        """The values of one row in the first projection's buffer."""
        return max(self.first, self.hidden)

    @property
    def shared(self) -> int:
        """The values of one row in the buffer that the product and the last projection share."""
        return max(self.width, self.hidden)

    def filled_rows(self, step: int) -> int:
        """Return the number of rows when the rows of every expert are padded to a multiple of ``step``."""
        return ceil_div(self.rows + (step - 1) * self.experts, step) * step


class Scratch(NamedTuple):
    """Bytes of the experts' scratch in a step: the part that stays allocated, and the part freed after the layer.

    ``shape`` is what they are computed from; None where there are no experts.
    """

    kernel: Kernel
    kept: int = 0
    given_back: int = 0
    shape: Shape | None = None


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
    shape = _shape(model, model.experts, split, law, batched_tokens, dtype_bytes)
    return Scratch(kernel, *_kept_and_given_back(kernel, shape), shape)


def _kept_and_given_back(kernel: Kernel, shape: Shape) -> tuple[int, int]:
    size = shape.value_bytes
    match kernel:
        case Kernel.NONE:
            return 0, 0
        case Kernel.FUSED:
            return 0, size * shape.rows * (shape.wide + shape.width)
        case Kernel.MODULAR:
            return size * shape.rows * (shape.wide + shape.shared), 0
        case Kernel.DEEP_GEMM:
            rows = shape.filled_rows(_DEEP_GEMM_ROWS)
            first = shape.first if shape.first_apart else shape.wide
            return size * rows * (first + shape.shared), size * rows * shape.width
        case Kernel.FLASHINFER:
            return size * shape.tokens * shape.engines * shape.hidden, size * shape.rows * (shape.wide + shape.shared)
        case Kernel.TRTLLM:
            rows = shape.filled_rows(_TRTLLM_ROWS)
            return 0, rows * (shape.first + shape.width + size * shape.hidden)
        case Kernel.FP4_CUTLASS:
            return size * shape.rows * (max(2 * shape.first, shape.hidden) + shape.first), 0


def kept_formula(kernel: Kernel, shape: Shape) -> str:
    """Return the part that stays allocated as a formula with its numbers."""
    size, first = shape.value_bytes, _first(shape)
    match kernel:
        case Kernel.FLASHINFER:
            tokens = f"{shape.tokens * shape.engines:,} tokens"
            return f"{kernel.value}: {tokens} x {shape.hidden:,} x {size} B of output"
        case Kernel.DEEP_GEMM:
            rows = f"{shape.filled_rows(_DEEP_GEMM_ROWS):,} filled rows"
            wide = first if shape.first_apart else _wide(shape)
            return f"{kernel.value}: {rows} x {size} B x ({wide} + {_shared(shape)})"
        case Kernel.FP4_CUTLASS:
            return f"{kernel.value}: {_rows(shape)} x {size} B x (max(2 x {first}, {shape.hidden:,}) + {first})"
        case _:
            return f"{kernel.value}: {_rows(shape)} x {size} B x ({_wide(shape)} + {_shared(shape)})"


def given_back_formula(kernel: Kernel, shape: Shape) -> str:
    """Return the part that is freed after the layer as a formula with its numbers."""
    size = shape.value_bytes
    match kernel:
        case Kernel.FUSED:
            return f"{_rows(shape)} x {size} B x ({_wide(shape)} + {shape.width:,})"
        case Kernel.DEEP_GEMM:
            return f"{shape.filled_rows(_DEEP_GEMM_ROWS):,} filled rows x {size} B x {shape.width:,}"
        case Kernel.TRTLLM:
            values = f"{_first(shape)} + {shape.width:,} + {size} x {shape.hidden:,}"
            return f"{kernel.value}: {shape.filled_rows(_TRTLLM_ROWS):,} filled rows x ({values}) B"
        case _:
            return f"{kernel.value}: {_rows(shape)} x {size} B x ({_wide(shape)} + {_shared(shape)})"


def _shape(
    model: ModelFacts, experts: ExpertFacts, split: Split, law: EngineLaw, batched_tokens: int, dtype_bytes: int
) -> Shape:
    """Return the shape of a step for one layer's experts."""
    whole = split.expert_parallel
    return Shape(
        tokens=batched_tokens,
        engines=split.data_parallel,
        taken=experts.experts_per_token,
        width=experts.intermediate if whole else ceil_div(experts.intermediate, split.expert_ranks),
        hidden=model.hidden,
        experts=ceil_div(experts.experts, split.expert_ranks) if whole else experts.experts,
        gated=is_gated(model),
        value_bytes=dtype_bytes,
        first_apart=law.release < _DEEP_GEMM_APART_SINCE,
    )


def _rows(shape: Shape) -> str:
    engines = f" x {shape.engines} engines" if shape.engines > 1 else ""
    return f"{shape.tokens:,} tokens x {shape.taken} experts{engines}"


def _first(shape: Shape) -> str:
    return f"2 x {shape.width:,}" if shape.gated else f"{shape.width:,}"


def _wide(shape: Shape) -> str:
    return f"max({_first(shape)}, {shape.hidden:,})"


def _shared(shape: Shape) -> str:
    return f"max({shape.width:,}, {shape.hidden:,})"
