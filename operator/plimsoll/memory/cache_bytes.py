"""The bytes that one layer keeps on one rank: for one token, or for one request's state."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from plimsoll.domain.caches import (
    AttentionCache,
    CrossCache,
    IndexerCache,
    LatentCache,
    RingCache,
    RowCache,
    StateCache,
    StatePart,
)
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.precision import SCALED_BY_TOKEN, KvPrecision
from plimsoll.domain.units import ceil_div

DS_MLA_TOKEN_BYTES = {KvPrecision.FP8: 656, KvPrecision.NVFP4: 352}
"""A token of sparse latent attention: values, scales and the 16-bit rotary part in one row.

Source: ``MLAAttention.get_kv_cache_spec`` (``fp8_ds_mla``, ``nvfp4_ds_mla``).
"""

TOKEN_SCALE_BYTES = 4
"""The 32-bit scale of one key or value (``TritonAttentionBackend.customize_spec``)."""

INDEXER_SCALE_BYTES = 4
INDEXER_SCALE_GROUP = 128
"""The indexer keeps FP8 keys with a 32-bit scale for every 128 of them (``DeepseekV32IndexerCache``)."""

PER_TOKEN_CACHES = (AttentionCache, LatentCache, IndexerCache)
"""Caches that grow with the request by a whole number of bytes a token."""

PerTokenCache = AttentionCache | LatentCache | IndexerCache


@dataclass(frozen=True, slots=True)
class RankFormat:
    """The format in which one rank stores caches: number format, the model's own type, and its share of the heads.

    ``model`` is the name in error messages.
    """

    precision: KvPrecision
    dtype_bytes: int
    tensor_parallel: int
    speculative_tokens: int
    model: str

    def heads(self, total: int) -> int:
        """Return the heads of ``total`` on this rank, at least one: ranks copy heads where there are too few."""
        return max(1, total // self.tensor_parallel)

    def head_bytes(self, cache: AttentionCache, width: int) -> int:
        """Return the bytes of one key or value of one head of ``cache``."""
        return width * self.dtype_bytes if cache.keeps_model_type else self.vector_bytes(width)

    def vector_bytes(self, width: int) -> int:
        """Return the bytes of one key or value of one head.

        NVFP4 packs two values in a byte and keeps an 8-bit scale for every 16 (``nvfp4_kv_cache_full_dim``).
        Without a smaller format the cache has the model's own type, 32-bit models included.
        """
        match self.precision:
            case KvPrecision.FP8:
                return width
            case KvPrecision.NVFP4:
                return width // 2 + width // 16
            case KvPrecision.INT8 | KvPrecision.FP8_SCALED:
                return width + TOKEN_SCALE_BYTES
            case KvPrecision.INT4:
                return width // 2 + TOKEN_SCALE_BYTES
            case KvPrecision.BF16 | KvPrecision.FP16:
                return width * self.dtype_bytes


def token_bytes(cache: PerTokenCache | CrossCache, rank: RankFormat) -> int:
    """Return the bytes of one token in one layer.

    Raises:
        UnsupportedModel: the engine has no such format for these keys and values.
    """
    match cache:
        case AttentionCache():
            _refuse_unequal(cache, rank)
            return rank.heads(cache.kv_heads) * sum(
                rank.head_bytes(cache, dim) for dim in (cache.key_dim, cache.value_dim)
            )
        case CrossCache():
            return rank.heads(cache.kv_heads) * 2 * rank.vector_bytes(cache.head_dim)
        case IndexerCache():
            return cache.head_dim + cache.head_dim // INDEXER_SCALE_GROUP * INDEXER_SCALE_BYTES
        case LatentCache():
            return _latent_bytes(cache, rank)


def rows_bytes(cache: RowCache, block_tokens: int) -> int:
    """Return the bytes of one page of rows. Source: ``v1/kv_cache_interface.py``, ``_apply_alignment_padding``."""
    rows = block_tokens // cache.tokens_per_row
    return ceil_div(rows * cache.row_bytes, cache.alignment) * cache.alignment


def ring_bytes(cache: RingCache, rank: RankFormat) -> int:
    """Return the bytes of one request's ring buffer.

    Sources: ``Glm5NextTailCache``, ``QSAKeyStateCache`` and ``CompressorStateCache`` (``models/deepseek_v41``).
    """
    rows = ceil_div(cache.tokens_per_row + rank.speculative_tokens, cache.tokens_per_row)
    if cache.doubles:
        rows = 1 << (rows - 1).bit_length()
    return cache.token_bytes * max(cache.least_tokens, cache.tokens_per_row * rows)


def _refuse_unequal(cache: AttentionCache, rank: RankFormat) -> None:
    """Refuse scales by token for values of another width than keys. Source: ``triton_attn_diffkv.py``."""
    scaled = rank.precision in SCALED_BY_TOKEN and not cache.keeps_model_type
    if scaled and cache.key_dim != cache.value_dim:
        raise UnsupportedModel(
            rank.model,
            f"an {rank.precision} KV cache of values that are not as wide as keys: the engine has no kernels for it",
        )


def _latent_bytes(cache: LatentCache, rank: RankFormat) -> int:
    if cache.sparse and rank.precision in DS_MLA_TOKEN_BYTES:
        return DS_MLA_TOKEN_BYTES[rank.precision]
    if rank.precision is KvPrecision.NVFP4:
        raise UnsupportedModel(rank.model, "an NVFP4 KV cache of latent attention that is not sparse")
    if rank.precision in SCALED_BY_TOKEN:
        raise UnsupportedModel(
            rank.model, f"an {rank.precision} KV cache of latent attention: the engine has no kernels for it"
        )
    return rank.vector_bytes(cache.latent + cache.rope)


def state_bytes(cache: StateCache, rank: RankFormat) -> int:
    """Return the bytes of one request's state in one layer. Source: ``model_executor/layers/mamba/mamba_utils.py``."""
    return sum(prod(size) for size in state_shape(cache, rank))


def state_shape(cache: StateCache, rank: RankFormat) -> tuple[tuple[int, int], ...]:
    """Return the elements of each tensor of the state on this rank, and the bytes of one element."""
    return tuple((sum(_elements(part, rank) for part in tensor), _type_bytes(tensor, rank)) for tensor in cache.parts)


def _elements(part: StatePart, rank: RankFormat) -> int:
    return rank.heads(part.units) * (part.unit_elements + part.grows_with_speculation * rank.speculative_tokens)


def _type_bytes(tensor: tuple[StatePart, ...], rank: RankFormat) -> int:
    return tensor[0].dtype_bytes or rank.dtype_bytes
