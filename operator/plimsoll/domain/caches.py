"""What a layer keeps of the tokens it has seen: the shapes, before tensor parallelism and before any number format."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class AttentionCache:
    """Keys and values of every token, or of those a window or chunk can still see.

    ``window_tokens`` is the sliding window, ``chunk_tokens`` the chunk of chunked local attention (Llama 4); at most
    one is set. Head counts are of the whole model. ``keeps_model_type`` marks classes that never hand the format asked
    for to their attention (Falcon): the cache keeps the model's own type.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    window_tokens: int | None = None
    chunk_tokens: int | None = None
    keeps_model_type: bool = False


@dataclass(frozen=True, slots=True)
class LatentCache:
    """Multi-head latent attention (MLA): one compressed vector a token, copied on every tensor-parallel rank.

    ``latent`` is ``kv_lora_rank``, ``rope`` the decoupled rotary part. ``sparse`` marks DeepSeek sparse attention,
    whose FP8 layout is the engine's ``fp8_ds_mla``.
    """

    latent: int
    rope: int
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class IndexerCache:
    """Keys of the indexer of DeepSeek sparse attention: FP8 values of ``head_dim``, 4-byte scales, on every rank.

    It picks ``picked_tokens`` tokens of the context for each token of a step.
    """

    head_dim: int
    picked_tokens: int = 0


@dataclass(frozen=True, slots=True)
class RowCache:
    """Rows of ``row_bytes`` bytes in every cache format, on every rank: what kernels with a layout of their own keep.

    ``tokens_per_row`` tokens are compressed to one row. ``block_tokens`` is the block that the kernels take: with a
    window its own, otherwise the whole model's (None: they leave it to the others). A page is rounded up to
    ``alignment`` bytes. ``packed`` marks layouts that put pages of different size side by side in one block
    (DeepSeek-V4). ``kernel_rows`` are the smallest and the largest page that the kernels read at once, in rows.
    ``indexed`` marks keys that an indexer gathers into the buffer of DeepSeek sparse attention.
    """

    row_bytes: int
    block_tokens: int | None = None
    tokens_per_row: int = 1
    window_tokens: int | None = None
    alignment: int = 1
    packed: bool = False
    kernel_rows: tuple[int, int] | None = None
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class RingCache:
    """The last rows of a request in a circle, on every rank: what a compressor has yet to compress (GLM-5.3-Flash).

    ``tokens_per_row`` tokens are compressed at a time; drafted tokens lengthen the circle, by rows or (``doubles``) to
    the next power of two of them. It never holds fewer than ``least_tokens``.
    """

    token_bytes: int
    tokens_per_row: int
    doubles: bool = True
    least_tokens: int = 1


@dataclass(frozen=True, slots=True)
class CrossCache:
    """Keys and values of an encoder's output (Whisper): ``encoder_tokens`` a request, whatever its length."""

    kv_heads: int
    head_dim: int
    encoder_tokens: int


class StateKind(StrEnum):
    """Which recurrent layer a state belongs to; decides how the engine shards and types it."""

    MAMBA1 = "mamba1"
    MAMBA2 = "mamba2"
    GATED_DELTA = "gatedDeltaNet"
    KIMI_DELTA = "kimiDeltaAttention"
    LINEAR = "linearAttention"
    SHORT_CONV = "shortConv"


@dataclass(frozen=True, slots=True)
class StatePart:
    """One tensor of a recurrent state: ``units`` (heads, groups or channels) of ``unit_elements`` each.

    A rank holds ``max(1, units // tp)`` units. ``dtype_bytes`` is None where the tensor has the model's type. A
    convolution's part keeps one column more for every speculative token: ``grows_with_speculation`` elements a unit.
    """

    units: int
    unit_elements: int
    dtype_bytes: int | None = None
    grows_with_speculation: int = 0


@dataclass(frozen=True, slots=True)
class StateCache:
    """The recurrent state of one request in one layer: constant, however long the request."""

    kind: StateKind
    parts: tuple[tuple[StatePart, ...], ...]
    """Tensors in the engine's order (convolution first); each a sum of parts that are sharded differently."""
    checkpoints: bool = False
    """Whether its kernels can save a state from inside a prefill, for which prefix caching keeps one block more."""
    whole: bool = False
    """Whether every rank holds all of it; the engine groups such states apart."""


CacheSpec = AttentionCache | LatentCache | IndexerCache | RowCache | RingCache | CrossCache | StateCache
