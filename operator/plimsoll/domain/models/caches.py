"""The shapes of what a layer keeps of its tokens, before tensor parallelism and before any number format."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class AttentionCache:
    """Keys and values of every token, or of the tokens that a window or chunk can still see.

    ``window_tokens`` is the sliding window, ``chunk_tokens`` the chunk of chunked local attention (Llama 4); at most
    one is set. Head counts are those of the whole model. ``keeps_model_type`` marks classes that do not pass the
    requested cache format to their attention (Falcon): the cache keeps the model's own type.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    window_tokens: int | None = None
    chunk_tokens: int | None = None
    keeps_model_type: bool = False


@dataclass(frozen=True, slots=True)
class LatentCache:
    """Multi-head latent attention (MLA): one compressed vector per token, copied on every tensor-parallel rank.

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
    """Rows of ``row_bytes`` bytes in every cache format, on every rank: the cache of kernels with their own layout.

    ``tokens_per_row`` tokens are compressed to one row. ``block_tokens`` is the block size that the kernels need: for
    this cache alone if it has a window, otherwise for the whole model (None: other caches decide). A page is rounded up
    to ``alignment`` bytes. ``packed`` marks layouts that put pages of different sizes next to each other in one block
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
    """A ring buffer of a request's last rows, on every rank: rows that a compressor must still read (GLM-5.3-Flash).

    ``tokens_per_row`` tokens are compressed at a time. Drafted tokens lengthen the ring, by rows or (``doubles``) to
    the next power of two of rows. The ring never holds fewer than ``least_tokens``.
    """

    token_bytes: int
    tokens_per_row: int
    doubles: bool = True
    least_tokens: int = 1


@dataclass(frozen=True, slots=True)
class CrossCache:
    """Keys and values of an encoder's output (Whisper): ``encoder_tokens`` per request of any length."""

    kv_heads: int
    head_dim: int
    encoder_tokens: int


class StateKind(StrEnum):
    """The recurrent layer of a state. It decides how the engine shards the state and which type the state has."""

    MAMBA1 = "mamba1"
    MAMBA2 = "mamba2"
    GATED_DELTA = "gatedDeltaNet"
    KIMI_DELTA = "kimiDeltaAttention"
    LINEAR = "linearAttention"
    SHORT_CONV = "shortConv"


@dataclass(frozen=True, slots=True)
class StatePart:
    """One tensor of a recurrent state: ``units`` (heads, groups or channels) of ``unit_elements`` each.

    A rank holds ``max(1, units // tp)`` units. ``dtype_bytes`` is None if the tensor has the model's type. The part
    of a convolution keeps one more column for every speculative token: ``grows_with_speculation`` elements per unit.
    """

    units: int
    unit_elements: int
    dtype_bytes: int | None = None
    grows_with_speculation: int = 0


@dataclass(frozen=True, slots=True)
class StateCache:
    """The recurrent state of one request in one layer. Its size does not depend on the length of the request."""

    kind: StateKind
    parts: tuple[tuple[StatePart, ...], ...]
    """Tensors in the engine's order (convolution first). Each is a sum of parts with different sharding."""
    checkpoints: bool = False
    """Whether its kernels can save a state during a prefill. Then prefix caching keeps one more block."""
    whole: bool = False
    """Whether every rank holds the whole state. The engine puts these states into separate groups."""


CacheSpec = AttentionCache | LatentCache | IndexerCache | RowCache | RingCache | CrossCache | StateCache
