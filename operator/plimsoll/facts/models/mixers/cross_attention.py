"""Self-attention, and attention to an encoder's output: the layers of an encoder-decoder's decoder (Whisper).

Source: vLLM's ``whisper.py``: both have all heads, biases on every projection, and a cache each.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.caches import CrossCache
from plimsoll.domain.models.model import Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import column, row
from plimsoll.facts.models.layers.shape import Part, Parts, Shape
from plimsoll.facts.models.mixers.attention import attention_layers
from plimsoll.facts.models.traits import Architecture

_ENCODER_POSITIONS = 1500
"""``max_source_positions`` of WhisperConfig in Transformers: 30 seconds."""


def cross_attention_layers(fields: Fields, traits: Architecture, shape: Shape) -> Parts:
    """Self-attention and cross attention of every layer.

    Raises:
        InvalidInput: a field is missing, ill-typed or absurd, or heads do not divide the hidden size.
    """
    if shape.hidden % shape.heads:
        raise fields.refuse("decoder_attention_heads", f"Give a divisor of the width {shape.hidden}.")
    tokens = fields.optional_integer(("max_source_positions",)) or _ENCODER_POSITIONS
    cache = CrossCache(shape.heads, shape.hidden // shape.heads, tokens)
    cross = Part(tuple(_cross_attention(shape.hidden)), (cache,))
    return tuple(own + cross for own in attention_layers(fields, traits, shape))


def _cross_attention(hidden: int) -> Iterator[Weight]:
    for name in ("q_proj", "k_proj", "v_proj"):
        yield from column(f"encoder_attn.{name}", hidden, hidden, bias=True)
    yield from row("encoder_attn.out_proj", hidden, hidden, bias=True)
