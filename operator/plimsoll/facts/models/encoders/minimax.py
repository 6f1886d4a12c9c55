"""MiniMax-M3's tower: CLIP's layers over patches of two frames, each projected, then merged two by two.

Source: vLLM, ``models/minimax_m3/common/vision_tower.py``; sizes of images from ``image_size``, the largest side.
"""

from __future__ import annotations

from plimsoll.domain.model import EncoderFacts, ModelFacts
from plimsoll.facts.models.encoders.images import patches
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import Tower, down, layer_norm, tower_layers, up
from plimsoll.facts.models.fields import Fields


def minimax_m3(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Return the tower with its projector and the layers that merge neighbouring patches.

    Raises:
        InvalidInput: a field is ill-typed or absurd.
    """
    section = tower_section(fields, "vision_config")
    tower = Tower(
        hidden=size(section, "hidden_size", default=1280),
        intermediate=size(section, "intermediate_size", default=5120),
        layers=size(section, "num_hidden_layers", default=32),
        heads=size(section, "num_attention_heads", default=16),
    )
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
    return EncoderFacts(weights, tower.layers, tower.hidden, tower.intermediate, positions, positions // merge)
