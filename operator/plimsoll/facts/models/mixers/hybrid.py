"""Layers of hybrid models: a recurrence, attention, both, or an MLP alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from plimsoll.domain.model import Weight
from plimsoll.facts.models.extras import hyper_connections
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layer_patterns import Role, has_attention, layer_roles
from plimsoll.facts.models.linears import norm, replicated
from plimsoll.facts.models.mixers.gated_delta import gated_delta_part
from plimsoll.facts.models.mixers.kimi_delta import kimi_delta_part
from plimsoll.facts.models.mixers.lightning import lightning_part
from plimsoll.facts.models.mixers.mamba1 import mamba1_part
from plimsoll.facts.models.mixers.mamba2 import mamba2_part
from plimsoll.facts.models.mixers.shared_block import shared_block_layers
from plimsoll.facts.models.mixers.short_conv import short_conv_part
from plimsoll.facts.models.shape import Part, Parts, Shape
from plimsoll.facts.models.traits import Architecture, PatternRule, Recurrent, RecurrentRule

AttentionLayers = Callable[[Fields, Architecture, Shape], Parts]

_RECURRENCES: dict[RecurrentRule, Callable[[Fields, Recurrent, Shape], Part]] = {
    RecurrentRule.MAMBA1: mamba1_part,
    RecurrentRule.MAMBA2: mamba2_part,
    RecurrentRule.GATED_DELTA: gated_delta_part,
    RecurrentRule.KIMI_DELTA: kimi_delta_part,
    RecurrentRule.LIGHTNING: lightning_part,
    RecurrentRule.SHORT_CONV: short_conv_part,
}


def hybrid_layers(
    fields: Fields, traits: Architecture, recurrent: Recurrent, shape: Shape, attention_layers: AttentionLayers
) -> Parts:
    """Return the mixer of every layer; layers with only an MLP have an empty one.

    Args:
        fields: the language model's configuration.
        traits: its class.
        recurrent: its recurrent layers.
        shape: the decoder as a whole.
        attention_layers: builds the attention layers; called for one layer, because all of them are equal.

    Raises:
        InvalidInput: a pattern or a size is missing, ill-typed or absurd.
        UnsupportedModel: a layer of a type that no law covers.
    """
    roles = layer_roles(shape.name, fields, traits, shape.layers)
    recurrence = Part()
    if any(role in (Role.RECURRENT, Role.BOTH) for role in roles):
        recurrence = _RECURRENCES[recurrent.rule](fields, recurrent, shape)
    if recurrent.pattern is PatternRule.SHARED:
        return shared_block_layers(fields, shape, roles, recurrence)
    attention = Part()
    if has_attention(traits) and any(role in (Role.ATTENTION, Role.BOTH) for role in roles):
        attention = attention_layers(_without_patterns(fields), traits, replace(shape, layers=1))[0]
    mixers = {
        Role.ATTENTION: attention,
        Role.RECURRENT: recurrence,
        Role.BOTH: recurrence + attention,
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
