"""The peak of activations on one rank: the highest of encoder, forward pass and sampler, with the memory kept so far.

The engine profiles in this order: the encoder, whose inputs and outputs stay; the decoder, whose hidden states (and,
since 0.14, workspaces) stay; the sampler. The sampler is often larger than expected: tensor parallelism does not make
it smaller, and the engine's default of 1,024 sequences costs gigabytes.

Fitted to 33 starts of vLLM 0.19.0 on H100 80GB (worst 0.07 GiB) and checked on 86 logs of 0.10 to 0.29; the residuals
are in ``tests/memory/test_overhead.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.precision import Precision
from plimsoll.engines.vllm.memory.compiling import compiling_bytes
from plimsoll.engines.vllm.memory.encoder import Profiled, encoder_held_bytes, encoder_peak_bytes, profiled
from plimsoll.engines.vllm.memory.engine_law import EngineLaw
from plimsoll.engines.vllm.memory.expert_kernels import Scratch, expert_scratch
from plimsoll.engines.vllm.memory.forward import (
    dense_forward_bytes,
    expert_rows_bytes,
    hidden_bytes,
    sparse_workspace_bytes,
)
from plimsoll.engines.vllm.memory.sampler import sampler_bytes

RECEIVED_TENSORS = 2
"""The tensors that a pipeline stage passes on: hidden state and residual."""


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
    sparse: int
    kept: int
    forward: int
    rows_copied: int
    scratch: int
    hidden: int
    rows: int
    sampling: int
    received: int
    compiling: int = 0
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
        return self.total - self._replace(compiling=0).total

    @property
    def total(self) -> int:
        """The peak of the rank."""
        return max(self.encoder, self.held + max(self.kept + self.step, self.compiling))


def activations_bytes(
    model: ModelFacts,
    split: Split,
    law: EngineLaw,
    gpu: GpuType | None,
    *,
    batched_tokens: int,
    sequences: int,
    context_tokens: int | None = None,
    speculative_tokens: int = 0,
    last_stage: bool = True,
    compiles: bool = True,
    precision: Precision | None = None,
    dtype_bytes: int = 2,
) -> int:
    """Return the peak bytes on one rank. The arguments are those of :func:`activation_parts`."""
    return activation_parts(
        model,
        split,
        law,
        gpu,
        batched_tokens=batched_tokens,
        sequences=sequences,
        context_tokens=context_tokens,
        speculative_tokens=speculative_tokens,
        last_stage=last_stage,
        compiles=compiles,
        precision=precision,
        dtype_bytes=dtype_bytes,
    ).total


def activation_parts(
    model: ModelFacts,
    split: Split,
    law: EngineLaw,
    gpu: GpuType | None,
    *,
    batched_tokens: int,
    sequences: int,
    context_tokens: int | None = None,
    speculative_tokens: int = 0,
    last_stage: bool = True,
    compiles: bool = True,
    precision: Precision | None = None,
    dtype_bytes: int = 2,
) -> Activations:
    """Return the peak on one rank while a step of ``batched_tokens`` tokens and ``sequences`` sequences is profiled.

    Args:
        model: the model.
        split: how the replica is divided. With pipeline stages, the last stage samples and the first runs the encoder
            (under the first model runner, all stages run the encoder).
        law: the release's law.
        gpu: decides sampler and runner; None counts as NVIDIA's.
        batched_tokens: ``--max-num-batched-tokens``.
        sequences: ``--max-num-seqs``.
        context_tokens: ``--max-model-len``, used only for sparse attention and videos; None means the model's largest.
        speculative_tokens: drafted tokens per step; the second model runner profiles their logits as well.
        last_stage: whether the rank belongs to the stage that samples.
        compiles: whether the engine compiles, so does not run eagerly.
        precision: the precision of the linear layers; None means the checkpoint's.
        dtype_bytes: width of activations.
    """
    tokens, is_first = batched_tokens, split.pipeline_parallel == 1 or not last_stage
    running = model.checkpoint.precision if precision is None else precision
    experts = expert_scratch(model, running, split, law, gpu, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    context = model.max_context_tokens if context_tokens is None else context_tokens
    sparse = sparse_workspace_bytes(model, context_tokens=context, trims=law.trims_sparse_workspace)
    forward = dense_forward_bytes(model, split, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    hidden = hidden_bytes(model, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    drafted = speculative_tokens if law.runs_v2(model, gpu) else 0
    rows = min(sequences * (1 + drafted), tokens)
    sampling = sampler_bytes(
        law.sampler_of(model, gpu),
        vocabulary=model.vocabulary,
        rows=rows,
        gathers=split.tensor_parallel > 1,
        rejects=speculative_tokens > 0,
        dtype_bytes=dtype_bytes,
    )
    copied = expert_rows_bytes(model, gpu, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    scratch = copied + experts.given_back
    parts = Activations(
        experts=experts,
        sparse=sparse,
        kept=max(experts.kept, sparse) if law.keeps_workspaces else experts.kept + sparse,
        forward=forward,
        rows_copied=copied,
        scratch=scratch + hidden if scratch else 0,
        hidden=hidden,
        rows=rows,
        sampling=sampling if last_stage else 0,
        received=0 if last_stage else RECEIVED_TENSORS * hidden,
        compiling=compiling_bytes(model, split, law, gpu, batched_tokens=tokens, dtype_bytes=dtype_bytes)
        if compiles and is_first
        else 0,
    )
    runs_tower = is_first or not law.runs_v2(model, gpu)
    if model.encoder is None or not runs_tower or not law.profiles_tower_of(model, gpu):
        return parts
    seen = profiled(model.encoder, law, batched_tokens=tokens, sequences=sequences, context_tokens=context)
    peak = encoder_peak_bytes(model, split, seen, dtype_bytes=dtype_bytes)
    held = encoder_held_bytes(model, seen, dtype_bytes=dtype_bytes)
    return parts._replace(encoder=peak, held=held, seen=seen)
