"""GLM's vision towers: GLM-4.1V, 4.5V, 4.6V, GLM-OCR, GLM-5.3-Flash, and the older GLM-4V.

Sources: vLLM's ``glm4_1v.py``, ``glm_ocr.py``, ``glm4v.py`` and ``models/glm5next/common/multimodal.py``; defaults
from the configuration classes in Transformers; the largest image of GLM-4.1V from its ``preprocessor_config.json``
(``longest_edge`` 9,633,792: two frames of 6,144 tokens).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, VideoFacts, Weight
from plimsoll.facts.models.encoders.images import embeddings, patches
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import (
    BY_DEPTH,
    Tower,
    down,
    layer_norm,
    sized,
    tower_facts,
    tower_layers,
    up,
    whole,
)
from plimsoll.facts.models.fields import Fields

_NAMES_OF_4V = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_heads")
_4_1V = Tower(hidden=1536, intermediate=13_696, layers=24, heads=12, gated=True, norm_bias=False)
_OCR = Tower(hidden=1024, intermediate=4096, layers=24, heads=16, gated=True, norm_bias=False)
_MOST_TOKENS = 6_144
_FRAMES = 2
_MOST_TOKENS_OF_5, _MOST_VIDEO_TOKENS = 8_000, 30_000
"""Of an image of GLM-5.3-Flash, as its processor bounds them, and of a video (vLLM's ``_MAX_VIDEO_TOKENS``)."""


def glm4_1v(fields: Fields, _language: Fields, _facts: ModelFacts) -> EncoderFacts:
    """GLM-4.1V and later: ``intermediate_size`` is the merger's; the tower's own MLP has the language model's width."""
    section = tower_section(fields, "vision_config")
    named = sized(section, _4_1V, BY_DEPTH).with_biases(present=section.flag("attention_bias", default=False))
    outputs, patch = size(section, "out_hidden_size", default=4096), size(section, "patch_size", default=14)
    tower = replace(named, intermediate=outputs)
    merge = size(section, "spatial_merge_size", default=2) ** 2
    positions = (size(section, "image_size", default=336) // patch) ** 2
    frames = size(section, "temporal_patch_size", default=_FRAMES)
    weights = (
        *embeddings("visual", tower, patch, positions, bias=True, channels=3 * frames),
        *layer_norm("visual.post_conv_layernorm", tower.hidden, bias=False),
        *tower_layers("visual.blocks", tower),
        *layer_norm("visual.post_layernorm", tower.hidden, bias=False),
        *whole("visual.downsample", outputs, tower.hidden * merge, bias=True),
        *_merger(outputs, named.intermediate),
    )
    return tower_facts(tower, weights, positions=_MOST_TOKENS * merge, outputs=_MOST_TOKENS)


def _merger(outputs: int, width: int) -> Iterator[Weight]:
    yield from up("visual.merger.proj", outputs, outputs)
    yield from layer_norm("visual.merger.post_projection_norm", outputs)
    yield from up("visual.merger.gate_up_proj", 2 * width, outputs)
    yield from down("visual.merger.down_proj", outputs, width)


def glm_ocr(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """GLM-OCR: no learned positions, queries and keys normalised; the merger as wide as the language model's MLP."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, _OCR, BY_DEPTH).with_biases(present=section.flag("attention_bias", default=True))
    hidden, head_dim = tower.hidden, tower.hidden // tower.heads
    outputs = size(section, "out_hidden_size", default=facts.hidden)
    channels = size(section, "in_channels", default=3)
    merge = size(section, "spatial_merge_size", default=2) ** 2
    frames = size(section, "temporal_patch_size", default=_FRAMES)
    weights = (
        *patches("visual", tower, size(section, "patch_size", default=14), bias=True, channels=channels * frames),
        *tower_layers("visual.blocks", tower),
        *layer_norm("visual.blocks.attn.q_norm", head_dim, bias=False, count=tower.layers),
        *layer_norm("visual.blocks.attn.k_norm", head_dim, bias=False, count=tower.layers),
        *layer_norm("visual.post_layernorm", hidden, bias=False),
        *whole("visual.downsample", outputs, hidden * merge, bias=True),
        *_merger(outputs, size(section, "projection_intermediate_size", default=facts.intermediate)),
    )
    return tower_facts(tower, weights, positions=_MOST_TOKENS * merge, outputs=_MOST_TOKENS)


def glm5_next(fields: Fields, language: Fields, facts: ModelFacts) -> EncoderFacts:
    """GLM-5.3-Flash: the same tower for larger images, and videos of any length."""
    encoder = glm_ocr(fields, language, facts)
    merge = encoder.item_tokens // encoder.output_tokens
    return replace(
        encoder,
        item_tokens=_MOST_TOKENS_OF_5 * merge,
        output_tokens=_MOST_TOKENS_OF_5,
        video=VideoFacts(step_positions=merge, step_tokens=1, most_steps=_MOST_VIDEO_TOKENS),
    )


def glm4v(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """GLM-4V: EVA's tower, four neighbours joined by a convolution, a gated MLP."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, Tower(hidden=1792, intermediate=15360, layers=63, heads=16), _NAMES_OF_4V)
    positions = size(section, "num_positions", default=6401)
    width = size(fields, "ffn_hidden_size", default=13696)
    hidden = facts.hidden
    weights = (
        *whole("vision.boi", hidden, 1),
        *whole("vision.eoi", hidden, 1),
        *whole("vision.cls_embedding", tower.hidden, 1),
        *patches("vision", tower, size(section, "patch_size", default=14), bias=True),
        *whole("vision.position_embedding", positions, tower.hidden),
        *tower_layers("vision.transformer.layers", tower),
        *whole("vision.linear_proj.linear_proj", hidden, hidden),
        *layer_norm("vision.linear_proj.norm1", hidden),
        *up("vision.linear_proj.merged_proj", 2 * width, hidden),
        *down("vision.linear_proj.dense_4h_to_h", hidden, width),
        *whole("vision.conv", hidden, tower.hidden * 4, bias=True),
    )
    return tower_facts(tower, weights, positions=positions, outputs=(positions - 1) // 4 + 2)
