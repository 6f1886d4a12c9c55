"""The number of tokens in a block: the backend's preference, or the number that makes a recurrent state fit a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, lcm

from plimsoll.domain.models.caches import (
    AttentionCache,
    CacheSpec,
    CrossCache,
    IndexerCache,
    LatentCache,
    RingCache,
    RowCache,
    StateCache,
)
from plimsoll.domain.units import ceil_div
from plimsoll.engines.vllm.memory.kv_cache.groups import Holding, Page
from plimsoll.memory.cache_bytes import RankFormat, ring_bytes, rows_bytes, state_bytes, state_shape
from plimsoll.memory.cache_bytes import token_bytes as bytes_of_token

BLOCK_TOKENS = 16
"""Tokens of one block (vLLM's ``DEFAULT_BLOCK_SIZE``)."""

SPARSE_BLOCK_TOKENS = 64
"""The kernels of sparse attention and its indexer read pages of 64 tokens."""

LATENT_HYBRID_ALIGNMENT = 128
"""In models with recurrent states, latent attention has blocks of a multiple of 128 tokens."""


def pages_of(
    caches: Sequence[CacheSpec],
    rank: RankFormat,
    block_tokens: int | None = None,
    state_alignment: int = BLOCK_TOKENS,
    *,
    aligns_to_block: bool = True,
) -> tuple[Page, ...]:
    """Return the page of each cache, before the engine makes pages of different sizes equal.

    ``caches`` are those of the whole model, because they decide the block together. ``block_tokens`` overrules the
    default for backends that want another one; a recurrent state may still enlarge it, to a multiple of
    ``state_alignment`` tokens, and of ``block_tokens`` where it ``aligns_to_block``.
    """
    preferred = _preferred_block_tokens(caches)
    block = block_tokens or preferred
    state_page = 0
    largest_state = max((state_bytes(cache, rank) for cache in caches if isinstance(cache, StateCache)), default=0)
    token_bytes = max((_alignment_bytes(cache, rank) for cache in caches), default=0)
    if largest_state and token_bytes:
        alignment = lcm(_alignment(caches, block if aligns_to_block else preferred), state_alignment)
        fitting = _block_for_state(largest_state, token_bytes, alignment)
        block = max(block, _up_to_kernels(fitting, caches))
        state_page = block * token_bytes
    return tuple(_page(cache, rank, block, state_page) for cache in caches)


def _preferred_block_tokens(caches: Sequence[CacheSpec]) -> int:
    asked = [cache.block_tokens for cache in caches if isinstance(cache, RowCache) and not cache.window_tokens]
    if any(asked):
        return max(block for block in asked if block)
    sparse = any(
        isinstance(cache, IndexerCache) or (isinstance(cache, LatentCache) and cache.sparse) for cache in caches
    )
    return SPARSE_BLOCK_TOKENS if sparse else BLOCK_TOKENS


def _alignment(caches: Sequence[CacheSpec], block_tokens: int) -> int:
    latent = any(isinstance(cache, LatentCache) for cache in caches)
    return max(block_tokens, LATENT_HYBRID_ALIGNMENT) if latent else block_tokens


def _block_for_state(largest_state: int, token_bytes: int, alignment: int) -> int:
    """Return the fewest tokens whose attention page holds a state (vLLM, ``Platform._align_hybrid_block_size``)."""
    return alignment * ceil_div(largest_state, alignment * token_bytes)


def _up_to_kernels(block_tokens: int, caches: Sequence[CacheSpec]) -> int:
    """Return the tokens rounded up to whole pages of the kernels that read compressed rows.

    vLLM 0.32 does so. A log of 0.28 (GLM-5.3-Flash, TP 8) pads states by 20.75 %, which means a block of 640 tokens.
    This function returns 1,024. The tokens of the cache differ by 0.05 %.
    """
    rows = [cache for cache in caches if isinstance(cache, RowCache) and cache.kernel_rows]
    kernels = lcm(*(cache.kernel_rows[0] * cache.tokens_per_row for cache in rows if cache.kernel_rows))
    return ceil_div(block_tokens, kernels) * kernels


def _alignment_bytes(cache: CacheSpec, rank: RankFormat) -> int:
    """Return the bytes of a token as that rule counts them: values as wide as keys, latent rows without scales."""
    match cache:
        case AttentionCache():
            return rank.heads(cache.kv_heads) * rank.pair_bytes(replace(cache, value_dim=cache.key_dim))
        case LatentCache():
            return rank.vector_bytes(cache.latent + cache.rope)
        case _:
            return 0


def _page(cache: CacheSpec, rank: RankFormat, block_tokens: int, state_page: int) -> Page:
    if isinstance(cache, StateCache):
        sizes = tuple(size for tensor in state_shape(cache, rank) for size in tensor)
        # All states have the same separate block length. Only the equality matters, not the value.
        page = max(state_page, state_bytes(cache, rank))
        return Page(
            Holding.STATE, (cache.kind, *sizes), 1, page, limit_tokens=int(cache.checkpoints), whole=cache.whole
        )
    if isinstance(cache, RowCache):
        return _row_page(cache, block_tokens)
    if isinstance(cache, RingCache):
        return Page(Holding.RING, ("ring", cache.token_bytes), 1, ring_bytes(cache, rank))
    holding, limit = _reach(cache)
    return Page(
        holding,
        _shape(cache, rank),
        block_tokens,
        block_tokens * bytes_of_token(cache, rank),
        limit,
        can_be_padded=not isinstance(cache, LatentCache | IndexerCache),
        stride_bytes=bytes_of_token(cache, rank) if isinstance(cache, LatentCache) and cache.sparse else 1,
    )


def _row_page(cache: RowCache, block_tokens: int) -> Page:
    window = cache.window_tokens
    block = (window and cache.block_tokens) or block_tokens
    shape = ("rows", cache.row_bytes, cache.tokens_per_row)
    return Page(
        Holding.WINDOW if window else Holding.FULL,
        shape,
        block,
        rows_bytes(cache, block),
        window or 0,
        can_be_padded=False,
        stride_bytes=_stride_bytes(cache, block),
    )


def _stride_bytes(cache: RowCache, block_tokens: int) -> int:
    """Return the bytes of a kernel's page, where a block holds several (vLLM, ``get_block_stride_alignment``)."""
    if cache.kernel_rows is None:
        return 1
    kernel = gcd(cache.kernel_rows[1] * cache.tokens_per_row, block_tokens)
    return 1 if kernel == block_tokens else rows_bytes(cache, kernel)


def _reach(cache: AttentionCache | LatentCache | IndexerCache | CrossCache) -> tuple[Holding, int]:
    if isinstance(cache, CrossCache):
        return Holding.CROSS, cache.encoder_tokens
    if isinstance(cache, AttentionCache) and cache.window_tokens:
        return Holding.WINDOW, cache.window_tokens
    if isinstance(cache, AttentionCache) and cache.chunk_tokens:
        return Holding.CHUNK, cache.chunk_tokens
    return Holding.FULL, 0


def _shape(cache: AttentionCache | LatentCache | IndexerCache | CrossCache, rank: RankFormat) -> tuple[str | int, ...]:
    match cache:
        case AttentionCache():
            return ("heads", rank.heads(cache.kv_heads), cache.key_dim, cache.value_dim)
        case CrossCache():
            return ("heads", rank.heads(cache.kv_heads), cache.head_dim, cache.head_dim)
        case IndexerCache():
            return ("indexer", cache.head_dim)
        case LatentCache():
            return ("latent", cache.latent + cache.rope)
