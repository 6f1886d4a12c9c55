"""Layers that run several times: one set of weights, a cache for every pass (IQuest-LoopCoder).

Source: vLLM, ``model_executor/models/iquest_loopcoder.py``. The first pass keeps all tokens, the others a window;
a gate of one value a head mixes the passes.
"""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.models.caches import AttentionCache
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import column
from plimsoll.facts.models.layers.shape import Part, Parts, Shape
from plimsoll.facts.models.mixers.attention import attention_layers
from plimsoll.facts.models.mixers.heads import uniform_heads
from plimsoll.facts.models.traits import Architecture

_PASSES, _WINDOW = 2, 64
"""vLLM's defaults of ``loop_num`` and ``loop_window_size``."""
_MOST_PASSES = 64


def looped_layers(fields: Fields, traits: Architecture, shape: Shape) -> Parts:
    """Attention of every layer with the caches of all passes.

    Raises:
        InvalidInput: a count is missing or absurd.
    """
    passes = fields.optional_integer(("loop_num",), largest=_MOST_PASSES) or _PASSES
    window = fields.optional_integer(("loop_window_size",)) or _WINDOW
    heads = uniform_heads(fields, traits, shape)
    gate = Part(tuple(column("self_attn.gate_projections", heads.query, heads.key_dim, bias=True)))
    return tuple(
        part + gate + Part((), _windowed(part, window) * (passes - 1))
        for part in attention_layers(fields, traits, shape)
    )


def _windowed(part: Part, window: int) -> tuple[AttentionCache, ...]:
    return tuple(replace(cache, window_tokens=window) for cache in part.caches if isinstance(cache, AttentionCache))
