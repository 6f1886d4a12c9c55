"""The peak of activations on one rank: the highest of encoder, forward pass and sampler, with the memory kept so far.

The engine profiles in this order: the encoder, whose inputs and outputs stay; the decoder, whose hidden states (and,
since 0.14, workspaces) stay; the sampler. The sampler is often larger than expected: tensor parallelism does not make
it smaller, and the engine's default of 1,024 sequences costs gigabytes.

Fitted to 33 starts of vLLM 0.19.0 on H100 80GB (worst 0.07 GiB) and checked on 86 logs of 0.10 to 0.29; the residuals
are in ``tests/memory/test_overhead.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.decisions.terms import ACTIVATIONS, Derivation, Line, Term
from plimsoll.domain.models.model import ModelFacts, Task
from plimsoll.domain.models.precision import Precision
from plimsoll.engines.vllm.memory.laws.engine_law import EngineLaw, SamplerLaw
from plimsoll.engines.vllm.memory.rank import Rank
from plimsoll.engines.vllm.memory.step.encoder import (
    Profiled,
    encoder_formula,
    encoder_held_bytes,
    encoder_peak_bytes,
    profiled,
)
from plimsoll.engines.vllm.memory.step.expert_scratch import Scratch, expert_scratch, given_back_formula, kept_formula
from plimsoll.engines.vllm.memory.step.forward import (
    compiling_bytes,
    compiling_formula,
    dense_forward_bytes,
    dense_forward_formula,
    expert_rows_bytes,
    expert_rows_formula,
    has_indexer,
    hidden_bytes,
    hidden_formula,
    sparse_workspace_bytes,
    sparse_workspace_formula,
)
from plimsoll.engines.vllm.memory.step.sampler import Sampling, pooler_bytes, pooler_formula, sampling
from plimsoll.memory.draft import draft_tokens

_RECEIVED_TENSORS = 2
"""The tensors that a pipeline stage passes on: hidden state and residual."""


class StepParts(NamedTuple):
    """The parts of the peak that no load changes: the first fields of :class:`Activations`."""

    experts: Scratch
    forward: int
    rows_copied: int
    scratch: int
    hidden: int
    received: int
    compiling: int


class Activations(NamedTuple):
    """The parts of the peak, in bytes of one rank.

    ``kept`` are workspaces that stay allocated during the step (of the ``experts`` or of ``sparse`` attention). The
    step is the largest of three: ``forward``; ``scratch`` (what the experts free, with ``rows_copied`` and hidden
    states); and ``hidden`` states with the ``sampling`` of ``rows`` rows of logits. Later stages hold the ``received``
    tensors in addition. A first compilation (``compiling``) may be the peak instead of workspaces and step. The
    encoder's ``held`` tensors are added to either. The ``encoder`` pass over the ``seen`` items may be higher than all
    of this; then it is the peak.
    """

    experts: Scratch
    forward: int
    rows_copied: int
    scratch: int
    hidden: int
    received: int
    compiling: int
    rows: int
    sampling: int
    sparse: int
    kept: int
    encoder: int = 0
    held: int = 0
    seen: Profiled | None = None

    @property
    def step(self) -> int:
        """The peak of the decoder's step."""
        return max(self.forward, self.scratch, self.hidden + self.sampling) + self.received

    @property
    def spared_when_warm(self) -> int:
        """The bytes that a pod saves if everything is already compiled."""
        return self.total - max(self.encoder, self.held + self.kept + self.step) if self.compiling else 0

    @property
    def decoder(self) -> int:
        """The peak of workspaces, step and compilation, with the encoder's tensors that stay meanwhile."""
        return self.held + max(self.kept + self.step, self.compiling)

    @property
    def total(self) -> int:
        """The peak of the rank."""
        return max(self.encoder, self.decoder)


def rank_activations(rank: Rank) -> Activations:
    """Return the peak of activations of ``rank``, part by part."""
    return rank_step(rank).activations(rank.settings.max_num_seqs, rank.settings.max_model_len)


