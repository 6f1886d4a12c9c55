"""Step 3's multi-matrix factorized attention: queries of all heads from one shared low rank, one KV head.

Source: vLLM, ``model_executor/models/step3_text.py``. The projection to the rank, the key and the value lies on every
rank; the projection from the rank to the queries is divided.
"""

from __future__ import annotations

from plimsoll.domain.models.caches import AttentionCache
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import column, norm, replicated, row
from plimsoll.facts.models.layers.shape import Part, Parts, Shape
from plimsoll.facts.models.traits import Architecture


def factored_layers(fields: Fields, _traits: Architecture, shape: Shape) -> Parts:
    """Attention of every layer. Raises InvalidInput where a size is missing or absurd."""
    rank, size = fields.integer(("share_q_dim",)), fields.integer(("head_dim",))
    weights = (
        *replicated("self_attn.q_proj", rank, shape.hidden),
        *replicated("self_attn.k_proj", size, shape.hidden),
        *replicated("self_attn.v_proj", size, shape.hidden),
        *norm("self_attn.inter_norm", rank),
        *column("self_attn.wq", shape.heads * size, rank),
        *row("self_attn.o_proj", shape.hidden, shape.heads * size),
    )
    return (Part(weights, (AttentionCache(1, size, size),)),) * shape.layers
