"""The bytes that one layer keeps on one rank: for one token, or for one request's state."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.caches import (
    AttentionCache,
    CrossCache,
    IndexerCache,
    LatentCache,
    RingCache,
    RowCache,
    StateCache,
    StatePart,
)
from plimsoll.domain.models.precision import SCALED_BY_TOKEN, TURBOQUANT, KvPrecision
from plimsoll.domain.units import ceil_div

DS_MLA_TOKEN_BYTES = {KvPrecision.FP8: 656, KvPrecision.NVFP4: 352}
"""A token of sparse latent attention: values, scales and the 16-bit rotary part in one row.

Source: ``MLAAttention.get_kv_cache_spec`` (``fp8_ds_mla``, ``nvfp4_ds_mla``).
"""

TURBOQUANT_BITS = {
    KvPrecision.TURBO_K8V4: (8, 4),
    KvPrecision.TURBO_4BIT: (4, 4),
    KvPrecision.TURBO_K3V4: (3, 4),
    KvPrecision.TURBO_3BIT: (3, 3),
}
"""Bits of a number of a key, and of a value (``TQ_PRESETS``)."""

_BYTE_BITS = 8
_NORM_BYTES, _VALUE_BYTES = 2, 4

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
        """Return the heads of ``total`` on this rank, at least one: ranks copy heads if there are too few."""
        return max(1, total // self.tensor_parallel)

    def head_bytes(self, cache: AttentionCache, width: int) -> int:
        """Return the bytes of one key or value of one head of ``cache``."""
        return width * self.dtype_bytes if cache.keeps_model_type else self.vector_bytes(width)

    def pair_bytes(self, cache: AttentionCache) -> int:
        """Return the bytes of the key and the value that one head of ``cache`` keeps of a token."""
        if self.precision in TURBOQUANT and not cache.keeps_model_type:
            return turboquant_bytes(self.precision, cache.key_dim)
        return self.head_bytes(cache, cache.key_dim) + self.head_bytes(cache, cache.value_dim)

    def vector_bytes(self, width: int) -> int:
        """Return the bytes of one key or value of one head.

        NVFP4 packs two values in a byte and keeps an 8-bit scale for every 16 (``nvfp4_kv_cache_full_dim``).
        Without a smaller format the cache has the model's own type, 32-bit models included.

        Raises:
            UnsupportedModel: TurboQuant's formats pack a key with its value.
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
            case _:
                raise _unread(self, "latent or cross attention")


def turboquant_bytes(precision: KvPrecision, width: int) -> int:
    """Return the bytes of a key and a value of one head, packed together and filled up to an even number.

    A key of 8 bits has no scale, one of fewer bits a 16-bit norm; a value has a 16-bit scale and zero point.
    Source: vLLM, ``quantization/turboquant/config.py``, ``slot_size_aligned``.
    """
    key_bits, value_bits = TURBOQUANT_BITS[precision]
    key = ceil_div(width * key_bits, _BYTE_BITS) + (0 if key_bits == _BYTE_BITS else _NORM_BYTES)
    return ceil_div(key + ceil_div(width * value_bits, _BYTE_BITS) + _VALUE_BYTES, 2) * 2


def token_bytes(cache: PerTokenCache | CrossCache, rank: RankFormat) -> int:
    """Return the bytes of one token in one layer.

    Raises:
        UnsupportedModel: the engine has no such format for these keys and values.
    """
    match cache:
        case AttentionCache():
            _refuse_unread(cache, rank)
            return rank.heads(cache.kv_heads) * rank.pair_bytes(cache)
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


def _refuse_unread(cache: AttentionCache, rank: RankFormat) -> None:
    """Refuse what the kernels of the small formats do not read.

    Sources: ``triton_attn_diffkv.py`` (values of another width), ``AttentionBackend.supports_sliding_window``, and
    ``turboquant_attn.py``, whose rotation (``_build_hadamard``) is made for powers of two.
    """
    if cache.keeps_model_type or rank.precision not in (*SCALED_BY_TOKEN, *TURBOQUANT):
        return
    if cache.key_dim != cache.value_dim:
        raise _unread(rank, "values that are not as wide as keys")
    if rank.precision not in TURBOQUANT:
        return
    if cache.window_tokens or cache.chunk_tokens:
        raise _unread(rank, "windows")
    rotates = TURBOQUANT_BITS[rank.precision][0] < _BYTE_BITS
    if rotates and cache.key_dim & (cache.key_dim - 1):
        raise _unread(rank, f"heads of {cache.key_dim} numbers, which is no power of two")


def _unread(rank: RankFormat, what: str) -> UnsupportedModel:
    return UnsupportedModel(rank.model, f"the {rank.precision} KV cache of {what}: the engine has no kernels for it")


def _latent_bytes(cache: LatentCache, rank: RankFormat) -> int:
    if cache.sparse and rank.precision in DS_MLA_TOKEN_BYTES:
        return DS_MLA_TOKEN_BYTES[rank.precision]
    if rank.precision is KvPrecision.NVFP4:
        raise UnsupportedModel(rank.model, "an NVFP4 KV cache of latent attention that is not sparse")
    if rank.precision in SCALED_BY_TOKEN:
        raise _unread(rank, "latent attention")
    return rank.vector_bytes(cache.latent + cache.rope)


def state_bytes(cache: StateCache, rank: RankFormat) -> int:
    """Return the bytes of one request's state in one layer. Source: ``model_executor/layers/mamba/mamba_utils.py``."""
    return sum(prod(size) for size in state_shape(cache, rank))


def state_shape(cache: StateCache, rank: RankFormat) -> tuple[tuple[int, int], ...]:
    """Return the elements of each tensor of the state on this rank, and the bytes of one element."""

    def elements(part: StatePart) -> int:
        return rank.heads(part.units) * (part.unit_elements + part.grows_with_speculation * rank.speculative_tokens)

    return tuple((sum(map(elements, tensor)), tensor[0].dtype_bytes or rank.dtype_bytes) for tensor in cache.parts)