def rank_step(rank: Rank) -> Step:
    """Return the step that ``rank`` profiles, for any number of sequences and any context."""
    return profiled_step(
        rank.request.model,
        rank.request.precision,
        rank.split,
        rank.law,
        rank.gpu,
        rank.settings.max_num_batched_tokens,
        draft_tokens(rank.request),
        rank.value_bytes,
        is_last=rank.is_last,
        compiles=not rank.settings.enforce_eager,
    )


def activations_term(rank: Rank, parts: Activations) -> Term:
    """Return the peak of activations as a term."""
    return Term(ACTIVATIONS, parts.total, _derivation, rank)


class Sampled(NamedTuple):
    """A pass over ``rows`` rows of logits with the sampler of it, and its peak; without a sampler, that of pooling."""

    sampling: Sampling | None
    rows: int
    size_bytes: int


class Step(NamedTuple):
    """The parts of the peak that are the same for any number of sequences and any context.

    ``fixed`` holds all parts that no load changes. ``tokens`` are those of the step, of which each sequence has
    ``rows_each`` in the sampler. ``sampling`` is None on a stage that does not sample; the last stage of a model that
    pools takes ``pooled`` bytes instead. ``options`` is the sampler of a pass with every option on, in which each
    sequence has one row; None without such a pass. ``has_indexer`` means that the rank gathers keys of sparse
    attention, and ``has_tower`` that it profiles a tower.
    """

    model: ModelFacts
    split: Split
    law: EngineLaw
    tokens: int
    dtype_bytes: int
    rows_each: int
    sampling: Sampling | None
    has_indexer: bool
    has_tower: bool
    fixed: StepParts
    pooled: int = 0
    options: Sampling | None = None

    def sampled(self, sequences: int) -> Sampled:
        """Return the pass that samples so many sequences; of two passes, the one that takes more."""
        rows = min(sequences * self.rows_each, self.tokens)
        if self.sampling is None:
            return Sampled(None, rows, self.pooled)
        raw = Sampled(self.sampling, rows, self.sampling.peak_bytes(rows))
        if self.options is None:
            return raw
        requests = min(sequences, self.tokens)
        processed = Sampled(self.options, requests, self.options.peak_bytes(requests))
        return max(raw, processed, key=lambda each: each.size_bytes)

    def activations(self, sequences: int, context_tokens: int) -> Activations:
        """Return the peak of a step of so many sequences, with a longest request of ``context_tokens`` tokens."""
        _, rows, sampled = self.sampled(sequences)
        parts = Activations(*self.fixed, rows, sampled, sparse=0, kept=self.fixed.experts.kept)
        if self.has_indexer:
            parts = self._with_indexer(parts, context_tokens)
        return self._with_tower(parts, sequences, context_tokens) if self.has_tower else parts

    def _with_indexer(self, parts: Activations, context_tokens: int) -> Activations:
        trims, kept = self.law.trims_sparse_workspace, parts.experts.kept
        sparse = sparse_workspace_bytes(self.model, context_tokens=context_tokens, trims=trims)
        return parts._replace(sparse=sparse, kept=max(kept, sparse) if self.law.keeps_workspaces else kept + sparse)

    def _with_tower(self, parts: Activations, sequences: int, context_tokens: int) -> Activations:
        tower = self.model.encoder
        if tower is None:
            return parts
        load = {"batched_tokens": self.tokens, "sequences": sequences, "context_tokens": context_tokens}
        seen = profiled(tower, self.law, **load)
        peak = encoder_peak_bytes(self.model, self.split, seen, dtype_bytes=self.dtype_bytes)
        held = encoder_held_bytes(self.model, seen, dtype_bytes=self.dtype_bytes)
        return parts._replace(encoder=peak, held=held, seen=seen)


