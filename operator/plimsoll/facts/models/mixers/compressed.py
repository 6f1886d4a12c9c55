"""DeepSeek-V4 and V4.1: a short window of exact keys, and compressed keys of the whole sequence.

Sources: vLLM, ``models/deepseek_v4/attention.py`` and ``compressor.py``, and those of ``models/deepseek_v41``.
``compress_ratios`` says for each layer how many tokens share one compressed key. In V4 it is 0 or 1 for no compressed
keys, 4 with an indexer that picks among them, 128 without an indexer. Queries go through a low rank, outputs through
one rank a group.

In V4.1, layers in ``kv_source_layer_ids`` compress one or two tokens to a key for themselves and for the layers after
them. Layers in ``index_source_layer_ids`` have an indexer; layers in both lists keep its keys.

The cache always has the format ``fp8_ds_mla``, whatever the user asks for. It is the format of the FlashMLA kernels
(on Hopper, in V4.1), which the engine uses unless it is set to use FlashInfer. All rows of a sequence are packed next
to each other in one block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from plimsoll.domain.models.caches import CacheSpec, RingCache, RowCache
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import DecoderShape, LayerPart, Parts, column, norm, replicated, row, vector
from plimsoll.facts.models.traits import Architecture

_INDEXED_RATIO = 4
"""The ratio whose layers pick among compressed keys, and compress overlapping stretches."""
_KEY_BYTES = 584
"""A key: 448 values of 8 bits, 64 rotary ones of 16, and scales."""
_INDEX_SCALE_BYTES = 4
_SCALED_WIDTH = 128
"""Values under one of the indexer's scales."""
_ALIGNMENT = 576
"""A page is rounded up to a multiple of this number of bytes, because of the strides that the kernels load."""
_BLOCK_TOKENS = 256
"""Tokens of a block of compressed keys, as the kernels prefer them."""
_WINDOW = 128
"""Tokens of the window if the file names none: the default of Transformers' ``DeepseekV4Config``."""
_WINDOW_BLOCK_TOKENS = 64
_STATE_BLOCK_TOKENS = {4: 4, 128: 8}
"""Tokens in a block of the compressor's state (tokens that are not compressed yet), by ratio."""
_STATE_TYPE_BYTES = 4
"""Compressors keep values and scores in 32 bits."""

_SHARED_RATIOS = (1, 2)
_SHARED_BLOCK_TOKENS = 64
_SHARED_WINDOW_BLOCK_TOKENS = 32
_LEAST_STATE_TOKENS = 8
"""The figures of V4.1."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Widths of one layer; ``window`` in tokens."""

    hidden: int
    heads: int
    head_dim: int
    query_rank: int
    groups: int
    output_rank: int
    index_heads: int
    index_dim: int
    window: int


def compressed_layers(fields: Fields, _traits: Architecture, shape: DecoderShape) -> Parts:
    """Attention of every layer.

    Raises:
        InvalidInput: a size is missing, ``compress_ratios`` is too short, or a ratio is unknown to the compressors.
    """
    sizes = _read_sizes(fields, shape)
    ratios = fields.integers("compress_ratios", shape.layers, smallest=0)
    if not {max(1, ratio) for ratio in ratios} <= {1, *_STATE_BLOCK_TOKENS}:
        raise fields.refuse("compress_ratios", "Write 0, 1, 4 or 128 for each layer.")
    parts = {ratio: _part(sizes, max(1, ratio)) for ratio in set(ratios)}
    return tuple(parts[ratio] for ratio in ratios)


def uncompressed_layer(fields: Fields, shape: DecoderShape) -> LayerPart:
    """Return attention without compressed keys. The predictor's layers have it, whatever the decoder's last layer has.

    Raises:
        InvalidInput: a size is missing.
    """
    return _part(_read_sizes(fields, shape), 1)


def _read_sizes(fields: Fields, shape: DecoderShape) -> _Sizes:
    return _Sizes(
        hidden=shape.hidden,
        heads=shape.heads,
        head_dim=fields.integer(("head_dim",)),
        query_rank=fields.integer(("q_lora_rank",)),
        groups=fields.integer(("o_groups",), largest=shape.heads),
        output_rank=fields.integer(("o_lora_rank",)),
        index_heads=fields.integer(("index_n_heads",)),
        index_dim=fields.integer(("index_head_dim",)),
        window=fields.optional_integer(("sliding_window",)) or _WINDOW,
    )


def _part(sizes: _Sizes, ratio: int) -> LayerPart:
    plain = _windowed(sizes, _WINDOW_BLOCK_TOKENS)
    if ratio == 1:
        return plain
    weights = _compressor("self_attn.compressor", sizes.hidden, sizes.head_dim, ratio)
    caches = (_packed_rows(_KEY_BYTES, _BLOCK_TOKENS, ratio), _waiting(sizes.head_dim, ratio))
    compressed = plain + LayerPart(tuple(weights), caches)
    return compressed + _indexer_part(sizes, ratio) if ratio == _INDEXED_RATIO else compressed


def _indexer_part(sizes: _Sizes, ratio: int) -> LayerPart:
    caches = (_index_keys(sizes, _BLOCK_TOKENS, ratio), _waiting(sizes.index_dim, ratio))
    compressor = _compressor("self_attn.indexer.compressor", sizes.hidden, sizes.index_dim, ratio)
    return LayerPart((*_index_queries(sizes), *compressor), caches)


