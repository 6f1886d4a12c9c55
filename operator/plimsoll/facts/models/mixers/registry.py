"""The builder of each mixer."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.mixers.attention import attention_layers
from plimsoll.facts.models.mixers.block_sparse import block_sparse_layers
from plimsoll.facts.models.mixers.compressed import compressed_layers
from plimsoll.facts.models.mixers.cross_attention import cross_attention_layers
from plimsoll.facts.models.mixers.factored import factored_layers
from plimsoll.facts.models.mixers.group_sparse import group_sparse_layers
from plimsoll.facts.models.mixers.hybrid import hybrid_layers
from plimsoll.facts.models.mixers.latent import latent_layers
from plimsoll.facts.models.mixers.looped import looped_layers
from plimsoll.facts.models.mixers.shared_compressed import shared_compressed_layers
from plimsoll.facts.models.shape import Parts, Shape
from plimsoll.facts.models.traits import Architecture, MixerRule

_BUILDERS: dict[MixerRule, Callable[[Fields, Architecture, Shape], Parts]] = {
    MixerRule.ATTENTION: attention_layers,
    MixerRule.LATENT: latent_layers,
    MixerRule.COMPRESSED: compressed_layers,
    MixerRule.SHARED_COMPRESSED: shared_compressed_layers,
    MixerRule.BLOCK_SPARSE: block_sparse_layers,
    MixerRule.GROUP_SPARSE: group_sparse_layers,
    MixerRule.FACTORED: factored_layers,
    MixerRule.LOOPED: looped_layers,
    MixerRule.CROSS_ATTENTION: cross_attention_layers,
}


def mixers(fields: Fields, traits: Architecture, shape: Shape) -> Parts:
    """The mixer of every layer, first to last."""
    builder = _BUILDERS[traits.mixer]
    if traits.recurrent is not None:
        return hybrid_layers(fields, traits, traits.recurrent, shape, builder)
    return builder(fields, traits, shape)
