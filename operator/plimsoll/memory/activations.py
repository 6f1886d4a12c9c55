"""Peak of activations on one rank: the highest of encoder, forward pass and sampler, with what stays under each.

The engine profiles in that order: the encoder, whose inputs and outputs stay; the decoder, whose hidden states (and,
since 0.14, workspaces) stay; the sampler. The sampler is what surprises people: it does not shrink with tensor
parallelism, and the engine's default of 1,024 sequences costs gigabytes.

Fitted to 33 starts of vLLM 0.19.0 on H100 80GB (worst 0.07 GiB) and checked on 86 logs of 0.10 to 0.29; the residuals
are in ``tests/memory/test_overhead.py``.
"""

from __future__ import annotations

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.memory.encoder import encoder_held_bytes, encoder_peak_bytes
from plimsoll.memory.forward import (
    dense_forward_bytes,
    expert_workspace_bytes,
    hidden_bytes,
    sparse_workspace_bytes,
)
from plimsoll.memory.laws import EngineLaw
from plimsoll.memory.sampler import sampler_bytes

RECEIVED_TENSORS = 2
"""Hidden state and residual that pipeline stages hand on."""


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
    skip_encoder: bool = False,
    dtype_bytes: int = 2,
) -> int:
    """Peak bytes on one rank while a step of ``batched_tokens`` tokens and ``sequences`` sequences is profiled.

    Args:
        model: the model.
        split: how the replica is cut; with pipeline stages, the first holds the encoder and the last samples.
        law: the release's law.
        gpu: decides sampler and runner; None counts as NVIDIA's.
        batched_tokens: ``--max-num-batched-tokens``.
        sequences: ``--max-num-seqs``.
        context_tokens: ``--max-model-len``, read by sparse attention alone; None takes the model's largest.
        speculative_tokens: drafted tokens a step; the second model runner profiles their logits as well.
        last_stage: whether the rank is of the stage that samples.
        skip_encoder: the tower is neither loaded nor profiled.
        dtype_bytes: width of activations.
    """
    tokens = batched_tokens
    experts = expert_workspace_bytes(model, split, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    context = model.max_context_tokens if context_tokens is None else context_tokens
    sparse = sparse_workspace_bytes(model, context_tokens=context, trims=law.trims_sparse_workspace)
    forward = dense_forward_bytes(model, split, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    hidden = hidden_bytes(model, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    kept = max(experts, sparse) if law.keeps_workspaces else sparse
    step = forward if law.keeps_workspaces else max(forward, experts + hidden)
    if last_stage:
        drafted = speculative_tokens if law.runs_v2(model, gpu) else 0
        sampling = sampler_bytes(
            law.sampler_of(model, gpu),
            vocabulary=model.vocabulary,
            rows=min(sequences * (1 + drafted), tokens),
            gathers=split.tensor_parallel > 1,
            dtype_bytes=dtype_bytes,
        )
        step = max(step, hidden + sampling)
    else:
        step += RECEIVED_TENSORS * hidden
    has_encoder = not skip_encoder and (split.pipeline_parallel == 1 or not last_stage)
    if not has_encoder:
        return kept + step
    peak = encoder_peak_bytes(model, split, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    held = encoder_held_bytes(model, batched_tokens=tokens, dtype_bytes=dtype_bytes)
    return max(peak, held + kept + step)