def _index_keys(sizes: _Sizes, block_tokens: int, ratio: int) -> RowCache:
    row = sizes.index_dim + sizes.index_dim // _SCALED_WIDTH * _INDEX_SCALE_BYTES
    return replace(_packed_rows(row, block_tokens, ratio), indexed=True)


def _waiting(width: int, ratio: int) -> RowCache:
    """Return the cache for values and scores of the tokens that a compressor still compresses, or compresses again."""
    overlap = 2 if ratio == _INDEXED_RATIO else 1
    row = 2 * overlap * width * _STATE_TYPE_BYTES
    return _packed_rows(row, _STATE_BLOCK_TOKENS[ratio], window=overlap * ratio)


def _packed_rows(row_bytes: int, block_tokens: int, ratio: int = 1, *, window: int | None = None) -> RowCache:
    """Return rows of one kind, one for ``ratio`` tokens. They are packed next to the rows of other kinds."""
    return RowCache(row_bytes, block_tokens, ratio, window, _ALIGNMENT, packed=True)


def _windowed(sizes: _Sizes, block_tokens: int) -> LayerPart:
    rows = _packed_rows(_KEY_BYTES, block_tokens, window=sizes.window)
    return LayerPart(tuple(_windowed_weights(sizes)), (rows,))


def _windowed_weights(sizes: _Sizes) -> Iterator[Weight]:
    outputs = sizes.heads * sizes.head_dim
    yield vector("self_attn.attn_sink", sizes.heads, storage=FP32)
    yield from replicated("self_attn.wq_a", sizes.query_rank, sizes.hidden)
    yield from norm("self_attn.q_norm", sizes.query_rank)
    yield from column("self_attn.wq_b", outputs, sizes.query_rank)
    yield from replicated("self_attn.wkv", sizes.head_dim, sizes.hidden)
    yield from norm("self_attn.kv_norm", sizes.head_dim)
    yield from column("self_attn.wo_a", sizes.groups * sizes.output_rank, outputs // sizes.groups)
    yield from row("self_attn.wo_b", sizes.hidden, sizes.groups * sizes.output_rank)


def _compressor(prefix: str, hidden: int, width: int, ratio: int) -> Iterator[Weight]:
    values = 2 * width if ratio == _INDEXED_RATIO else width
    yield Weight(f"{prefix}.ape", ratio, values, Sharding.REPLICATED, storage=FP32, linear=False)
    yield from replicated(f"{prefix}.wkv", values, hidden, linear=False)
    yield from replicated(f"{prefix}.wgate", values, hidden, linear=False)
    yield from norm(f"{prefix}.norm", width)


def _index_queries(sizes: _Sizes) -> Iterator[Weight]:
    yield from replicated("self_attn.indexer.wq_b", sizes.index_heads * sizes.index_dim, sizes.query_rank)
    yield from replicated("self_attn.indexer.weights_proj", sizes.index_heads, sizes.hidden, linear=False)


def shared_compressed_layers(fields: Fields, _traits: Architecture, shape: DecoderShape) -> Parts:
    """Attention of every layer.

    Raises:
        InvalidInput: a size is missing, a list is too short or ill-typed, or a ratio is unknown to the compressors.
    """
    sizes = _read_sizes(fields, shape)
    ratios = fields.integers("compress_ratios", shape.layers, smallest=0)
    sources, indexers = (
        frozenset(fields.integers(key, smallest=0)) for key in ("kv_source_layer_ids", "index_source_layer_ids")
    )
    if any(ratios[layer] not in _SHARED_RATIOS for layer in sources if layer < shape.layers):
        raise fields.refuse("compress_ratios", "Write 1 or 2 for the layers of kv_source_layer_ids.")
    every = _windowed(sizes, _SHARED_WINDOW_BLOCK_TOKENS)
    return tuple(
        every
        + (_source(sizes, ratio) if layer in sources else LayerPart())
        + (_shared_indexer(sizes, ratio, owns_keys=layer in sources) if layer in indexers else LayerPart())
        for layer, ratio in enumerate(ratios)
    )


def _source(sizes: _Sizes, ratio: int) -> LayerPart:
    caches: list[CacheSpec] = [_packed_rows(_KEY_BYTES, _SHARED_BLOCK_TOKENS, ratio)]
    if ratio > 1:
        # Values and scores of the tokens that are not compressed yet.
        caches.append(RingCache(2 * sizes.head_dim * _STATE_TYPE_BYTES, ratio, least_tokens=_LEAST_STATE_TOKENS))
    return LayerPart(tuple(_shared_compressor(sizes, gated=ratio > 1)), tuple(caches))


def _shared_compressor(sizes: _Sizes, *, gated: bool) -> Iterator[Weight]:
    for name in ("wkv", "wgate") if gated else ("wkv",):
        yield from replicated(f"self_attn.compressor.{name}", sizes.head_dim, sizes.hidden, linear=False)
    yield from norm("self_attn.compressor.norm", sizes.head_dim)


def _shared_indexer(sizes: _Sizes, ratio: int, *, owns_keys: bool) -> LayerPart:
    queries = tuple(_index_queries(sizes))
    if not owns_keys:
        return LayerPart(queries)
    keys = (
        *replicated("self_attn.indexer.wk", sizes.index_dim, sizes.head_dim, linear=False),
        *norm("self_attn.indexer.k_norm", sizes.index_dim),
    )
    return LayerPart(queries + keys, (_index_keys(sizes, _SHARED_BLOCK_TOKENS, ratio),))
