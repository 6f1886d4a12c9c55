"""The mixer of every layer: attention, and in hybrid models a recurrence, attention, both, or an MLP alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.model import Weight
from plimsoll.facts.models.extras import hyper_connections
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.layer_patterns import has_attention, layer_roles, shared_block
from plimsoll.facts.models.layers.linears import norm, replicated
from plimsoll.facts.models.layers.shape import Part, Parts, Role, Shape
from plimsoll.facts.models.mixers.attention import attention_layers
from plimsoll.facts.models.mixers.shared_block import shared_block_layers
from plimsoll.facts.models.traits import Architecture, Mixer, Recurrent


def mixers(fields: Fields, traits: Architecture, shape: Shape) -> Parts:
    """The mixer of every layer, first to last."""
    attention = traits.mixer or attention_layers
    if traits.recurrent is None:
        return attention(fields, traits, shape)
    return _hybrid_layers(fields, traits, traits.recurrent, shape, attention)


def _hybrid_layers(fields: Fields, traits: Architecture, recurrent: Recurrent, shape: Shape, attention: Mixer) -> Parts:
    """Return the mixer of every layer; layers with only an MLP have an empty one.

    Args:
        fields: the language model's configuration.
        traits: its class.
        recurrent: its recurrent layers.
        shape: the decoder as a whole.
        attention: builds the attention layers; called for one layer, because all of them are equal.

    Raises:
        InvalidInput: a pattern or a size is missing, ill-typed or absurd.
        UnsupportedModel: a layer of a type that no law covers.
    """
    roles = layer_roles(shape.name, fields, traits, shape.layers)
    recurrence = Part()
    if any(role in (Role.RECURRENT, Role.BOTH) for role in roles):
        recurrence = recurrent.build(fields, recurrent, shape)
    if recurrent.roles is shared_block:
        return shared_block_layers(fields, shape, roles, recurrence)
    attending = Part()
    if has_attention(traits) and any(role in (Role.ATTENTION, Role.BOTH) for role in roles):
        attending = attention(_without_patterns(fields), traits, replace(shape, layers=1))[0]
    mixers = {
        Role.ATTENTION: attending,
        Role.RECURRENT: recurrence,
        Role.BOTH: recurrence + attending,
        Role.MLP: Part(),
        Role.EXPERTS: Part(),
    }
    streams = Part(tuple(_residual_streams(fields, shape)))
    return tuple(mixers[role] + streams for role in roles)


def _without_patterns(fields: Fields) -> Fields:
    """Return the configuration without the list of layer types, as if all layers were attention layers."""
    return Fields(
        {key: value for key, value in fields.values.items() if key not in ("layer_types", "layers_block_type")},
        fields.origin,
    )


def _residual_streams(fields: Fields, shape: Shape) -> Iterator[Weight]:
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
