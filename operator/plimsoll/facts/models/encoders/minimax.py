"""MiniMax-M3's tower: CLIP's layers over patches of two frames, each projected, then merged two by two.

Source: vLLM, ``models/minimax_m3/common/vision_tower.py``; sizes of images from ``image_size``, the largest side.
"""

from __future__ import annotations

from plimsoll.domain.models.model import EncoderFacts, ModelFacts
from plimsoll.facts.models.encoders.images import patches
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import Tower, down, layer_norm, sized, tower_facts, tower_layers, up
from plimsoll.facts.models.fields import Fields


def minimax_m3(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Return the tower with its projector and the layers that merge neighbouring patches."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, Tower(hidden=1280, intermediate=5120, layers=32, heads=16))
    merging = tower_section(section, "img_token_compression_config")
    merge = size(merging, "spatial_merge_size", default=2) ** 2
    frames = size(merging, "temporal_patch_size", default=2)
    patch, width = size(section, "patch_size", default=14), size(fields, "projector_hidden_size", default=facts.hidden)
    biased = fields.flag("multimodal_projector_bias", default=True)
    weights = (
        *patches("vision_tower", tower, patch, bias=False, channels=frames * size(section, "num_channels", default=3)),
        *layer_norm("vision_tower.pre_layrnorm", tower.hidden),
        *tower_layers("vision_tower.encoder.layers", tower),
        *up("multi_modal_projector.linear_1", width, tower.hidden, bias=biased),
        *down("multi_modal_projector.linear_2", facts.hidden, width, bias=biased),
        *up("patch_merge_mlp.linear_1", width, merge * facts.hidden, bias=biased),
        *down("patch_merge_mlp.linear_2", facts.hidden, width, bias=biased),
    )
    positions = (size(section, "image_size", default=2016) // patch) ** 2
    return tower_facts(tower, weights, positions=positions, outputs=positions // merge)
