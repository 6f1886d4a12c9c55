"""Qwen4-Exp: grouped attention. An indexer has one compressed key for each group of tokens and picks groups to read.

Source: vLLM, ``models/qwen4_exp/nvidia/indexer_qsa.py`` and ``common/qsa_cache.py``. The indexer is whole on every
rank. The key of a complete group is always cached in 16 bits, whatever the format of the KV cache. A ring buffer holds
the keys of the group that is not complete yet, with three positions for each key if positions are multimodal.
"""

from __future__ import annotations

from plimsoll.domain.models.caches import RingCache, RowCache
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import norm, replicated
from plimsoll.facts.models.layers.shape import Part, Parts, Shape
from plimsoll.facts.models.mixers.attention import attention_layers
from plimsoll.facts.models.traits import Architecture

_VALUE_BYTES = 2
_POSITION_BYTES = 8
_AXES = 3
_LARGEST_GROUP = 1_024


def group_sparse_layers(fields: Fields, traits: Architecture, shape: Shape) -> Parts:
    """Attention of every layer, with its indexer where the file describes one.

    Raises:
        InvalidInput: a size is missing, ill-typed or absurd.
    """
    attention = attention_layers(fields, traits, shape)
    if not fields.has("indexer_n_heads"):
        return attention
    indexer = _indexer(fields, shape.hidden)
    return tuple(part + indexer for part in attention)


def _indexer(fields: Fields, hidden: int) -> Part:
    queries, keys = fields.integer(("indexer_n_heads",)), fields.integer(("indexer_kv_heads",))
    size, group = fields.integer(("indexer_head_dim",)), _group(fields)
    weights = (
        *replicated("self_attn.indexer.index_qk_proj", (queries + keys) * size, hidden),
        *norm("self_attn.indexer.q_layernorm", size),
        *norm("self_attn.indexer.k_layernorm", size),
    )
    open_key = size * _VALUE_BYTES + (_AXES * _POSITION_BYTES if _is_multimodal(fields) else 0)
    pooled = RowCache(size * _VALUE_BYTES, tokens_per_row=group, packed=True)
    caches = (pooled, RingCache(open_key, group, doubles=False))
    return Part(weights, caches)


def _group(fields: Fields) -> int:
    return fields.integer(("indexer_compress_ratio",), largest=_LARGEST_GROUP)


def _is_multimodal(fields: Fields) -> bool:
    """Whether positions have three axes: time, height and width."""
    rotation = fields.section("rope_parameters") or fields.section("rope_scaling")
    return rotation is not None and rotation.has("mrope_section")
