"""Multi-head latent attention: projections through low ranks, and one compressed vector a token in the cache.

Sources: DeepSeek-V2 (arXiv 2405.04434, section 2.1); vLLM, ``model_executor/models/deepseek_v2.py``. The projections
down to the ranks lie on every tensor-parallel rank; those up to the heads are divided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.domain.models.caches import AttentionCache, CacheSpec, IndexerCache, LatentCache, RingCache, RowCache
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import DecoderShape, LayerPart, Parts, column, norm, replicated, row, vector
from plimsoll.facts.models.traits import Architecture, Gate

_INDEX_SCALE_BYTES = 4
_POOLED_VALUE_BYTES = 2
_POOLED_KERNEL_ROWS = (32, 64)
"""Pooled keys that the kernels read at once: fewest and most. Source: vLLM, ``Glm5NextIndexerBackend``."""
_SKIP_OFFSET = 2
"""vLLM's default of ``index_skip_topk_offset`` (``models/deepseek_v2.py``)."""


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Sizes of one latent attention layer. ``query`` is None if queries are projected in one step."""

    heads: int
    query: int | None
    kv: int
    nope: int
    rope: int
    value: int


def latent_layers(fields: Fields, traits: Architecture, shape: DecoderShape) -> Parts:
    """Latent attention of every layer, with the indexer of sparse attention if the layer has one.

    Raises:
        InvalidInput: a rank or a head size is missing or absurd.
    """
    ranks = _latent_ranks(fields, shape.heads)
    sparse = fields.has("index_topk")
    weights = tuple(_weights(fields, traits, shape.hidden, ranks))
    plain = LayerPart(weights * traits.sublayers, (_cache(traits, ranks, sparse=sparse),) * traits.sublayers)
    if not sparse:
        return (plain,) * shape.layers
    indexed = plain + _indexer_part(fields, shape.hidden, ranks)
    return tuple(indexed if here else plain for here in _indexed_layers(fields, shape.layers))


def _latent_ranks(fields: Fields, heads: int) -> _Ranks:
    return _Ranks(
        heads=heads,
        query=fields.optional_integer(("q_lora_rank", "attention_q_lora_dim"), smallest=0) or None,
        kv=fields.integer(("kv_lora_rank", "attention_kv_lora_dim")),
        nope=fields.integer(("qk_nope_head_dim", "attention_qk_dim"), smallest=0),
        rope=fields.integer(("qk_rope_head_dim", "attention_qk_rope_dim"), smallest=0),
        value=_value_dim(fields, heads),
    )


def _value_dim(fields: Fields, heads: int) -> int:
    """Return the size of a value. MiniCPM3 has no field for it: it is the hidden size over the heads.

    Source: vLLM, ``models/minicpm3.py``.
    """
    keys = ("v_head_dim", "attention_v_dim")
    hidden = fields.optional_integer(("hidden_size",))
    if fields.first(keys) is None and hidden is not None and hidden % heads == 0:
        return hidden // heads
    return fields.integer(keys)


def _weights(fields: Fields, traits: Architecture, hidden: int, ranks: _Ranks) -> Iterator[Weight]:
    bias = traits.attention_bias.read(fields)
    queries = ranks.heads * (ranks.nope + ranks.rope)
    if ranks.query is None:
        yield from column("self_attn.q_proj", queries, hidden)
    else:
        yield from replicated("self_attn.q_a_proj", ranks.query, hidden, bias=bias)
        yield from norm("self_attn.q_a_layernorm", ranks.query)
        yield from column("self_attn.q_b_proj", queries, ranks.query)
    yield from replicated("self_attn.kv_a_proj_with_mqa", ranks.kv + ranks.rope, hidden, bias=bias)
    yield from norm("self_attn.kv_a_layernorm", ranks.kv)
    yield from column("self_attn.kv_b_proj", ranks.heads * (ranks.nope + ranks.value), ranks.kv)
    gate = _output_gate(fields, ranks)
    if gate:
        yield from column("self_attn.g_proj", gate, hidden)
    yield from row("self_attn.o_proj", hidden, ranks.heads * ranks.value, bias=bias)
    if traits.gate is Gate.ELEMENTS:
        yield from column("self_attn.linear_gate", ranks.heads * ranks.value, hidden)
    if traits.sinks.read(fields):
        yield vector("self_attn.sinks", ranks.heads, storage=FP32)


def _output_gate(fields: Fields, ranks: _Ranks) -> int:
    """Width of the gate on the output, 0 if there is none.

    Sources: vLLM, ``models/kimi_k3/nvidia/mla.py`` and ``models/bailing_moe_v3.py``.
    """
    grain = fields.text("gated_attention_proj_granularity_type")
    if fields.flag("mla_use_output_gate", default=False) or grain == "element_wise":
        return ranks.heads * ranks.value
    return ranks.heads if grain == "head_wise" else 0


def _cache(traits: Architecture, ranks: _Ranks, *, sparse: bool) -> CacheSpec:
    if traits.latent_cache:
        return LatentCache(ranks.kv, ranks.rope, sparse=sparse)
    # Values are padded to the size of the keys. Source: vLLM, ``models/minicpm3.py``.
    size = ranks.nope + ranks.rope
    return AttentionCache(ranks.heads, size, size)


def _indexer_part(fields: Fields, hidden: int, ranks: _Ranks) -> LayerPart:
    """The indexer of DeepSeek sparse attention: it lies whole on every rank, its norm in 32 bits."""
    heads, size = fields.integer(("index_n_heads",)), fields.integer(("index_head_dim",))
    weights = (
        *replicated("self_attn.indexer.wq_b", heads * size, ranks.query or hidden),
        *replicated("self_attn.indexer.wk", size, hidden),
        *replicated("self_attn.indexer.weights_proj", heads, hidden),
        vector("self_attn.indexer.k_norm", size, storage=FP32),
        vector("self_attn.indexer.k_norm.bias", size, storage=FP32),
    )
    if not fields.has("index_kpool"):
        return LayerPart(weights, (IndexerCache(size, fields.integer(("index_topk",))),))
    return LayerPart(weights + tuple(_pooling(fields, hidden, size)), _pooled_caches(fields, size))


def _pooling(fields: Fields, hidden: int, size: int) -> Iterator[Weight]:
    """Yield the weights that compress the keys of several tokens into one.

    Source: vLLM, ``models/glm5next/common/attention.py``.
    """
    pool = fields.integer(("index_kpool",))
    ape = "self_attn.indexer.index_kpool_compress_ape"
    yield Weight(ape, pool, size, Sharding.REPLICATED, storage=FP32, linear=False)
    yield from replicated("self_attn.indexer.index_kpool_compress_gate", size, hidden, linear=False)


def _pooled_caches(fields: Fields, size: int) -> tuple[RowCache, RingCache]:
    """Return two caches: one key and its scale for each pool of tokens, and 16-bit keys and scores of an open pool."""
    pool = fields.integer(("index_kpool",))
    keys = RowCache(
        size + _INDEX_SCALE_BYTES, tokens_per_row=pool, packed=True, kernel_rows=_POOLED_KERNEL_ROWS, indexed=True
    )
    return keys, RingCache(2 * size * _POOLED_VALUE_BYTES, pool)


def _indexed_layers(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Return which layers pick keys themselves; the others use the keys that an earlier layer picked.

    Source: vLLM, ``models/deepseek_v2.py`` (``index_topk_freq``, ``index_topk_pattern``, ``index_skip_topk_offset``);
    Transformers lists them in ``indexer_types``.
    """
    types = fields.texts("indexer_types")
    if types:
        if len(types) < layers:
            raise fields.refuse("indexer_types", f"List full or shared for each of the {layers} layers.")
        return tuple(kind == "full" for kind in types[:layers])
    pattern = fields.values.get("index_topk_pattern")
    if isinstance(pattern, str | list | tuple) and pattern:
        if len(pattern) < layers:
            raise fields.refuse("index_topk_pattern", f"Give a letter for each of the {layers} layers.")
        return tuple(letter != "S" for letter in pattern[:layers])
    step = fields.optional_integer(("index_topk_freq",)) or 1
    offset = fields.optional_integer(("index_skip_topk_offset",), smallest=0)
    first = (_SKIP_OFFSET if offset is None else offset) - 1
    return tuple(max(layer - first, 0) % step == 0 for layer in range(layers))
