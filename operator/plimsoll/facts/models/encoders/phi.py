"""Phi-3-Vision: OpenAI's CLIP ViT-L/14-336, named and not described by the configuration.

Source: vLLM's ``phi3v.py`` (``CLIP_VIT_LARGE_PATCH14_336_CONFIG``).
"""

from __future__ import annotations

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Sharding, Weight
from plimsoll.facts.models.encoders.images import image_tower
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import tower_facts, whole
from plimsoll.facts.models.fields import Fields

_CLIP = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "image_size": 336,
    "patch_size": 14,
}
_LAYER_READ = -2
_CROPS = 16
"""``num_crops`` of the published ``preprocessor_config.json``."""
_TOKENS_OF_CROP = 144


def phi3v(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Phi-3-Vision and Phi-3.5-Vision. The engine keeps a second table of token embeddings in addition to the tower."""
    section = Fields(_CLIP, f"{fields.origin}: img_processor")
    layers = size(section, "num_hidden_layers", default=24) + _LAYER_READ + 1
    image = image_tower(facts.name, section, prefix="vision_embed_tokens", layers=layers, post_norm=False)
    joined = 4 * size(tower_section(fields, "img_processor"), "image_dim_out", default=1024)
    weights = (
        *image.weights,
        *whole("vision_embed_tokens.glb_GN", joined, 1),
        *whole("vision_embed_tokens.sub_GN", joined, 1),
        *whole("vision_embed_tokens.img_projection.0", facts.hidden, joined, bias=True),
        *whole("vision_embed_tokens.img_projection.2", facts.hidden, facts.hidden, bias=True),
        Weight("vision_embed_tokens.wte", facts.vocabulary, facts.hidden, Sharding.VOCABULARY, linear=False),
    )
    outputs = (_CROPS + 1) * _TOKENS_OF_CROP + 61
    return tower_facts(image.tower, weights, positions=(_CROPS + 1) * image.positions, outputs=outputs)
