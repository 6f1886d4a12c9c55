"""The working of the activations: which of encoder, forward pass, experts and sampler is the peak, in numbers."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.units import ceil_div
from plimsoll.engines.vllm.memory.activations import RECEIVED_TENSORS, Activations
from plimsoll.engines.vllm.memory.compiling import embedding_copies
from plimsoll.engines.vllm.memory.encoder import Profiled
from plimsoll.engines.vllm.memory.expert_steps import kept_formula, returned_formula
from plimsoll.engines.vllm.memory.forward import (
    EXPERT_ROW_COPIES,
    GATED_MLP_TENSORS,
    INDEXER_ROW_BYTES,
    LATENT_HEAD_WIDTH,
    LATENT_ROWS,
    dense_width,
    expanded_latent_bytes,
    forward_width,
    hidden_copies,
    padded_heads_width,
    residual_streams,
)
from plimsoll.engines.vllm.memory.rank import Rank, rank_activations, value_bytes
from plimsoll.engines.vllm.memory.sampler import LOGIT_BYTES, sampler_copies
from plimsoll.memory.draft import draft_tokens
from plimsoll.memory.steps import Step


def activation_steps(rank: Rank) -> Iterator[Step]:
    """The lines of the peak; those with bytes add up to it, those without say what was lower."""
    parts = rank_activations(rank)
    decoder = parts.held + max(parts.kept + parts.step, parts.compiling)
    if parts.seen is not None and parts.encoder > decoder:
        yield Step("  encoder pass", _encoder(rank, parts.seen, parts), parts.encoder)
        yield Step("  decoder", f"kept, workspaces and step: {decoder:,} B, less than the encoder's pass")
    else:
        yield from _decoder_steps(rank, parts)
    correction = rank.request.correction_for(rank.gpu.name, rank.split)
    if correction is not None and correction.activations_bytes:
        yield Step("  learned", "what engines of this kind logged more or less", correction.activations_bytes)


def _decoder_steps(rank: Rank, parts: Activations) -> Iterator[Step]:
    if parts.seen is not None:
        items = parts.seen.items
        yield Step(
            "  encoder pass", f"{_encoder(rank, parts.seen, parts)} = {parts.encoder:,} B, less than the decoder"
        )
        yield Step("  encoder kept", f"inputs and outputs of {items:,} items x {parts.held // items:,} B", parts.held)
    if parts.compiling > parts.kept + parts.step:
        yield Step("  compilation", _compiling(rank), parts.compiling)
        yield Step("  step", f"{parts.kept + parts.step:,} B, less than compiling it")
        return
    for formula, size in _workspaces(rank, parts):
        yield Step("  workspace", f"{formula}, stays under the step", size)
    yield from _largest_step(rank, parts)
    if parts.received:
        yield Step("  received", f"{RECEIVED_TENSORS} x {_hidden(rank)} of the stage before", parts.received)


def _largest_step(rank: Rank, parts: Activations) -> Iterator[Step]:
    """The largest of forward pass, experts and sampler with its bytes; the others as words."""
    hidden = Step("  hidden states", _hidden(rank), parts.hidden)
    forward = (Step("  forward pass", _forward(rank), parts.forward),)
    experts = (hidden, *_scratch(rank, parts))
    sampler = (hidden, Step("  sampler", _sampler(rank, parts), parts.sampling))
    branches: list[tuple[int, tuple[Step, ...]]] = [(parts.forward, forward)]
    branches += [(parts.scratch, experts)] if parts.scratch else []
    branches += [(parts.hidden + parts.sampling, sampler)] if parts.sampling else []
    largest, chosen = max(branches, key=lambda branch: branch[0])
    yield from chosen
    for size, lines in branches:
        if lines is not chosen:
            beside = " with hidden states" if hidden in lines else ""
            yield Step(lines[-1].term, f"{lines[-1].formula}: {size:,} B{beside}, not more than the {largest:,} above")


def _compiling(rank: Rank) -> str:
    model, ranks = rank.request.model, rank.split.tensor_parallel
    table = f"{embedding_copies(rank.gpu)} x {model.vocabulary:,} embeddings{_over(ranks)}"
    width = f"{model.hidden:,} x {value_bytes(rank.request)} B"
    return f"{table} x {width} + {_hidden(rank)}, copies on which a first compilation times its kernels"


def _scratch(rank: Rank, parts: Activations) -> Iterator[Step]:
    """What the experts take in the step and give back."""
    experts, tokens = rank.request.model.experts, rank.settings.max_num_batched_tokens
    if experts is None:
        return
    if parts.experts.given_back:
        yield Step("  experts", returned_formula(rank, parts.experts.kernel), parts.experts.given_back)
    if parts.rows_copied:
        rows = f"{EXPERT_ROW_COPIES} x {tokens:,} tokens x {experts.experts_per_token} experts"
        width = f"{rank.request.model.hidden:,} x {value_bytes(rank.request)} B"
        yield Step("  rows of experts", f"{rows} x {width}", parts.rows_copied)


def _hidden(rank: Rank) -> str:
    tokens, width = rank.settings.max_num_batched_tokens, rank.request.model.hidden
    return f"{tokens:,} tokens x {width:,} x {value_bytes(rank.request)} B"


def _forward(rank: Rank) -> str:
    model, split, size = rank.request.model, rank.split, value_bytes(rank.request)
    tokens = rank.settings.max_num_batched_tokens
    latents = expanded_latent_bytes(model, split, size)
    if latents + 2 * tokens * size * model.hidden > tokens * size * forward_width(model, split):
        heads = max(1, model.heads // split.tensor_parallel)
        expanded = (
            f"{LATENT_ROWS:,} cached tokens x {heads} heads x {LATENT_HEAD_WIDTH} x {size} B expanded from latents"
        )
        return f"{expanded} + 2 x {_hidden(rank)}"
    streams = residual_streams(model)
    copies = f"{hidden_copies(model)}{f' x {streams} streams' if streams > 1 else ''} x {model.hidden:,} hidden"
    widths = [copies, f"{GATED_MLP_TENSORS} x {dense_width(model):,} MLP{_over(split.tensor_parallel)}"]
    padded = padded_heads_width(model, split)
    widths += [f"{padded:,} of padded heads"] if padded else []
    return f"{tokens:,} tokens x {size} B x ({' + '.join(widths)})"


def _over(ranks: int) -> str:
    return f" / {ranks}" if ranks > 1 else ""


def _workspaces(rank: Rank, parts: Activations) -> Iterator[tuple[str, int]]:
    """What is kept, of the experts and of sparse attention; where they share a buffer, the larger."""
    kept = parts.experts.kept
    if kept and (kept == parts.kept or not rank.law.keeps_workspaces):
        yield f"experts, {kept_formula(rank, parts.experts.kernel)}", kept
    if parts.sparse and (kept != parts.kept or not rank.law.keeps_workspaces):
        context = rank.settings.max_model_len
        rows = parts.sparse / INDEXER_ROW_BYTES / context
        yield f"sparse attention: {context:,} tokens of context x {rows:g} rows x {INDEXER_ROW_BYTES} B", parts.sparse


def _sampler(rank: Rank, parts: Activations) -> str:
    law = rank.law.sampler_of(rank.request.model, rank.gpu)
    gathers = rank.split.tensor_parallel > 1
    rejects = draft_tokens(rank.request) > 0
    copies = sampler_copies(law, gathers=gathers, rejects=rejects, dtype_bytes=value_bytes(rank.request))
    logits = f"{parts.rows:,} rows x {rank.request.model.vocabulary:,} logits x {LOGIT_BYTES} B x {copies:g} copies"
    return f"{logits} + {law.base_bytes:,} B" if law.base_bytes else logits


def _encoder(rank: Rank, seen: Profiled, parts: Activations) -> str:
    """The pass over a rank's items of all that are profiled; the width is what the law takes for one position."""
    size, encoder = value_bytes(rank.request), rank.request.model.encoder
    copied = encoder is not None and encoder.is_copied
    items = ceil_div(seen.items, rank.split.tensor_parallel) if copied else seen.items
    width = parts.encoder // (items * seen.item_positions * size)
    return f"{items:,} items x {seen.item_positions:,} positions x {size} B x {width:,} values"
