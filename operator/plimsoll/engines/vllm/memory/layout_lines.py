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
        Line("ends of blocks", _ends(rank, parts.block_ends), parts.block_ends),
        Line("longer tables", _tables(rank, parts.older_tables), parts.older_tables),
        Line("ROCm library", f"{parts.rocm_library // MIB} MiB that stay allocated on AMD's GPUs", parts.rocm_library),
        Line("order of experts", _experts(rank), parts.expert_layout),
        Line("scales and rows", _fp8(rank), parts.fp8_blocks),
    )
    yield from (line for line in lines if line.size_bytes)


def _ends(rank: Rank, size: int) -> str:
    """Return the mean of the ends that are kept, and how many there are."""
    request, splits_large = rank.request, rank.law.splits_large_blocks
    count = tensors_with_ends(request.model, request.precision, rank.split, rank.stage, splits_large=splits_large)
    mean = size / MIB / count if count else 0.0
    return f"PyTorch rounds large tensors up to 2 MiB: {count:,} tensors x {mean:.2f} MiB on average"


def _tables(rank: Rank, size: int) -> str:
    value = rotary_value_bytes(rank.request.precision)
    return f"{size // value:,} values of {value} B for positions that never occur, which this release keeps too"


def _experts(rank: Rank) -> str:
    return relaid_formula(rank.request.model, rank.gpu, rank.split, rank.law, rank.stage)


def _fp8(rank: Rank) -> str:
    return fp8_block_formula(rank.request.model, rank.request.precision, rank.gpu, rank.split, rank.stage)
