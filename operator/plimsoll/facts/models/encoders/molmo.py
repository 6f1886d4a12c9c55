"""Molmo: CLIP read at two layers, pooled by attention, projected by a gated MLP.

Source: vLLM's ``molmo.py`` (``VisionBackboneConfig``: the configuration describes no tower).
"""

from __future__ import annotations

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Sharding, Weight
from plimsoll.facts.models.encoders.images import patches
from plimsoll.facts.models.encoders.towers import Tower, down, layer_norm, tower_facts, tower_layers, up, whole
from plimsoll.facts.models.fields import Fields

_TOWER = Tower(hidden=1024, intermediate=4096, layers=23, heads=16)
_POSITIONS = 577
_LAYERS_READ = 2
_CROPS = 13
_TOKENS_OF_CROP = 144
_EXTRA_TOKENS = 128
"""Rows that the embedding table has and the output projection has not."""


def molmo(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Molmo 7B and 72B."""
    hidden, read = _TOWER.hidden, _TOWER.hidden * _LAYERS_READ
    width = fields.integer(("intermediate_size",)) // 2
    weights = (
        *whole("vision_backbone.pad_embed", 2, read),
        *whole("vision_backbone.class_embedding", hidden, 1),
        *patches("vision_backbone", _TOWER, 14, bias=False),
        *whole("vision_backbone.positional_embedding", _POSITIONS, hidden),
        *layer_norm("vision_backbone.pre_ln", hidden),
        *tower_layers("vision_backbone.image_vit.transformer.resblocks", _TOWER),
        *up("vision_backbone.image_pooling_2d.wqkv", 3 * hidden, read, bias=True),
        *down("vision_backbone.image_pooling_2d.wo", hidden, hidden, bias=True),
        *up("vision_backbone.image_projector.merged_linear", 2 * width, hidden),
        *down("vision_backbone.image_projector.down_proj", facts.hidden, width),
        Weight("additional_embedding", _EXTRA_TOKENS, facts.hidden, Sharding.VOCABULARY, linear=False),
    )
    return tower_facts(_TOWER, weights, positions=_CROPS * _POSITIONS, outputs=_CROPS * _TOKENS_OF_CROP)
