"""The working of the experts' scratch: the kernel that runs them, and what it keeps and gives back, in numbers."""

from __future__ import annotations

from plimsoll.engines.vllm.memory.expert_kernels import (
    DEEP_GEMM_ROWS,
    TRTLLM_ROWS,
    Kernel,
    Shape,
    holds_product,
    shape_of,
)
from plimsoll.engines.vllm.memory.rank import Rank, value_bytes


def kept_formula(rank: Rank, kernel: Kernel) -> str:
    """What stays allocated under the step."""
    shape, size = _shape(rank), value_bytes(rank.request)
    match kernel:
        case Kernel.FLASHINFER:
            return f"{kernel.value}: {shape.tokens:,} tokens x {shape.hidden:,} x {size} B of output"
        case Kernel.DEEP_GEMM if holds_product(rank.law):
            rows = f"{shape.filled_rows(DEEP_GEMM_ROWS):,} filled rows"
            return f"{kernel.value}: {rows} x {size} B x ({_first(shape)} + {_shared(shape)})"
        case Kernel.DEEP_GEMM:
            rows = f"{shape.filled_rows(DEEP_GEMM_ROWS):,} filled rows"
            return f"{kernel.value}: {rows} x {size} B x ({_wide(shape)} + {_shared(shape)})"
        case Kernel.FP4_CUTLASS:
            first = _first(shape)
            return f"{kernel.value}: {_rows(rank, shape)} x {size} B x (max(2 x {first}, {shape.hidden:,}) + {first})"
        case _:
            return f"{kernel.value}: {_rows(rank, shape)} x {size} B x ({_wide(shape)} + {_shared(shape)})"


def returned_formula(rank: Rank, kernel: Kernel) -> str:
    """What is given back with the layer."""
    shape, size = _shape(rank), value_bytes(rank.request)
    match kernel:
        case Kernel.FUSED:
            return f"{_rows(rank, shape)} x {size} B x ({_wide(shape)} + {shape.width:,})"
        case Kernel.DEEP_GEMM:
            return f"{shape.filled_rows(DEEP_GEMM_ROWS):,} filled rows x {size} B x {shape.width:,}"
        case Kernel.TRTLLM:
            values = f"{_first(shape)} + {shape.width:,} + {size} x {shape.hidden:,}"
            return f"{kernel.value}: {shape.filled_rows(TRTLLM_ROWS):,} filled rows x ({values}) B"
        case _:
            return f"{kernel.value}: {_rows(rank, shape)} x {size} B x ({_wide(shape)} + {_shared(shape)})"


def _shape(rank: Rank) -> Shape:
    experts = rank.request.model.experts
    if experts is None:
        raise ValueError(f"{rank.request.model.name} has no experts")
    return shape_of(rank.request.model, experts, rank.split, rank.settings.max_num_batched_tokens)


def _rows(rank: Rank, shape: Shape) -> str:
    engines = f" x {rank.split.data_parallel} engines" if rank.split.data_parallel > 1 else ""
    taken = shape.rows // shape.tokens
    return f"{rank.settings.max_num_batched_tokens:,} tokens x {taken} experts{engines}"


def _first(shape: Shape) -> str:
    return f"2 x {shape.width:,}" if shape.gated else f"{shape.width:,}"


def _wide(shape: Shape) -> str:
    return f"max({_first(shape)}, {shape.hidden:,})"


def _shared(shape: Shape) -> str:
    return f"max({shape.width:,}, {shape.hidden:,})"
