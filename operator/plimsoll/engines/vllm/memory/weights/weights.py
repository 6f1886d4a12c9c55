"""The weights of one rank, with all that the engine loads or creates together with them.

The lines of what loading adds to the tensors of a checkpoint: one for each part, with its numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.decisions.terms import WEIGHTS, Derivation, Line, Term
from plimsoll.domain.engines.engine_choice import Residency
from plimsoll.domain.units import MIB
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.engines.vllm.memory.weights.allocator import (
    loading_bytes,
    loading_parts,
    step_buffer_bytes,
)
from plimsoll.engines.vllm.memory.weights.layout import fp8_block_formula, relaid_formula
from plimsoll.memory.blocks import tensors_with_ends
from plimsoll.memory.draft import draft_weights
from plimsoll.memory.residency import Resident, resident_weights
from plimsoll.memory.weight_lines import weight_lines
from plimsoll.memory.weights import rotary_value_bytes


def layout_lines(rank: Rank) -> Iterator[Line]:
    """Yield the lines of :func:`.loading_parts`; they add up to these bytes."""
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


def weights_term(rank: Rank) -> Term:
    """Return the model's weights with the allocator's extra bytes, and on the last stage those of a draft."""
    size = _resident(rank).gpu_bytes + _extra(rank, rank.settings.max_num_batched_tokens) + _draft(rank)
    return Term(WEIGHTS, size, _derivation, rank)


def host_bytes(rank: Rank) -> int:
    """Return the bytes of weights that stay in host memory."""
    return 0 if _residency(rank) is None else _resident(rank).host_bytes


def _resident(rank: Rank) -> Resident:
    request = rank.request
    return resident_weights(request.model, request.precision, rank.split, _residency(rank), rank.stage)


def _residency(rank: Rank) -> Residency | None:
    """Return the wish for weights in host memory; None where the runner that serves the model ignores it."""
    request = rank.request
    return request.engine.residency if rank.law.offloads_weights_of(request.model, rank.gpu) else None


def _extra(rank: Rank, batched_tokens: int) -> int:
    request = rank.request
    return loading_bytes(
        request.model,
        request.precision,
        rank.gpu,
        rank.split,
        rank.law,
        rank.stage,
        batched_tokens=batched_tokens,
    )


def _draft(rank: Rank) -> int:
    return draft_weights(rank.request, rank.split) if rank.is_last else 0


def _derivation(rank: Rank) -> Derivation:
    stages = rank.split.pipeline_parallel
    formula = f"sum of one rank of stage {rank.stage + 1} of {stages}, short first" if stages > 1 else "sum of one rank"
    return Derivation(formula, tuple(_lines(rank)))


def _lines(rank: Rank) -> Iterator[Line]:
    request = rank.request
    yield from weight_lines(request.model, request.precision, rank.split, rank.stage)
    tokens = rank.settings.max_num_batched_tokens
    buffers = step_buffer_bytes(request.model, tokens)
    if buffers:
        yield Line("step buffers", f"{tokens:,} tokens x {buffers // tokens:,} B", buffers)
    yield from layout_lines(rank)
    if _residency(rank) is not None:
        resident = _resident(rank)
        yield Line("in host memory", "decoder layers that leave the GPU", -resident.host_bytes)
        if resident.buffer_bytes:
            yield Line("buffers", "what streamed layers are copied into", resident.buffer_bytes)
    draft = _draft(rank)
    if draft:
        yield Line("draft", "loaded in addition for speculative decoding", draft)
