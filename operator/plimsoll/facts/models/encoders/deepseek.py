"""DeepSeek-OCR: SAM's tower in front of CLIP's. DeepSeek-VL2: SigLIP from the timm library.

Sources: vLLM's ``deepseek_ocr.py``, ``deepencoder.py`` and ``deepseek_vl2.py`` (both towers are fixed in code).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.facts.models.encoders.images import embeddings, patches
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import (
    Tower,
    TowerCut,
    divided_heads,
    layer_norm,
    tower_facts,
    tower_layers,
    whole,
)
from plimsoll.facts.models.fields import Fields

_SAM = Tower(hidden=768, intermediate=3072, layers=12, heads=12, attention=TowerCut.WHOLE, mlp=TowerCut.WHOLE)
_SAM_GLOBAL_LAYERS = 4
_SAM_SIDE = 64
_SAM_WINDOW = 14
_SAM_HEAD = 64
_SAM_NECK = (256, 512, 1024)

_CLIP = Tower(hidden=1024, intermediate=4096, layers=24, heads=16)
_CLIP_POSITIONS = 257

_OCR_TOKENS = 1_113
"""Gundam mode: six tiles of 100 tokens and a view of 256, with line ends; 1,600 patches a tile before the neck."""
_OCR_PATCHES = 6 * 1_600 + 4_096


def deepseek_ocr(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """DeepSeek-OCR."""
    projector = tower_section(fields, "projector_config")
    inputs = size(projector, "input_dim", default=2048)
    outputs = size(projector, "n_embed", default=facts.hidden)
    weights = (
        *whole("image_newline", outputs, 1),
        *whole("view_seperator", outputs, 1),
        *_sam(),
        *embeddings("vision_model", _CLIP, 14, _CLIP_POSITIONS, bias=False, class_token=True),
        *layer_norm("vision_model.pre_layrnorm", _CLIP.hidden),
        *tower_layers("vision_model.transformer.layers", _CLIP),
        *whole("projector.layers", outputs, inputs, bias=True),
    )
    tower = tower_facts(_SAM, weights, positions=_OCR_PATCHES, outputs=_OCR_TOKENS)
    return replace(tower, divided_heads=divided_heads(_CLIP))


def _sam() -> Iterator[Weight]:
    hidden = _SAM.hidden
    first, second, third = _SAM_NECK
    yield from whole("sam_model.position_embedding", _SAM_SIDE**2, hidden)
    yield from patches("sam_model", _SAM, 16, bias=True)
    yield from tower_layers("sam_model.blocks", _SAM)
    for name in ("rel_pos_h", "rel_pos_w"):
        windows = _SAM.layers - _SAM_GLOBAL_LAYERS
        yield from whole(f"sam_model.blocks.attn.window.{name}", 2 * _SAM_WINDOW - 1, _SAM_HEAD, count=windows)
        yield from whole(f"sam_model.blocks.attn.{name}", 2 * _SAM_SIDE - 1, _SAM_HEAD, count=_SAM_GLOBAL_LAYERS)
    yield from whole("sam_model.neck.0", first, hidden)
    yield from layer_norm("sam_model.neck.1", first)
    yield from whole("sam_model.neck.2", first, 9 * first)
    yield from layer_norm("sam_model.neck.3", first)
    yield from whole("sam_model.net_2", second, 9 * first)
    yield from whole("sam_model.net_3", third, 9 * second)


def deepseek_vl2(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """DeepSeek-VL2: attention is whole on every rank, the MLP divided; timm's attention pooling is a part of it."""
    section = tower_section(fields, "vision_config")
    hidden = size(section, "width", default=1152)
    intermediate = int(hidden * section.number("mlp_ratio", default=3.7362))
    tower = Tower(
        hidden=hidden,
        intermediate=intermediate,
        layers=size(section, "layers", default=27),
        heads=size(section, "heads", default=16),
        attention=TowerCut.WHOLE,
    )
    patch = size(section, "patch_size", default=14)
    side = size(section, "image_size", default=384) // patch
    projector = tower_section(fields, "projector_config")
    outputs = size(projector, "n_embed", default=facts.hidden)
    joined = hidden * size(projector, "downsample_ratio", default=2) ** 2
    weights = (
        *embeddings("vision", tower, patch, side**2, bias=True),
        *tower_layers("vision.blocks", tower),
        *layer_norm("vision.norm", hidden),
        *_pooling(hidden, intermediate),
        *whole("projector.layers.0", outputs, joined, bias=True),
        *whole("projector.layers.2", outputs, outputs, bias=True),
        *whole("image_newline", outputs, 1),
        *whole("view_seperator", outputs, 1),
    )
    tiles = 1 + (9 if len(fields.items("candidate_resolutions")) > 1 else 0)
    tokens = tiles * ((side + 1) // 2) ** 2
    return tower_facts(tower, weights, positions=tiles * side**2, outputs=tokens)


def _pooling(hidden: int, intermediate: int) -> Iterator[Weight]:
    yield from whole("vision.attn_pool.latent", 1, hidden)
    for name, width in (("q", hidden), ("kv", 2 * hidden), ("proj", hidden)):
        yield from whole(f"vision.attn_pool.{name}", width, hidden, bias=True)
    yield from layer_norm("vision.attn_pool.norm", hidden)
    yield from whole("vision.attn_pool.mlp.fc1", intermediate, hidden, bias=True)
    yield from whole("vision.attn_pool.mlp.fc2", hidden, intermediate, bias=True)
