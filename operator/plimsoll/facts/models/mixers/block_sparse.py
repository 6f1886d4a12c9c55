"""MiniMax-M3: grouped attention. In the layers that a list marks, it reads only the blocks that an indexer picks.

Source: vLLM, ``models/minimax_m3/nvidia/model.py`` and ``models/minimax_m3/common/indexer.py``. Index queries follow
the KV heads; the one index key lies on every rank and is cached in 16 bits, whatever the format of the KV cache.
"""

from __future__ import annotations

from plimsoll.domain.models.caches import RowCache
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import heads, norm, replicated
from plimsoll.facts.models.layers.shape import Part, Parts, Shape
from plimsoll.facts.models.mixers.attention import attention_layers
from plimsoll.facts.models.mixers.windows import marked
from plimsoll.facts.models.traits import Architecture

_KEY_VALUE_BYTES = 2
_BLOCK_TOKENS = 128
"""Tokens of a block; the indexer picks whole blocks."""


def block_sparse_layers(fields: Fields, traits: Architecture, shape: Shape) -> Parts:
    """Attention of every layer, with the indexer where the layer is sparse.

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
    indexer = _indexer(section, shape.hidden)
    return tuple(part + indexer if here else part for part, here in zip(attention, sparse, strict=True))


def _indexer(section: Fields, hidden: int) -> Part:
    count, size = section.integer(("sparse_num_index_heads",)), section.integer(("sparse_index_dim",))
    weights = (
        *heads("self_attn.index_q_proj", count, size, hidden),
        *replicated("self_attn.index_k_proj", size, hidden),
        *norm("self_attn.index_q_norm", size),
        *norm("self_attn.index_k_norm", size),
    )
    return Part(weights, (RowCache(size * _KEY_VALUE_BYTES, _BLOCK_TOKENS),))
