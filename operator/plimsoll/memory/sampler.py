"""What sampling the last token of every sequence takes: fp32 logits over the whole vocabulary, several copies."""

from __future__ import annotations

from plimsoll.memory.engine_law import SamplerLaw

LOGIT_BYTES = 4

_HALF_PRECISION_BYTES = 2
"""What :class:`SamplerLaw` was measured with; wider models add the width of one more copy of the raw logits."""


def sampler_bytes(
    law: SamplerLaw,
    *,
    vocabulary: int,
    rows: int,
    gathers: bool = False,
    rejects: bool = False,
    dtype_bytes: int = _HALF_PRECISION_BYTES,
) -> int:
    """Peak bytes of the sampler on the rank that samples; tensor parallelism does not divide it.

    Batch-sharded sampling, which would, is off by default (``config/parallel.py`` of 0.32).

    An fp32 model has raw logits twice as wide: half a copy more (vLLM 0.19.0, Llama-3.1-8B in float32: 0.32 GiB over
    bfloat16, of which this is 0.24).

    Args:
        law: the sampler of the release.
        vocabulary: rows of the output projection.
        rows: sequences that get a token in one step.
        gathers: whether the logits come from more than one rank.
        rejects: whether tokens are drafted, and the sampler may reject them.
        dtype_bytes: width of the model's activations.
    """
    copies = sampler_copies(law, gathers=gathers, rejects=rejects, dtype_bytes=dtype_bytes)
    return int(rows * vocabulary * LOGIT_BYTES * copies) + law.base_bytes


def sampler_copies(law: SamplerLaw, *, gathers: bool, rejects: bool, dtype_bytes: int) -> float:
    """Copies of the logits in 32 bits that lie side by side at the peak."""
    copies = max(law.copies, law.rejecting_copies) if rejects else law.copies
    return copies + law.gathered_copies * gathers + (dtype_bytes - _HALF_PRECISION_BYTES) / LOGIT_BYTES
