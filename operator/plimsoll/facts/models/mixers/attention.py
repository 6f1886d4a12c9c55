"""Multi-, grouped- and single-head attention: projections, norms, and the cache of each layer.

Some classes have it in another form: layers that run several times, queries from a shared low rank, or attention to an
encoder's output in addition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.caches import AttentionCache, CrossCache
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.parts import (
    DecoderShape,
    Heads,
    LayerPart,
    Parts,
    Span,
    column,
    heads,
    norm,
    replicated,
    row,
    vector,
)
from plimsoll.facts.models.mixers.heads import layer_heads, uniform_heads
from plimsoll.facts.models.mixers.windows import spans
from plimsoll.facts.models.traits import Architecture, Gate

_PASSES, _WINDOW = 2, 64
"""vLLM's defaults of ``loop_num`` and ``loop_window_size``."""
_MOST_PASSES = 64

_ENCODER_POSITIONS = 1500
"""``max_source_positions`` of WhisperConfig in Transformers: 30 seconds."""


def attention_layers(fields: Fields, traits: Architecture, shape: DecoderShape) -> Parts:
    """Attention of every layer.

    Raises:
        InvalidInput: head counts that do not divide, a window that is missing or no whole number.
        UnsupportedModel: a layer type other than full or sliding attention.
    """
    reach = spans(fields, traits, shape)
    every = layer_heads(fields, traits, shape, reach)
    return tuple(
        LayerPart() if dims is None else _attention(fields, traits, shape.hidden, dims, span)
        for dims, span in zip(every, reach, strict=True)
    )


def _attention(fields: Fields, traits: Architecture, hidden: int, dims: Heads, span: Span) -> LayerPart:
    """Return one attention layer with its cache; without a cache if it reads another layer's."""
    weights = tuple(_attention_weights(fields, traits, hidden, dims, local=span.local))
    if dims.borrows_kv:
        return LayerPart(weights)
    cache = AttentionCache(
        dims.kv,
        dims.key_dim,
        dims.value_dim,
        window_tokens=span.window,
        chunk_tokens=span.chunk,
        keeps_model_type=traits.keeps_cache_type,
    )
    return LayerPart(weights, (cache,))


def _attention_weights(
    fields: Fields, traits: Architecture, hidden: int, dims: Heads, *, local: bool
) -> Iterator[Weight]:
    bias = traits.attention_bias.read(fields)
    outputs = dims.query * dims.value_dim
    queries = dims.query * dims.key_dim * (2 if traits.output_gate.read(fields) else 1)
    yield from column("self_attn.q_proj", queries, hidden, bias=bias)
    if not dims.borrows_kv:
        yield from heads("self_attn.k_proj", dims.kv, dims.key_dim, hidden, bias=bias)
        yield from heads("self_attn.v_proj", dims.kv, dims.value_dim, hidden, bias=bias)
    yield from row("self_attn.o_proj", hidden, outputs, bias=bias and traits.output_bias)
    yield from _gate(fields, traits, hidden, dims.query, outputs)
    if traits.sinks.read(fields) and (local or not traits.sinks_local_only):
        yield vector("self_attn.sinks", dims.query, sharding=Sharding.OUTPUTS)
    if traits.qk_norm.read(fields):
        yield from _qk_norms(traits, dims)


def _gate(fields: Fields, traits: Architecture, hidden: int, query_heads: int, outputs: int) -> Iterator[Weight]:
    gate = traits.gate
    if gate is Gate.BY_FIELD:
        gate = _named_gate(fields)
    if gate is not Gate.NONE:
        yield from column("self_attn.g_proj", query_heads if gate is Gate.HEADS else outputs, hidden)


def _named_gate(fields: Fields) -> Gate:
    """Source: vLLM, ``models/laguna.py`` and ``models/step3p5.py``."""
    if fields.has("use_head_wise_attn_gate"):
        return Gate.HEADS if fields.flag("use_head_wise_attn_gate", default=False) else Gate.NONE
    word = fields.values.get("gating")
    if word in (None, False):
        return Gate.NONE
    return Gate.ELEMENTS if word == "per-element" else Gate.HEADS


