"""Multi-, grouped- and single-head attention: projections, norms, and the cache of each layer."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.caches import AttentionCache
from plimsoll.domain.models.model import Sharding, Weight
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import column, heads, norm, row, vector
from plimsoll.facts.models.layers.shape import Heads, Part, Parts, Shape, Span
from plimsoll.facts.models.mixers.heads import layer_heads
from plimsoll.facts.models.mixers.windows import spans
from plimsoll.facts.models.traits import Architecture, Gate


def attention_layers(fields: Fields, traits: Architecture, shape: Shape) -> Parts:
    """Attention of every layer.

    Raises:
        InvalidInput: head counts that do not divide, a window that is missing or no whole number.
        UnsupportedModel: a layer type other than full or sliding attention.
    """
    reach = spans(fields, traits, shape)
    every = layer_heads(fields, traits, shape, reach)
    return tuple(
        Part() if dims is None else attention_part(fields, traits, shape.hidden, dims, span)
        for dims, span in zip(every, reach, strict=True)
    )


def attention_part(fields: Fields, traits: Architecture, hidden: int, dims: Heads, span: Span) -> Part:
    """Return one attention layer with its cache; without a cache if it reads another layer's."""
    weights = tuple(attention_weights(fields, traits, hidden, dims, local=span.local))
    if dims.borrows_kv:
        return Part(weights)
    cache = AttentionCache(
        dims.kv,
        dims.key_dim,
        dims.value_dim,
        window_tokens=span.window,
        chunk_tokens=span.chunk,
        keeps_model_type=traits.keeps_cache_type,
    )
    return Part(weights, (cache,))


def attention_weights(
    fields: Fields, traits: Architecture, hidden: int, dims: Heads, *, local: bool = False
) -> Iterator[Weight]:
    """Projections, biases, sinks, gates and query/key norms of one layer."""
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