def profiled_step(
    model: ModelFacts,
    precision: Precision,
    split: Split,
    law: EngineLaw,
    gpu: GpuType | None,
    tokens: int,
    speculative_tokens: int,
    dtype_bytes: int,
    *,
    is_last: bool,
    compiles: bool,
) -> Step:
    """Return the step of ``tokens`` tokens that one rank profiles, for any number of sequences and any context.

    With pipeline stages, the last stage samples and the first runs the encoder (under the first model runner, all
    stages run the encoder). The second model runner profiles the logits of drafted tokens, too.
    """
    is_first = split.pipeline_parallel == 1 or not is_last
    is_second = law.runs_v2(model, gpu)
    pools = model.task is Task.POOL
    all_options = law.options_sampler_of(model, gpu)
    logits = sampling(
        law.sampler_of(model, gpu),
        vocabulary=model.vocabulary,
        hidden=model.hidden,
        gpu=gpu,
        gathers=split.tensor_parallel > 1,
        rejects=speculative_tokens > 0,
        dtype_bytes=dtype_bytes,
    )
    return Step(
        model=model,
        split=split,
        law=law,
        tokens=tokens,
        dtype_bytes=dtype_bytes,
        rows_each=1 + (speculative_tokens if is_second else 0),
        sampling=logits if is_last and not pools else None,
        has_indexer=has_indexer(model),
        has_tower=(is_first or not is_second) and model.encoder is not None and law.profiles_tower_of(model, gpu),
        fixed=_fixed(
            model,
            precision,
            split,
            law,
            gpu,
            tokens,
            dtype_bytes,
            is_last=is_last,
            compiles=compiles and is_first,
        ),
        pooled=pooler_bytes(model, batched_tokens=tokens) if is_last and pools else 0,
        options=None if all_options is None else _processing(all_options, model, gpu, dtype_bytes=dtype_bytes),
    )


def _processing(law: SamplerLaw, model: ModelFacts, gpu: GpuType | None, *, dtype_bytes: int) -> Sampling:
    return sampling(law, vocabulary=model.vocabulary, hidden=model.hidden, gpu=gpu, dtype_bytes=dtype_bytes)