def _qk_norms(traits: Architecture, dims: Heads) -> Iterator[Weight]:
    spans_heads, bias = traits.qk_norm_spans_heads, traits.qk_norm_bias
    yield from norm("self_attn.q_norm", dims.query * dims.key_dim if spans_heads else dims.key_dim, bias=bias)
    if not dims.borrows_kv:
        yield from norm("self_attn.k_norm", dims.kv * dims.key_dim if spans_heads else dims.key_dim, bias=bias)


def looped_layers(fields: Fields, traits: Architecture, shape: DecoderShape) -> Parts:
    """Layers that run several times: one set of weights, a cache for every pass (IQuest-LoopCoder).

    Source: vLLM, ``model_executor/models/iquest_loopcoder.py``. The first pass keeps all tokens, the others a window;
    a gate of one value a head mixes the passes.

    Raises:
        InvalidInput: a count is missing or absurd.
    """
    passes = fields.optional_integer(("loop_num",), largest=_MOST_PASSES) or _PASSES
    window = fields.optional_integer(("loop_window_size",)) or _WINDOW
    dims = uniform_heads(fields, traits, shape)
    gate = LayerPart(tuple(column("self_attn.gate_projections", dims.query, dims.key_dim, bias=True)))
    return tuple(
        part + gate + LayerPart((), _windowed(part, window) * (passes - 1))
        for part in attention_layers(fields, traits, shape)
    )


def _windowed(part: LayerPart, window: int) -> tuple[AttentionCache, ...]:
    return tuple(replace(cache, window_tokens=window) for cache in part.caches if isinstance(cache, AttentionCache))


def factored_layers(fields: Fields, _traits: Architecture, shape: DecoderShape) -> Parts:
    """Step 3's multi-matrix factorized attention: queries of all heads from one shared low rank, one KV head.

    Source: vLLM, ``model_executor/models/step3_text.py``. The projection to the rank, the key and the value lies on
    every rank; the projection from the rank to the queries is divided.

    Raises:
        InvalidInput: a size is missing or absurd.
    """
    rank, size = fields.integer(("share_q_dim",)), fields.integer(("head_dim",))
    weights = (
        *replicated("self_attn.q_proj", rank, shape.hidden),
        *replicated("self_attn.k_proj", size, shape.hidden),
        *replicated("self_attn.v_proj", size, shape.hidden),
        *norm("self_attn.inter_norm", rank),
        *column("self_attn.wq", shape.heads * size, rank),
        *row("self_attn.o_proj", shape.hidden, shape.heads * size),
    )
    return (LayerPart(weights, (AttentionCache(1, size, size),)),) * shape.layers


def cross_attention_layers(fields: Fields, traits: Architecture, shape: DecoderShape) -> Parts:
    """Self-attention, and attention to an encoder's output: the layers of an encoder-decoder's decoder (Whisper).

    Source: vLLM's ``whisper.py``: both have all heads, biases on every projection, and a cache each.

    Raises:
        InvalidInput: a field is missing, ill-typed or absurd, or heads do not divide the hidden size.
    """
    if shape.hidden % shape.heads:
        raise fields.refuse("decoder_attention_heads", f"Give a divisor of the width {shape.hidden}.")
    tokens = fields.optional_integer(("max_source_positions",)) or _ENCODER_POSITIONS
    cache = CrossCache(shape.heads, shape.hidden // shape.heads, tokens)
    weights = (
        *column("encoder_attn.q_proj", shape.hidden, shape.hidden, bias=True),
        *column("encoder_attn.k_proj", shape.hidden, shape.hidden, bias=True),
        *column("encoder_attn.v_proj", shape.hidden, shape.hidden, bias=True),
        *row("encoder_attn.out_proj", shape.hidden, shape.hidden, bias=True),
    )
    return tuple(own + LayerPart(weights, (cache,)) for own in attention_layers(fields, traits, shape))
