"""Muse Glimmer's tower: patches of two frames, attention in windows, an MLP that every rank holds whole.

Every rank holds the attention too, where the degree does not divide its heads.
Source: vLLM, ``model_executor/models/muse_glimmer.py``. The largest image size is in the preprocessor's file, which is
not read; the size used here is that of the other towers for images of any size.
"""

from __future__ import annotations

from plimsoll.domain.models.model import EncoderFacts, ModelFacts
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import Cut, Tower, layer_norm, sized, tower_facts, tower_layers, whole
from plimsoll.facts.models.fields import Fields

_CHANNELS = 3
_MOST_TOKENS = 4_096


def muse_glimmer(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """The tower, its adapter and its projection."""
    section = tower_section(fields, "vision_config")
    tower = sized(
        section, Tower(hidden=1536, intermediate=8960, layers=50, heads=16, attention=Cut.BY_HEADS, mlp=Cut.WHOLE)
    )
    positions = size(section, "pos_emb_height", default=32) * size(section, "pos_emb_width", default=32)
    patch, frames = size(section, "patch_size", default=14), size(section, "patch_temporal", default=2)
    merge = size(section, "merge_size", default=2) ** 2
    outputs = size(fields, "out_hidden_size", default=merge * tower.hidden)
    width = size(fields, "projector_hidden_size", default=4096)
    weights = (
        *whole("vision_encoder.positional_embedding", positions, tower.hidden),
        *whole("vision_encoder.conv1", tower.hidden, _CHANNELS * frames * patch * patch),
        *layer_norm("vision_encoder.ln_pre", tower.hidden),
        *tower_layers("vision_encoder.transformer", tower),
        *layer_norm("vision_encoder.ln_post", tower.hidden),
        *whole("vision_adapter.c_fc", width, outputs),
        *whole("vision_adapter.c_proj", width, width),
        *whole("vision_projection", facts.hidden, width),
    )
    return tower_facts(tower, weights, positions=_MOST_TOKENS * merge, outputs=_MOST_TOKENS)
