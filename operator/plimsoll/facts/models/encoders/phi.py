"""Phi-3-Vision: OpenAI's CLIP ViT-L/14-336. Phi-4-multimodal: SigLIP up to its last layer but one, and a Conformer.

The configurations name these vision towers and do not describe them.

Sources: vLLM's ``phi3v.py`` (``CLIP_VIT_LARGE_PATCH14_336_CONFIG``), ``phi4mm.py``, ``phi4mm_audio.py`` and
``idefics2_vision_model.py``: the vision tower of Phi-4 is fixed in code (``siglip-so400m-patch14-448``), the speech
encoder described by ``audio_processor``.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Sharding, Weight
from plimsoll.facts.models.encoders.images import image_tower, siglip
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import layer_norm, tower_facts, whole
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
_CROPS_OF_3 = 16
"""``num_crops`` of the published ``preprocessor_config.json``."""
_CROP_TOKENS_OF_3 = 144


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
    outputs = (_CROPS_OF_3 + 1) * _CROP_TOKENS_OF_3 + 61
    return tower_facts(image.tower, weights, positions=(_CROPS_OF_3 + 1) * image.positions, outputs=outputs)


_SIGLIP = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "image_size": 448,
    "patch_size": 14,
}
_LAYERS_OF_4 = 26
_CROPS_OF_4 = 36
"""``dynamic_hd`` of the published ``preprocessor_config.json``."""
_CROP_TOKENS_OF_4 = 256
_SUBSAMPLED = 5
"""Convolutions in front of the Conformer: three by channel, two across channels."""


def phi4mm(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Vision and speech, both with an MLP to the language model's width; speech has a second MLP for images."""
    image = siglip(Fields(_SIGLIP, fields.origin), "vision_encoder.img_processor", layers=_LAYERS_OF_4, post_norm=False)
    hidden = image.tower.hidden
    processor = tower_section(fields, "audio_processor")
    weights = (
        *image.weights,
        *whole("vision_encoder.glb_GN", hidden, 1),
        *whole("vision_encoder.sub_GN", hidden, 1),
        *_projection("vision_encoder.img_projection", hidden, facts.hidden),
        *_speech(tower_section(processor, "config"), facts.hidden),
    )
    crops = _CROPS_OF_4 + 1
    return tower_facts(image.tower, weights, positions=crops * image.positions, outputs=crops * _CROP_TOKENS_OF_4)


def _projection(prefix: str, inputs: int, hidden: int) -> Iterator[Weight]:
    yield from whole(f"{prefix}.0", hidden, inputs, bias=True)
    yield from whole(f"{prefix}.2", hidden, hidden, bias=True)


def _speech(section: Fields, hidden: int) -> Iterator[Weight]:
    prefix = "embed_tokens_extend.encoder"
    width = size(section, "attention_dim", default=1024)
    heads = size(section, "attention_heads", default=16)
    bands = size(section, "input_size", default=80)
    halvings = size(section, "time_reduction", default=8)
    distance = 2 * size(tower_section(section, "relative_attention_bias_args"), "t5_bias_max_distance", default=500)
    yield from whole(f"{prefix}.embed.out", width, width * (bands // halvings), bias=True)
    yield from whole(f"{prefix}.embed.conv", width, 9, bias=True, count=_SUBSAMPLED - 2)
    yield from whole(f"{prefix}.embed.pointwise", width, width, bias=True, count=2)
    yield from whole(f"{prefix}.relative_attention_bias", distance, heads)
    yield from whole(f"{prefix}.encoder_embedding", 2 * bands, 1)
    yield from _conformer(f"{prefix}.encoders", section, width)
    for name in ("audio_projection", "audio_projection_for_vision"):
        yield from _projection(f"embed_tokens_extend.{name}", width, hidden)


def _conformer(prefix: str, section: Fields, width: int) -> Iterator[Weight]:
    layers = size(section, "num_blocks", default=24)
    inner = size(section, "linear_units", default=1536)
    kernel = size(section, "kernel_size", default=3)
    for name in ("feed_forward_in", "feed_forward_out"):
        yield from layer_norm(f"{prefix}.{name}.layer_norm", width, count=layers)
        yield from whole(f"{prefix}.{name}.gate_up", 2 * inner, width, bias=True, count=layers)
        yield from whole(f"{prefix}.{name}.down", width, inner, bias=True, count=layers)
    for name in ("linear_q", "linear_k", "linear_v", "linear_out"):
        yield from whole(f"{prefix}.self_attn.{name}", width, width, bias=True, count=layers)
    yield from layer_norm(f"{prefix}.conv.layer_norm", width, count=layers)
    yield from layer_norm(f"{prefix}.conv.glu.bias", width, count=layers)
    yield from whole(f"{prefix}.conv.glu.pointwise", 2 * width, width, bias=True, count=layers)
    yield from whole(f"{prefix}.conv.pointwise", width, width, bias=True, count=layers)
    yield from whole(f"{prefix}.conv.depthwise", width, kernel, bias=True, count=layers)
    yield from whole(f"{prefix}.conv.separable_pointwise", width, width, bias=True, count=layers)
    for name in ("layer_norm_att", "layer_norm"):
        yield from layer_norm(f"{prefix}.{name}", width, count=layers)
