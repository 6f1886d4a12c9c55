"""The lines of what loading adds to the tensors of a checkpoint: one for each part, with its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.terms import Line
from plimsoll.domain.units import MIB
from plimsoll.engines.vllm.memory.allocator import loading_parts, tensors_with_ends
from plimsoll.engines.vllm.memory.expert_layout import relaid_formula
from plimsoll.engines.vllm.memory.fp8_blocks import fp8_block_formula
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.memory.weights import rotary_value_bytes


def layout_lines(rank: Rank) -> Iterator[Line]:
    """Yield the lines of :func:`~plimsoll.engines.vllm.memory.allocator.loading_parts`; they add up to these bytes."""
    request, law = rank.request, rank.law
    parts = loading_parts(request.model, request.precision, rank.gpu, rank.split, law, rank.stage)
    lines = (
        ("ends of blocks", _ends, parts.block_ends),
        ("longer tables", _tables, parts.older_tables),
        ("ROCm library", _rocm, parts.rocm_library),
        ("order of experts", _experts, parts.expert_layout),
        ("scales and rows", _fp8, parts.fp8_blocks),
    )
    yield from (Line(label, formula(rank, size), size) for label, formula, size in lines if size)


def _ends(rank: Rank, size: int) -> str:
    """Return the mean of the ends that are kept, and how many there are."""
    request, splits_large = rank.request, rank.law.splits_large_blocks
    count = tensors_with_ends(request.model, request.precision, rank.split, rank.stage, splits_large=splits_large)
    return f"PyTorch rounds large tensors up to 2 MiB: {count:,} tensors x {size / MIB / count:.2f} MiB on average"


def _tables(rank: Rank, size: int) -> str:
    value = rotary_value_bytes(rank.request.precision)
    return f"{size // value:,} values of {value} B for positions that never occur, which this release keeps too"


def _rocm(_: Rank, size: int) -> str:
    return f"{size // MIB} MiB that stay allocated on AMD's GPUs"


def _experts(rank: Rank, _: int) -> str:
    return relaid_formula(rank.request.model, rank.gpu, rank.split, rank.law, rank.stage)


def _fp8(rank: Rank, _: int) -> str:
    return fp8_block_formula(rank.request.model, rank.request.precision, rank.gpu, rank.split, rank.stage)
