"""Grouped attention that reads only what an indexer picks: blocks (MiniMax-M3), or groups of tokens (Qwen4-Exp).

Sources: vLLM, ``models/minimax_m3/nvidia/model.py`` and ``models/minimax_m3/common/indexer.py``;
``models/qwen4_exp/nvidia/indexer_qsa.py`` and ``common/qsa_cache.py``. Index keys are always cached in 16 bits,
whatever the format of the KV cache.
"""

from __future__ import annotations

from plimsoll.domain.models.caches import RingCache, RowCache
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import DecoderShape, LayerPart, Parts, heads, norm, replicated
from plimsoll.facts.models.mixers.attention import attention_layers
from plimsoll.facts.models.mixers.windows import marked
from plimsoll.facts.models.traits import Architecture

_VALUE_BYTES = 2
_BLOCK_TOKENS = 128
"""Tokens of a block; the indexer picks whole blocks."""

_POSITION_BYTES = 8
_AXES = 3
_LARGEST_GROUP = 1_024


def block_sparse_layers(fields: Fields, traits: Architecture, shape: DecoderShape) -> Parts:
    """Attention of every layer, with the indexer if the layer is sparse (MiniMax-M3).

    Index queries follow the KV heads; the one index key lies on every rank.

    Raises:
        InvalidInput: a list is too short, or a size missing.
    """
    attention = attention_layers(fields, traits, shape)
    section = fields.section("sparse_attention_config")
    if section is None or not section.flag("use_sparse_attention", default=True):
        return attention
    sparse = (True,) * shape.layers
    if section.has("sparse_attention_freq"):
        sparse = marked(section, "sparse_attention_freq", shape.layers)
    indexer = _block_indexer(section, shape.hidden)
    return tuple(part + indexer if here else part for part, here in zip(attention, sparse, strict=True))


def _block_indexer(section: Fields, hidden: int) -> LayerPart:
    count, size = section.integer(("sparse_num_index_heads",)), section.integer(("sparse_index_dim",))
    weights = (
        *heads("self_attn.index_q_proj", count, size, hidden),
        *replicated("self_attn.index_k_proj", size, hidden),
        *norm("self_attn.index_q_norm", size),
        *norm("self_attn.index_k_norm", size),
    )
    return LayerPart(weights, (RowCache(size * _VALUE_BYTES, _BLOCK_TOKENS),))


def group_sparse_layers(fields: Fields, traits: Architecture, shape: DecoderShape) -> Parts:
    """Attention of every layer, with its indexer if the file describes one (Qwen4-Exp).

    The indexer is whole on every rank, and caches the key of a complete group. A ring buffer holds the keys of the
    group that is not complete yet, with three positions for each key if positions are multimodal.

    Raises:
        InvalidInput: a size is missing, ill-typed or absurd.
    """
    attention = attention_layers(fields, traits, shape)
    if not fields.has("indexer_n_heads"):
        return attention
    indexer = _group_indexer(fields, shape.hidden)
    return tuple(part + indexer for part in attention)


def _group_indexer(fields: Fields, hidden: int) -> LayerPart:
    queries, keys = fields.integer(("indexer_n_heads",)), fields.integer(("indexer_kv_heads",))
    size = fields.integer(("indexer_head_dim",))
    group = fields.integer(("indexer_compress_ratio",), largest=_LARGEST_GROUP)
    weights = (
        *replicated("self_attn.indexer.index_qk_proj", (queries + keys) * size, hidden),
        *norm("self_attn.indexer.q_layernorm", size),
        *norm("self_attn.indexer.k_layernorm", size),
    )
    open_key = size * _VALUE_BYTES + (_AXES * _POSITION_BYTES if _is_multimodal(fields) else 0)
    pooled = RowCache(size * _VALUE_BYTES, tokens_per_row=group, packed=True)
    caches = (pooled, RingCache(open_key, group, doubles=False))
    return LayerPart(weights, caches)


def _is_multimodal(fields: Fields) -> bool:
    """Whether positions have three axes: time, height and width."""
    rotation = fields.section("rope_parameters") or fields.section("rope_scaling")
    return rotation is not None and rotation.has("mrope_section")
