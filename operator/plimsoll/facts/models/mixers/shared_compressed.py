"""DeepSeek-V4.1: a short window in every layer, and compressed keys of the whole sequence that later layers share.

Source: vLLM, ``models/deepseek_v41/attention.py`` and ``compressor.py``. Layers in ``kv_source_layer_ids`` compress one
or two tokens to a key (``compress_ratios``) for themselves and for the layers after them. Layers in
``index_source_layer_ids`` have an indexer; layers in both lists keep its keys. All rows of a sequence are packed next
to each other in one block, in the same formats as DeepSeek-V4: those of the FlashMLA kernels on Hopper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.caches import CacheSpec, RingCache
from plimsoll.domain.models.model import Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import norm, replicated
from plimsoll.facts.models.layers.shape import Part, Parts, Shape
from plimsoll.facts.models.mixers.compressed import (
    INDEX_SCALE_BYTES,
    KEY_BYTES,
    SCALED_WIDTH,
    CompressedSizes,
    compressed_sizes,
    packed_rows,
    windowed_attention,
)
from plimsoll.facts.models.traits import Architecture

_RATIOS = (1, 2)
_BLOCK_TOKENS = 64
_WINDOW_BLOCK_TOKENS = 32
_STATE_TYPE_BYTES = 4
"""Compressors keep values and scores in 32 bits."""
_LEAST_STATE_TOKENS = 8


def shared_compressed_layers(fields: Fields, _traits: Architecture, shape: Shape) -> Parts:
    """Attention of every layer.

    Raises:
        InvalidInput: a size is missing, a list is too short or ill-typed, or a ratio is unknown to the compressors.
    """
    sizes = compressed_sizes(fields, shape)
    ratios = fields.integers("compress_ratios", shape.layers, smallest=0)
    sources, indexers = _listed(fields, "kv_source_layer_ids"), _listed(fields, "index_source_layer_ids")
    if any(ratios[layer] not in _RATIOS for layer in sources if layer < shape.layers):
        raise fields.refuse("compress_ratios", "Write 1 or 2 for the layers of kv_source_layer_ids.")
    window = packed_rows(KEY_BYTES, _WINDOW_BLOCK_TOKENS, window=sizes.window)
    every = Part(tuple(windowed_attention(sizes)), (window,))
    return tuple(
        every
        + (_source(sizes, ratio) if layer in sources else Part())
        + (_indexer(sizes, ratio, owns_keys=layer in sources) if layer in indexers else Part())
        for layer, ratio in enumerate(ratios)
    )


def _listed(fields: Fields, key: str) -> frozenset[int]:
    return frozenset(fields.integers(key, len(fields.items(key)), smallest=0))


def _source(sizes: CompressedSizes, ratio: int) -> Part:
    caches: list[CacheSpec] = [packed_rows(KEY_BYTES, _BLOCK_TOKENS, ratio)]
    if ratio > 1:
        # Values and scores of the tokens that are not compressed yet.
        caches.append(RingCache(2 * sizes.head_dim * _STATE_TYPE_BYTES, ratio, least_tokens=_LEAST_STATE_TOKENS))
    return Part(tuple(_compressor(sizes, gated=ratio > 1)), tuple(caches))


def _compressor(sizes: CompressedSizes, *, gated: bool) -> Iterator[Weight]:
    for name in ("wkv", "wgate") if gated else ("wkv",):
        yield from replicated(f"self_attn.compressor.{name}", sizes.head_dim, sizes.hidden, linear=False)
    yield from norm("self_attn.compressor.norm", sizes.head_dim)


def _indexer(sizes: CompressedSizes, ratio: int, *, owns_keys: bool) -> Part:
    queries = (
        *replicated("self_attn.indexer.wq_b", sizes.index_heads * sizes.index_dim, sizes.query_rank),
        *replicated("self_attn.indexer.weights_proj", sizes.index_heads, sizes.hidden, linear=False),
    )
    if not owns_keys:
        return Part(queries)
    keys = (
        *replicated("self_attn.indexer.wk", sizes.index_dim, sizes.head_dim, linear=False),
        *norm("self_attn.indexer.k_norm", sizes.index_dim),
    )
    row = sizes.index_dim + sizes.index_dim // SCALED_WIDTH * INDEX_SCALE_BYTES
    return Part(queries + keys, (replace(packed_rows(row, _BLOCK_TOKENS, ratio), indexed=True),))
