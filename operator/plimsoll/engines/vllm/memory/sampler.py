"""The memory of sampling the last token of every sequence: several fp32 copies of logits over the whole vocabulary."""

from __future__ import annotations

from typing import NamedTuple

from plimsoll.engines.vllm.memory.engine_law import SamplerLaw

LOGIT_BYTES = 4

_HALF_PRECISION_BYTES = 2
"""The width with which :class:`SamplerLaw` was measured. Wider models add the extra width of the raw logits."""


class Sampling(NamedTuple):
    """A sampler for any number of rows: the logits of a row, how many 32-bit copies of them exist, and fixed bytes."""

    vocabulary: int
    copies: float
    base_bytes: int

    def peak_bytes(self, rows: int) -> int:
        """Return the peak bytes while ``rows`` rows are sampled."""
        return int(rows * self.vocabulary * LOGIT_BYTES * self.copies) + self.base_bytes


def sampling(
    law: SamplerLaw,
    *,
    vocabulary: int,
    gathers: bool = False,
    rejects: bool = False,
    dtype_bytes: int = _HALF_PRECISION_BYTES,
) -> Sampling:
    """Return the sampler of one rank; the arguments are those of :func:`sampler_bytes`."""
    copies = sampler_copies(law, gathers=gathers, rejects=rejects, dtype_bytes=dtype_bytes)
    return Sampling(vocabulary, copies, law.base_bytes)


def sampler_bytes(
    law: SamplerLaw,
    *,
    vocabulary: int,
    rows: int,
    gathers: bool = False,
    rejects: bool = False,
    dtype_bytes: int = _HALF_PRECISION_BYTES,
) -> int:
    """Return the peak bytes of the sampler on the rank that samples. Tensor parallelism does not divide them.

    Batch-sharded sampling would divide them, but is off by default (``config/parallel.py`` of 0.32).

    The raw logits of an fp32 model are twice as wide: half a copy more (vLLM 0.19.0, Llama-3.1-8B in float32: 0.32 GiB
    over bfloat16; 0.24 of these are explained by this).

    Args:
        law: the sampler of the release.
        vocabulary: rows of the output projection.
        rows: sequences that get a token in one step.
        gathers: whether the logits come from more than one rank.
        rejects: whether tokens are drafted, and the sampler may reject them.
        dtype_bytes: width of the model's activations.
    """
    own = sampling(law, vocabulary=vocabulary, gathers=gathers, rejects=rejects, dtype_bytes=dtype_bytes)
    return own.peak_bytes(rows)


def sampler_copies(law: SamplerLaw, *, gathers: bool, rejects: bool, dtype_bytes: int) -> float:
    """Return how many 32-bit copies of the logits exist at the same time at the peak."""
    copies = max(law.copies, law.rejecting_copies) if rejects else law.copies
    return copies + law.gathered_copies * gathers + (dtype_bytes - _HALF_PRECISION_BYTES) / LOGIT_BYTES


def sampler_formula(
    law: SamplerLaw,
    *,
    vocabulary: int,
    rows: int,
    gathers: bool = False,
    rejects: bool = False,
    dtype_bytes: int = _HALF_PRECISION_BYTES,
) -> str:
    """Return :func:`sampler_bytes` as a formula with its numbers."""
    copies = sampler_copies(law, gathers=gathers, rejects=rejects, dtype_bytes=dtype_bytes)
    logits = f"{rows:,} rows x {vocabulary:,} logits x {LOGIT_BYTES} B x {copies:g} copies"
    return f"{logits} + {law.base_bytes:,} B" if law.base_bytes else logits
