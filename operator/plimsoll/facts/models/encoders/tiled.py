"""Towers over tiles of an image: Llama 4, Idefics 3 and SmolVLM, Ovis, LFM2-VL, Step 3, dots.ocr, Molmo.

Sources: vLLM's ``mllama4.py``, ``idefics3.py``, ``smolvlm.py``, ``ovis.py``, ``lfm2_vl.py``, ``step3_vl.py``,
``dots_ocr.py`` and ``molmo.py`` (``VisionBackboneConfig``: the configuration describes no tower); defaults from the
configuration classes in Transformers and vLLM.
"""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Sharding, Weight
from plimsoll.facts.models.encoders.images import embeddings, image_tower, patches, siglip
from plimsoll.facts.models.encoders.sections import neighbours, size, tower_section
from plimsoll.facts.models.encoders.towers import (
    USUAL,
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

_LLAMA4_TILES = 17
"""Sixteen tiles and a thumbnail. Source: ``max_patches`` of Llama4ImageProcessor."""

_IDEFICS_TILES = 17
"""Four by four tiles and a thumbnail. Source: ``size`` of the published preprocessors, four tiles long."""

_OVIS_TILES = 10
_OVIS_INDICATORS = 5
"""Tokens of the visual vocabulary that are never predicted. Source: ``IMAGE_INDICATOR_IDS`` in ``ovis.py``."""

_LFM2_TILES = 11
_STEP3_TILES = 6
_DOTS = Tower(hidden=1536, intermediate=4224, layers=42, heads=12, gated=True, norm_bias=False)
_DOTS_PIXELS = 11_289_600
"""``max_pixels`` of dots.ocr's ``preprocessor_config.json``."""

_MOLMO = Tower(hidden=1024, intermediate=4096, layers=23, heads=16)
_MOLMO_POSITIONS = 577
_MOLMO_LAYERS_READ = 2
_MOLMO_CROPS = 13
_MOLMO_TOKENS_OF_CROP = 144
_MOLMO_EXTRA_TOKENS = 128
"""Rows that the embedding table has and the output projection has not."""


def llama4(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Llama 4: even the patch embedding is divided."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, Tower(hidden=768, intermediate=5632, layers=34, heads=16))
    patch = size(section, "patch_size", default=14)
    side = size(section, "image_size", default=448) // patch
    joined = neighbours(section, "pixel_shuffle_ratio")
    projected = size(section, "projector_input_dim", default=4096)
    outputs = size(section, "projector_output_dim", default=4096)
    weights = (
        *whole("vision_model.class_embedding", tower.hidden, 1),
        *whole("vision_model.positional_embedding_vlm", side**2 + 1, tower.hidden),
        *up("vision_model.patch_embedding", tower.hidden, 3 * patch**2),
        *layer_norm("vision_model.layernorm_pre", tower.hidden),
        *layer_norm("vision_model.layernorm_post", tower.hidden),
        *tower_layers("vision_model.model.layers", tower),
        *up("vision_model.vision_adapter.mlp.fc1", projected, tower.hidden * joined),
        *down("vision_model.vision_adapter.mlp.fc2", outputs, projected),
        *up("multi_modal_projector.linear_1", facts.hidden, size(section, "vision_output_dim", default=outputs)),
    )
    return _facts(weights, tower, positions=side**2 + 1, tiles=_LLAMA4_TILES, outputs=side**2 // joined)


def idefics3(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Idefics 3 and SmolVLM: one projection of joined neighbouring patches."""
    image = image_tower(facts.name, _idefics_section(fields), prefix="vision_model")
    joined = size(fields, "scale_factor", default=2) ** 2
    weights = (
        *image.weights,
        *whole("connector.modality_projection.proj", facts.hidden, image.tower.hidden * joined),
    )
    outputs = image.side**2 // joined
    return _facts(weights, image.tower, positions=image.positions, tiles=_IDEFICS_TILES, outputs=outputs)


def _idefics_section(fields: Fields) -> Fields:
    """Return the tower's section. The class has only one tower, so its name in the section is ignored."""
    section = tower_section(fields, "vision_config")
    return Fields({**section.values, "model_type": "idefics3_vision"}, section.origin)


def ovis(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Ovis 1.6 and 2 with SigLIP: patches become words of a visual vocabulary."""
    section = tower_section(fields, "visual_tokenizer_config")
    image = image_tower(facts.name, tower_section(section, "backbone_config"), prefix="visual_tokenizer.backbone")
    stride = size(section, "hidden_stride", default=1) ** 2
    words = size(section, "vocab_size", default=16384)
    predicted = words - _OVIS_INDICATORS
    weights = (
        *image.weights,
        *whole("visual_tokenizer.head.0", predicted, image.tower.hidden * stride),
        *layer_norm("visual_tokenizer.head.1", predicted),
        *whole("vte", words, facts.hidden),
    )
    outputs = image.side**2 // stride
    return _facts(weights, image.tower, positions=image.positions, tiles=_OVIS_TILES, outputs=outputs)


def lfm2_vl(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """LFM2-VL: SigLIP 2 for any shape of image."""
    section = tower_section(fields, "vision_config")
    patch = size(section, "patch_size", default=16)
    side = int(size(section, "num_patches", default=256) ** 0.5)
    image = siglip(Fields({**section.values, "image_size": side * patch}, section.origin), "vision_tower")
    joined = image.tower.hidden * size(fields, "downsample_factor", default=2) ** 2
    width = size(fields, "projector_hidden_size", default=2560)
    bias = fields.flag("projector_bias", default=True)
    normed = fields.flag("projector_use_layernorm", default=True)
    projector = "multi_modal_projector"
    weights = (
        *image.weights,
        *(layer_norm(f"{projector}.layer_norm", joined) if normed else ()),
        *whole(f"{projector}.linear_1", width, joined, bias=bias),
        *whole(f"{projector}.linear_2", facts.hidden, width, bias=bias),
    )
    positions = image.positions * 4
    return _facts(weights, image.tower, positions=positions, tiles=_LFM2_TILES, outputs=image.positions)


def step3(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Step 3: EVA's tower and two convolutions that shrink its output."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, Tower(hidden=1792, intermediate=3072, layers=63, heads=16))
    patch = size(section, "patch_size", default=14)
    side = size(section, "image_size", default=728) // patch
    outputs = size(section, "output_hidden_size", default=4096)
    weights = (
        *embeddings("vision_model", tower, patch, side**2 + 1, bias=True, class_token=True),
        *tower_layers("vision_model.transformer.layers", tower),
        *whole("vit_downsampler", outputs, tower.hidden * 4, bias=True),
        *whole("vit_downsampler2", 2 * outputs, outputs * 9, bias=True),
        *whole("vit_large_projector", facts.hidden, 2 * outputs, bias=fields.flag("projector_bias", default=True)),
    )
    return _facts(weights, tower, positions=side**2 + 1, tiles=_STEP3_TILES + 1, outputs=side**2 // 16)


def dots_ocr(fields: Fields, _language: Fields, _facts_of_language: ModelFacts) -> EncoderFacts:
    """dots.ocr: RMSNorm, a gated MLP, four patches merged."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, _DOTS, ("embed_dim", *USUAL[1:])).with_biases(
        present=section.flag("use_bias", default=False)
    )
    hidden = tower.hidden
    patch = size(section, "patch_size", default=14)
    merge = size(section, "spatial_merge_size", default=2) ** 2
    weights = [
        *patches("vision_tower", tower, patch, bias=True),
        *layer_norm("vision_tower.patchifier.norm", hidden, bias=False),
        *tower_layers("vision_tower.blocks", tower),
        *layer_norm("vision_tower.merger.ln_q", hidden),
        *up("vision_tower.merger.mlp.0", hidden * merge, hidden * merge, bias=True),
        *down("vision_tower.merger.mlp.2", size(section, "hidden_size", default=hidden), hidden * merge, bias=True),
    ]
    if section.flag("post_norm", default=True):
        weights += layer_norm("vision_tower.post_trunk_norm", hidden, bias=False)
    most = _DOTS_PIXELS // patch**2
    return _facts(weights, tower, positions=most, tiles=1, outputs=most // merge)


def _facts(weights: Iterable[Weight], tower: Tower, *, positions: int, tiles: int, outputs: int) -> EncoderFacts:
    return tower_facts(tower, weights, positions=tiles * positions, outputs=max(1, tiles * outputs))


def molmo(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Molmo 7B and 72B: CLIP read at two layers, pooled by attention, projected by a gated MLP."""
    hidden, read = _MOLMO.hidden, _MOLMO.hidden * _MOLMO_LAYERS_READ
    width = fields.integer(("intermediate_size",)) // 2
    weights = (
        *whole("vision_backbone.pad_embed", 2, read),
        *whole("vision_backbone.class_embedding", hidden, 1),
        *patches("vision_backbone", _MOLMO, 14, bias=False),
        *whole("vision_backbone.positional_embedding", _MOLMO_POSITIONS, hidden),
        *layer_norm("vision_backbone.pre_ln", hidden),
        *tower_layers("vision_backbone.image_vit.transformer.resblocks", _MOLMO),
        *up("vision_backbone.image_pooling_2d.wqkv", 3 * hidden, read, bias=True),
        *down("vision_backbone.image_pooling_2d.wo", hidden, hidden, bias=True),
        *up("vision_backbone.image_projector.merged_linear", 2 * width, hidden),
        *down("vision_backbone.image_projector.down_proj", facts.hidden, width),
        Weight("additional_embedding", _MOLMO_EXTRA_TOKENS, facts.hidden, Sharding.VOCABULARY, linear=False),
    )
    return tower_facts(
        _MOLMO, weights, positions=_MOLMO_CROPS * _MOLMO_POSITIONS, outputs=_MOLMO_CROPS * _MOLMO_TOKENS_OF_CROP
    )
