"""The mixer of every layer: attention, and in hybrid models a recurrence, attention, both, or an MLP alone.

In Zamba 2 some recurrent layers also run an attention block. There are only a few blocks, shared by these layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.caches import AttentionCache
from plimsoll.domain.models.model import Weight
from plimsoll.facts.models.extras import hyper_connections
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.layer_patterns import has_attention, layer_roles, shared_block
from plimsoll.facts.models.layers.parts import DecoderShape, LayerPart, Parts, Role, column, norm, replicated, row
from plimsoll.facts.models.mixers.attention import attention_layers
from plimsoll.facts.models.traits import Architecture, Mixer, Recurrent

_ADAPTER_RANK = 128
"""Default of ``Zamba2Config`` in Transformers."""

_BLOCK = "shared_transformer"


def mixers(fields: Fields, traits: Architecture, shape: DecoderShape) -> Parts:
    """The mixer of every layer, first to last.

    Raises:
        InvalidInput: a pattern or a size is missing, ill-typed or absurd.
        UnsupportedModel: a layer of a type that no law covers.
    """
    attention = traits.mixer or attention_layers
    if traits.recurrent is None:
        return attention(fields, traits, shape)
    return _hybrid_layers(fields, traits, traits.recurrent, shape, attention)


def _hybrid_layers(
    fields: Fields, traits: Architecture, recurrent: Recurrent, shape: DecoderShape, attention: Mixer
) -> Parts:
    """Return the mixer of every layer; layers with only an MLP have an empty one.

    ``attention`` builds the attention layers. It is called for one layer, because all of them are equal.
    """
    roles = layer_roles(shape.name, fields, traits, shape.layers)
    recurrence = LayerPart()
    if any(role in (Role.RECURRENT, Role.BOTH) for role in roles):
        recurrence = recurrent.build(fields, recurrent, shape)
    if recurrent.roles is shared_block:
        return _shared_block_layers(fields, shape, roles, recurrence)
    attending = LayerPart()
    if has_attention(traits) and any(role in (Role.ATTENTION, Role.BOTH) for role in roles):
        attending = attention(_without_patterns(fields), traits, replace(shape, layers=1))[0]
    mixers = {
        Role.ATTENTION: attending,
        Role.RECURRENT: recurrence,
        Role.BOTH: recurrence + attending,
        Role.MLP: LayerPart(),
        Role.EXPERTS: LayerPart(),
    }
    streams = LayerPart(tuple(_residual_streams(fields, shape)))
    return tuple(mixers[role] + streams for role in roles)


def _without_patterns(fields: Fields) -> Fields:
    """Return the configuration without the list of layer types, as if all layers were attention layers."""
    return Fields(
        {key: value for key, value in fields.values.items() if key not in ("layer_types", "layers_block_type")},
        fields.origin,
    )


def _residual_streams(fields: Fields, shape: DecoderShape) -> Iterator[Weight]:
    """Yield the weights that mix residuals.

    These are hyper-connections, or attention over earlier layers' outputs with a norm and a row of scores.

    Sources: vLLM, ``models/glm5next/common/model.py`` and ``models/kimi_k3/nvidia/model.py``.
    """
    if fields.has("hc_mult"):
        yield from hyper_connections.layers(fields, replace(shape, layers=1))[0].weights
    if not fields.has("attn_res_block_size"):
        return
    for name in ("self_attention", "mlp"):
        yield from norm(f"{name}_res_norm", shape.hidden)
        yield from replicated(f"{name}_res_proj", 1, shape.hidden, linear=False)


def _shared_block_layers(fields: Fields, shape: DecoderShape, roles: tuple[Role, ...], recurrence: LayerPart) -> Parts:
    """Return every layer: the recurrence, and in hybrid layers also a projection, adapters and a separate cache.

    The ``num_mem_blocks`` shared blocks take turns; each is counted in the first layer that uses it. Attention and MLP
    of a block read the hidden state joined with the embeddings, which is twice the hidden size. Source: vLLM,
    ``models/zamba2.py``.
    """
    blocks = fields.optional_integer(("num_mem_blocks",)) or 1
    cache = AttentionCache(shape.heads, 2 * shape.hidden // shape.heads, 2 * shape.hidden // shape.heads)
    own = LayerPart(tuple(_own_of_layer(fields, shape.hidden)), (cache,))
    shared = LayerPart(tuple(_shared_weights(fields, shape.hidden)))
    layers = []
    passed = 0
    for role in roles:
        part = recurrence
        if role is Role.BOTH:
            part = recurrence + own + (shared if passed < blocks else LayerPart())
            passed += 1
        layers.append(part)
    return tuple(layers)


def _block_width(fields: Fields, hidden: int) -> int:
    return fields.optional_integer(("intermediate_size",)) or 4 * hidden


def _own_of_layer(fields: Fields, hidden: int) -> Iterator[Weight]:
    """Yield the weights that a hybrid layer does not share: the way back, and low-rank adapters of the block."""
    rank = fields.optional_integer(("adapter_rank",)) or _ADAPTER_RANK
    yield from replicated("linear", hidden, hidden)
    if fields.flag("use_shared_attention_adapter", default=False):
        for name in ("q", "k", "v"):
            yield from _adapter(f"{_BLOCK}.self_attn.linear_{name}_adapter", 2 * hidden, rank, 2 * hidden)
    yield from _adapter(f"{_BLOCK}.feed_forward.gate_up_proj_adapter", hidden, rank, 2 * _block_width(fields, hidden))


def _adapter(name: str, inputs: int, rank: int, outputs: int) -> Iterator[Weight]:
    yield from column(f"{name}.A", rank, inputs)
    yield from column(f"{name}.B", outputs, rank)


def _shared_weights(fields: Fields, hidden: int) -> Iterator[Weight]:
    bias = fields.flag("add_bias_linear", default=False)
    for name in ("q", "k", "v"):
        yield from column(f"{_BLOCK}.self_attn.{name}_proj", 2 * hidden, 2 * hidden)
    yield from row(f"{_BLOCK}.self_attn.o_proj", hidden, 2 * hidden)
    width = _block_width(fields, hidden)
    yield from column(f"{_BLOCK}.feed_forward.gate_up_proj", 2 * width, hidden, bias=bias)
    yield from row(f"{_BLOCK}.feed_forward.down_proj", hidden, width, bias=bias)
    yield from norm(f"{_BLOCK}.input_layernorm", 2 * hidden)
    yield from norm(f"{_BLOCK}.pre_ff_layernorm", hidden)
