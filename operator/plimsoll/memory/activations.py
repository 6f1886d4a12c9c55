"""Peak of activations on one rank: the forward pass of a full step, or the sampler, whichever is higher.

The sampler is what surprises people: fp32 logits of every running sequence over the whole vocabulary, several copies.
It does not shrink with tensor parallelism, and the engine's default of 1,024 sequences costs gigabytes.
"""

from __future__ import annotations

from plimsoll.domain.model import ModelFacts
from plimsoll.domain.outcomes import Split
from plimsoll.domain.units import GIB
from plimsoll.memory.laws import EngineLaw

FORWARD_SLACK = 1.25
"""Temporaries beside the hidden state and the MLP's inner state, from start-up logs with small ``--max-num-seqs``."""

MOE_EXTRA_BYTES = int(0.5 * GIB)
"""Routing and expert workspaces: +0.4 to +0.5 GiB over the dense law on four MoE models (vLLM 0.19.0, H100)."""


def activations_bytes(model: ModelFacts, split: Split, law: EngineLaw, *, batched_tokens: int, sequences: int) -> int:
    """Peak bytes on one rank while a step of ``batched_tokens`` tokens and ``sequences`` sequences runs."""
    extra = MOE_EXTRA_BYTES if model.experts else 0
    return max(_forward_bytes(model, split, batched_tokens), _sampler_bytes(model, law, sequences)) + extra


def _forward_bytes(model: ModelFacts, split: Split, batched_tokens: int) -> int:
    """Two hidden states and gate, up and their product, in 16 bits, for every token of the step."""
    return int(
        batched_tokens * 2 * (2 * model.hidden + 3 * _inner_width(model) / split.tensor_parallel) * FORWARD_SLACK
    )


def _inner_width(model: ModelFacts) -> int:
    """Widest MLP that one token passes: the dense one, or its experts together."""
    if model.experts is None:
        return model.intermediate
    routed = model.experts.experts_per_token * model.experts.intermediate + model.experts.shared_intermediate
    return max(model.intermediate, routed)


def _sampler_bytes(model: ModelFacts, law: EngineLaw, sequences: int) -> int:
    return int(sequences * model.vocabulary * 4 * law.sampler_copies) + law.sampler_base_bytes
