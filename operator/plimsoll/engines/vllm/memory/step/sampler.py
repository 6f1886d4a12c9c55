"""The memory of sampling the last token of every sequence: several fp32 copies of logits over the whole vocabulary.

The memory of pooling a step: the hidden states in 32 bits, and the same states normalised.

The engine profiles every task of the model, and the largest is that of embeddings for each token. It casts all states
of the step to the type of the head, which is 32 bits, and normalises them into a copy. No sampler runs. Sources: vLLM
0.32, ``v1/worker/gpu_model_runner.py`` (``_dummy_pooler_run``), ``v1/worker/gpu/pool/pooling_runner.py`` and
``layers/pooler/tokwise/heads.py``. No log of such a start was compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.models.model import ModelFacts
from plimsoll.engines.vllm.memory.laws.engine_law import SamplerLaw
from plimsoll.engines.vllm.memory.step.libraries import multiprocessors, workspace_bytes

LOGIT_BYTES = 4

_HALF_PRECISION_BYTES = 2
"""The width of raw logits that :class:`SamplerLaw` counts. Wider models add the extra width."""


class Sampling(NamedTuple):
    """A sampler for any number of rows.

    ``copies`` 32-bit copies of a row of ``vocabulary`` logits exist for each row, or ``few_copies`` for less than
    ``few_rows`` rows. ``row_bytes`` are those of its hidden states. ``programs`` rows at most are kept as a buffer, and
    ``workspace`` bytes in any case.
    """

    vocabulary: int
    copies: float
    few_rows: int
    few_copies: float
    row_bytes: int
    programs: int
    workspace: int

    def copies_of(self, rows: int) -> float:
        """Return how many 32-bit copies of ``rows`` rows exist at the peak."""
        return self.few_copies if rows < self.few_rows else self.copies

    def buffered_rows(self, rows: int) -> int:
        """Return the rows of the kernel's buffer: a power of two, or one for each multiprocessor; 0 for few rows."""
        return 0 if rows < self.few_rows else min(_power_of_two(min(rows, self.programs)), self.programs)

    def peak_bytes(self, rows: int) -> int:
        """Return the peak bytes while ``rows`` rows are sampled, and never less than for fewer rows.

        From ``few_rows`` rows on a row takes less, so 128 sorted rows take less than 127. No plan may rely on that:
        what fits must fit with fewer sequences.
        """
        return self._bytes(self._dearest(rows))

    def formula(self, rows: int) -> str:
        """Return :meth:`peak_bytes` as a formula with its numbers."""
        dearest = self._dearest(rows)
        formula = " + ".join(self._parts(dearest))
        return formula if dearest == rows else f"{formula}, which is more than {rows:,} rows take"

    def _dearest(self, rows: int) -> int:
        """Return how many rows, up to ``rows``, take the most."""
        fewer = self.few_rows - 1
        return fewer if 0 < fewer < rows and self._bytes(fewer) > self._bytes(rows) else rows

    def _bytes(self, rows: int) -> int:
        logits = rows * self.copies_of(rows) + self.buffered_rows(rows)
        return int(logits * self.vocabulary * LOGIT_BYTES) + rows * self.row_bytes + self.workspace

    def _parts(self, rows: int) -> Iterator[str]:
        row = f"{self.vocabulary:,} logits x {LOGIT_BYTES} B"
        yield f"{rows:,} rows x {row} x {self.copies_of(rows):g} copies"
        if buffered := self.buffered_rows(rows):
            yield f"{buffered:,} buffered rows x {row}"
        if self.row_bytes:
            yield f"{rows:,} hidden rows x {self.row_bytes:,} B"
        if self.workspace:
            yield f"{self.workspace:,} B of workspace"


def sampling(
    law: SamplerLaw,
    *,
    vocabulary: int,
    hidden: int = 0,
    gpu: GpuType | None = None,
    gathers: bool = False,
    rejects: bool = False,
    dtype_bytes: int = _HALF_PRECISION_BYTES,
) -> Sampling:
    """Return the sampler of the rank that samples. Tensor parallelism does not divide its memory.

    Batch-sharded sampling would divide it, but is off by default (``config/parallel.py`` of 0.32).

    The raw logits of an fp32 model are twice as wide: half a copy more. vLLM 0.19.0 logged 2.21 GiB for Llama-3.1-8B in
    float32 and 1.89 in bfloat16; 2.21 and 1.89 are computed.

    Args:
        law: the sampler of the release.
        vocabulary: rows of the output projection.
        hidden: width of the hidden states.
        gpu: decides the workspace of matrix products and the size of the kernel's buffer.
        gathers: whether the logits come from more than one rank.
        rejects: whether tokens are drafted, and the sampler may reject them.
        dtype_bytes: width of the model's activations.
    """
    extra = law.gathered_copies * gathers + (dtype_bytes - _HALF_PRECISION_BYTES) / LOGIT_BYTES
    drafted = law.rejecting_copies if rejects else 0.0
    return Sampling(
        vocabulary=vocabulary,
        copies=max(law.copies, drafted) + extra,
        few_rows=law.few_rows,
        few_copies=max(law.few_copies, drafted) + extra,
        row_bytes=law.hidden_copies * hidden * dtype_bytes,
        programs=multiprocessors(gpu) if law.keeps_buffer else 0,
        workspace=workspace_bytes(gpu),
    )


def sampler_bytes(
    law: SamplerLaw,
    *,
    vocabulary: int,
    rows: int,
    gathers: bool = False,
    rejects: bool = False,
    dtype_bytes: int = _HALF_PRECISION_BYTES,
) -> int:
    """Return the peak bytes of sampling ``rows`` rows, without hidden states; the arguments are :func:`sampling`'s."""
    own = sampling(law, vocabulary=vocabulary, gathers=gathers, rejects=rejects, dtype_bytes=dtype_bytes)
    return own.peak_bytes(rows)


def _power_of_two(count: int) -> int:
    """Return the smallest power of two that is not less than ``count``; 0 for 0."""
    return 1 << (count - 1).bit_length() if count else 0


_COPIES = 2
_HEAD_BYTES = 4


def pooler_bytes(model: ModelFacts, *, batched_tokens: int) -> int:
    """Return the bytes while a step of so many tokens is pooled, in addition to its hidden states."""
    return batched_tokens * model.hidden * _HEAD_BYTES * _COPIES


def pooler_formula(model: ModelFacts, *, batched_tokens: int) -> str:
    """Return :func:`pooler_bytes` as a formula with its numbers."""
    return f"{batched_tokens:,} tokens x {model.hidden:,} x {_HEAD_BYTES} B x {_COPIES} copies"
