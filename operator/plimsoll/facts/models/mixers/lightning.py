"""Lightning attention: linear attention with a fixed decay for every head (MiniMax-Text-01, Ring 2.5)."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.caches import StateCache, StateKind, StatePart
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import column, norm, row, vector
from plimsoll.facts.models.layers.shape import Part, Shape
from plimsoll.facts.models.mixers.states import state_bytes
from plimsoll.facts.models.traits import Recurrent


def lightning_part(fields: Fields, recurrent: Recurrent, shape: Shape) -> Part:
    """One layer: queries, keys and values of all heads, an output gate, a norm over the heads' outputs.

    Source: vLLM, ``layers/mamba/linear/minimax_linear_attn.py``, ``bailing_linear_attn.py``, ``mamba_utils.py``
    (``linear_attention_state_shape``).

    Raises:
        InvalidInput: the head size is ill-typed or absurd.
    """
    head_dim = fields.optional_integer(("head_dim",)) or shape.hidden // shape.heads
    recurrence = StatePart(shape.heads, head_dim * head_dim, state_bytes(fields, recurrent))
    cache = StateCache(StateKind.LINEAR, ((recurrence,),))
    return Part(tuple(_weights(fields, recurrent.module, shape, head_dim)), (cache,))


def _weights(fields: Fields, module: str, shape: Shape, head_dim: int) -> Iterator[Weight]:
    width = shape.heads * head_dim
    yield from column(f"{module}.qkv_proj", 3 * width, shape.hidden)
    yield from column(f"{module}.g_proj", width, shape.hidden)
    yield from row(f"{module}.o_proj", shape.hidden, width)
    yield vector(f"{module}.g_norm", width, sharding=Sharding.OUTPUTS)
    if fields.flag("use_qk_norm", default=False):
        yield from norm(f"{module}.q_norm", head_dim)
        yield from norm(f"{module}.k_norm", head_dim)
