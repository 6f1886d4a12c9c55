"""The memory of pooling a step: the hidden states in 32 bits, and the same states normalised.

The engine profiles every task of the model, and the largest is that of embeddings for each token. It casts all states
of the step to the type of the head, which is 32 bits, and normalises them into a copy. No sampler runs. Sources: vLLM
0.32, ``v1/worker/gpu_model_runner.py`` (``_dummy_pooler_run``), ``v1/worker/gpu/pool/pooling_runner.py`` and
``layers/pooler/tokwise/heads.py``. No log of such a start was compared.
"""

from __future__ import annotations

from plimsoll.domain.model import ModelFacts

_COPIES = 2
_HEAD_BYTES = 4


def pooler_bytes(model: ModelFacts, *, batched_tokens: int) -> int:
    """Return the bytes while a step of so many tokens is pooled, in addition to its hidden states."""
    return batched_tokens * model.hidden * _HEAD_BYTES * _COPIES


def pooler_formula(model: ModelFacts, *, batched_tokens: int) -> str:
    """Return :func:`pooler_bytes` as a formula with its numbers."""
    return f"{batched_tokens:,} tokens x {model.hidden:,} x {_HEAD_BYTES} B x {_COPIES} copies"