def _fixed(
    model: ModelFacts,
    precision: Precision,
    split: Split,
    law: EngineLaw,
    gpu: GpuType | None,
    tokens: int,
    dtype_bytes: int,
    *,
    is_last: bool,
    compiles: bool,
) -> StepParts:
    experts = expert_scratch(model, precision, split, law, gpu, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    hidden = hidden_bytes(model, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    copied = expert_rows_bytes(model, gpu, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    compiling = compiling_bytes(model, split, law, gpu, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    scratch = copied + experts.given_back
    return StepParts(
        experts=experts,
        forward=dense_forward_bytes(model, split, batched_tokens=tokens, dtype_bytes=dtype_bytes),
        rows_copied=copied,
        scratch=scratch + hidden if scratch else 0,
        hidden=hidden,
        received=0 if is_last else _RECEIVED_TENSORS * hidden,
        compiling=compiling if compiles else 0,
    )


def _derivation(rank: Rank) -> Derivation:
    """Return the lines of the peak. Lines with bytes add up to it; lines without bytes say what was lower."""
    lines = tuple(_lines(rank, rank_activations(rank)))
    return Derivation(f"peak of a profiled step, as of vLLM {rank.law.since}", lines)


def _lines(rank: Rank, parts: Activations) -> Iterator[Line]:
    if parts.seen is not None and parts.encoder > parts.decoder:
        yield Line("encoder pass", _encoder(rank, parts.seen, parts), parts.encoder)
        yield Line("decoder", f"kept, workspaces and step: {parts.decoder:,} B, less than the encoder's pass")
        return
    if parts.seen is not None:
        items = parts.seen.items
        yield Line("encoder pass", f"{_encoder(rank, parts.seen, parts)} = {parts.encoder:,} B, less than the decoder")
        yield Line("encoder kept", f"inputs and outputs of {items:,} items x {parts.held // items:,} B", parts.held)
    if parts.compiling > parts.kept + parts.step:
        yield Line("compilation", _compiling(rank), parts.compiling)
        yield Line("step", f"{parts.kept + parts.step:,} B, less than compiling it")
        return
    for formula, size in _workspaces(rank, parts):
        yield Line("workspace", f"{formula}, stays under the step", size)
    yield from _largest_step(rank, parts)
    if parts.received:
        yield Line("received", f"{_RECEIVED_TENSORS} x {_hidden(rank)} of the stage before", parts.received)


def _workspaces(rank: Rank, parts: Activations) -> Iterator[tuple[str, int]]:
    """The workspaces of the experts and of sparse attention; where they share a buffer, the larger one."""
    kept, shape = parts.experts.kept, parts.experts.shape
    if shape is not None and kept and (kept == parts.kept or not rank.law.keeps_workspaces):
        yield f"experts, {kept_formula(parts.experts.kernel, shape)}", kept
    if parts.sparse and (kept != parts.kept or not rank.law.keeps_workspaces):
        yield sparse_workspace_formula(parts.sparse, context_tokens=rank.settings.max_model_len), parts.sparse


def _largest_step(rank: Rank, parts: Activations) -> Iterator[Line]:
    """The largest of forward pass, experts and sampler with its bytes; the others only in words."""
    hidden = Line("hidden states", _hidden(rank), parts.hidden)
    forward = (Line("forward pass", _forward(rank), parts.forward),)
    branches: list[tuple[int, tuple[Line, ...]]] = [(parts.forward, forward)]
    if parts.scratch:
        branches.append((parts.scratch, (hidden, *_scratch(rank, parts))))
    if parts.sampling:
        sampler = Line(*_sampler(rank, parts), parts.sampling)
        branches.append((parts.hidden + parts.sampling, (hidden, sampler)))
    largest, chosen = max(branches, key=lambda branch: branch[0])
    yield from chosen
    for size, lines in branches:
        if lines is not chosen:
            included = " with hidden states" if hidden in lines else ""
            formula = f"{lines[-1].formula}: {size:,} B{included}, not more than the {largest:,} above"
            yield Line(lines[-1].label, formula)


def _scratch(rank: Rank, parts: Activations) -> Iterator[Line]:
    """The scratch of the experts that is freed after the layer."""
    shape = parts.experts.shape
    if shape is not None and parts.experts.given_back:
        yield Line("experts", given_back_formula(parts.experts.kernel, shape), parts.experts.given_back)
    if parts.rows_copied:
        formula = expert_rows_formula(
            rank.request.model,
            batched_tokens=rank.settings.max_num_batched_tokens,
            dtype_bytes=rank.value_bytes,
        )
        yield Line("rows of experts", formula, parts.rows_copied)


def _hidden(rank: Rank) -> str:
    tokens = rank.settings.max_num_batched_tokens
    return hidden_formula(rank.request.model, batched_tokens=tokens, dtype_bytes=rank.value_bytes)


def _forward(rank: Rank) -> str:
    tokens = rank.settings.max_num_batched_tokens
    return dense_forward_formula(rank.request.model, rank.split, batched_tokens=tokens, dtype_bytes=rank.value_bytes)


def _compiling(rank: Rank) -> str:
    model, tokens = rank.request.model, rank.settings.max_num_batched_tokens
    return compiling_formula(model, rank.split, rank.gpu, batched_tokens=tokens, dtype_bytes=rank.value_bytes)


def _sampler(rank: Rank, parts: Activations) -> tuple[str, str]:
    """Return the name and the formula of what comes after the forward pass: the sampler, or the pooler."""
    if rank.request.model.task is Task.POOL:
        return "pooler", pooler_formula(rank.request.model, batched_tokens=rank.settings.max_num_batched_tokens)
    sampler = rank_step(rank).sampled(rank.settings.max_num_seqs).sampling
    return "sampler", "" if sampler is None else sampler.formula(parts.rows)


def _encoder(rank: Rank, seen: Profiled, parts: Activations) -> str:
    model = rank.request.model
    return encoder_formula(model, rank.split, seen, peak_bytes=parts.encoder, dtype_bytes=rank.value_bytes)
