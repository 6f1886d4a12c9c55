"""The weights of one rank, with all that the engine loads or creates together with them."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.engine_options import Residency
from plimsoll.domain.terms import WEIGHTS, Derivation, Line, Term
from plimsoll.engines.vllm.memory.allocator import loading_bytes, step_buffer_bytes
from plimsoll.engines.vllm.memory.layout_lines import layout_lines
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.memory.draft import draft_weights
from plimsoll.memory.residency import Resident, resident_weights
from plimsoll.memory.weight_lines import weight_lines


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
