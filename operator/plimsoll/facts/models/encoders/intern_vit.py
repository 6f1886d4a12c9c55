"""InternViT, as its authors write it and as Transformers does, and C-RADIO, which has its layers (Nemotron Nano VL).

Sources: vLLM's ``internvl.py``, ``intern_vit.py`` and ``interns1.py``, ``interns1_vit.py``; the number of tiles from
``max_dynamic_patch`` and ``use_thumbnail``. Of C-RADIO ``nano_nemotron_vl.py`` and ``radio.py``, and
``VIT_TIMM_DIM_BY_NAME`` in its ``RadioConfig``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import EncoderFacts, ModelFacts, VideoFacts, Weight
from plimsoll.facts.models.encoders.images import embeddings
from plimsoll.facts.models.encoders.sections import model_type, neighbours, size, tower_section
from plimsoll.facts.models.encoders.towers import Tower, TowerCut, layer_norm, sized, tower_facts, tower_layers, whole
from plimsoll.facts.models.fields import Fields, mapping_of, shown

_CHAT = Tower(hidden=3200, intermediate=12_800, layers=48, heads=25, attention=TowerCut.BY_HEADS)
_TRANSFORMERS = Tower(hidden=1024, intermediate=4096, layers=24, heads=16, attention=TowerCut.WHOLE)
_TILES = 12

_PLAYS_VIDEO = ("qwen2", "qwen3", "qwen3_moe", "gpt_oss")
"""Language models whose tokenizer has a token for video. A frame is a tile, and a video has as many frames as the
context holds (vLLM ``internvl.py``, ``ctx_video_token_map`` and ``get_num_frames_with_most_features``)."""


def internvl_chat(fields: Fields, language: Fields, facts: ModelFacts) -> EncoderFacts:
    """InternVL in its authors' format: attention is divided only if the degree divides the heads."""
    section = tower_section(fields, "vision_config")
    named = sized(section, _CHAT)
    tower = replace(
        named,
        layers=_layers(fields, named.layers),
        qkv_bias=section.flag("qkv_bias", default=False),
        norm_bias=section.text("norm_type") not in (None, "rms_norm"),
    )
    image = size(fields, "force_image_size", default=size(section, "image_size", default=448))
    patch = size(section, "patch_size", default=14)
    positions = (size(section, "image_size", default=448) // patch) ** 2 + 1
    joined = neighbours(fields, "downsample_ratio")
    projected = tower.hidden * joined
    weights = (
        *embeddings("vision_model", tower, patch, positions, bias=True, class_token=True),
        *tower_layers("vision_model.encoder.layers", tower),
        *_scales("vision_model.encoder.layers", tower),
        *(_query_key_norms(tower) if section.flag("qk_normalization", default=True) else ()),
        *layer_norm("mlp1.0", projected),
        *whole("mlp1.1", facts.hidden, projected, bias=True),
        *whole("mlp1.3", facts.hidden, facts.hidden, bias=True),
    )
    tiles = size(fields, "max_dynamic_patch", default=_TILES) + fields.flag("use_thumbnail", default=True)
    seen = _facts(weights, tower, tiles=tiles, side=image // patch, joined=joined)
    frame = _facts(weights, tower, tiles=1, side=image // patch, joined=joined)
    plays = model_type(language) in _PLAYS_VIDEO
    return replace(seen, video=VideoFacts(frame.item_tokens, frame.output_tokens)) if plays else seen


def internvl(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """InternVL and Intern-S1 in Transformers' format: attention is whole on every rank, the MLP divided."""
    section = tower_section(fields, "vision_config")
    tower = replace(
        sized(section, _TRANSFORMERS),
        qkv_bias=section.flag("attention_bias", default=False),
        norm_bias=section.text("norm_type") != "rms_norm",
    )
    image, patch = size(section, "image_size", default=448), size(section, "patch_size", default=14)
    side = image // patch
    positions = side**2 + 1 if section.flag("use_absolute_position_embeddings", default=True) else 0
    joined = neighbours(fields, "downsample_ratio")
    projected = tower.hidden * joined
    projector = "multi_modal_projector"
    weights = (
        *embeddings("vision_tower", tower, patch, positions, bias=True, class_token=True),
        *tower_layers("vision_tower.encoder.layer", tower),
        *_scales("vision_tower.encoder.layer", tower),
        *(_query_key_norms(tower) if section.flag("use_qk_norm", default=False) else ()),
        *layer_norm(f"{projector}.layer_norm", projected),
        *whole(f"{projector}.linear_1", facts.hidden, projected, bias=True),
        *whole(f"{projector}.linear_2", facts.hidden, facts.hidden, bias=True),
    )
    return _facts(weights, tower, tiles=_TILES + 1, side=side, joined=joined)


def _layers(fields: Fields, built: int) -> int:
    """Up to ``select_layer``, counted from the end if it is negative."""
    value = fields.values.get("select_layer", -1)
    if isinstance(value, bool) or not isinstance(value, int) or not -built <= value < built:
        raise fields.refuse("select_layer", f"Name one of the {built} layers of the vision tower.")
    return value + 1 if value >= 0 else built + value + 1


def _scales(prefix: str, tower: Tower) -> Iterator[Weight]:
    """Yield the weights that scale the output of attention and MLP."""
    for name in ("ls1", "ls2"):
        yield from whole(f"{prefix}.{name}", tower.hidden, 1, count=tower.layers)


def _query_key_norms(tower: Tower) -> Iterator[Weight]:
    for name in ("q_norm", "k_norm"):
        yield from layer_norm(f"vision_model.encoder.layers.{name}", tower.hidden, bias=False, count=tower.layers)


def _facts(weights: tuple[Weight, ...], tower: Tower, *, tiles: int, side: int, joined: int) -> EncoderFacts:
    outputs = max(1, tiles * side**2 // joined)
    return tower_facts(tower, weights, positions=tiles * (side**2 + 1), outputs=outputs)


_RADIO = {
    "vit_small_patch16_224": Tower(hidden=384, intermediate=1536, layers=12, heads=6, attention=TowerCut.BY_HEADS),
    "vit_base_patch16_224": Tower(hidden=768, intermediate=3072, layers=12, heads=12, attention=TowerCut.BY_HEADS),
    "vit_large_patch16_224": Tower(hidden=1024, intermediate=4096, layers=24, heads=16, attention=TowerCut.BY_HEADS),
    "vit_huge_patch16_224": Tower(hidden=1280, intermediate=5120, layers=32, heads=16, attention=TowerCut.BY_HEADS),
}
_RADIO_TILES = 13
"""Twelve tiles and a thumbnail. Source: ``max_num_tiles`` of the published preprocessor."""


def nemotron_vl(fields: Fields, language: Fields, facts: ModelFacts) -> EncoderFacts:
    """The tower, and an MLP whose inner width the file names."""
    if fields.has("sound_config"):
        raise UnsupportedModel(facts.name, "the audio tower of Nemotron Omni (sound_config)")
    section = tower_section(fields, "vision_config")
    args = tower_section(section, "args")
    model = args.text("model") or ""
    tower = _RADIO.get(model)
    if tower is None:
        raise UnsupportedModel(facts.name, f"the vision tower {shown(model)!r} (vision_config.args.model)")
    patch = size(section, "patch_size", default=16)
    joined = tower.hidden * neighbours(fields, "downsample_ratio")
    width = size(fields, "projector_hidden_size", default=20_480)
    weights = [
        *_radio_patches(args, tower, patch),
        *tower_layers("vision_model.encoder.layers", tower),
        *whole("vision_model.encoder.layers.ls1", tower.hidden, 1, count=tower.layers),
        *whole("vision_model.encoder.layers.ls2", tower.hidden, 1, count=tower.layers),
        *layer_norm("mlp1.0", joined, bias=False),
        *whole("mlp1.1", width, joined),
        *whole("mlp1.3", facts.hidden, width),
    ]
    if language.optional_integer(("num_nextn_predict_layers",), smallest=0):
        weights += layer_norm("vision_final_layernorm", tower.hidden)
    positions = (size(fields, "force_image_size", default=512) // patch) ** 2
    outputs = max(1, _RADIO_TILES * positions // neighbours(fields, "downsample_ratio"))
    return tower_facts(tower, weights, positions=_RADIO_TILES * positions, outputs=outputs)


def _radio_patches(args: Fields, tower: Tower, patch: int) -> Iterator[Weight]:
    side = size(args, "cpe_max_size", default=2048) // patch
    yield from whole("vision_model.position_embedding", side**2, tower.hidden)
    yield from whole("vision_model.patch_generator", tower.hidden, 3 * patch**2)
    yield from whole("vision_model.cls_token", _class_tokens(args), tower.hidden)


def _class_tokens(args: Fields) -> int:
    """One for each different teacher, filled up with registers to a multiple of ``register_multiple``."""
    sections = [mapping_of(teacher) or {} for teacher in args.items("teachers")]
    teachers = len({str(teacher.get("name")) for teacher in sections})
    tokens = max(1, teachers) if args.flag("cls_token_per_teacher", default=False) else 1
    multiple = args.optional_integer(("register_multiple",))
    return tokens + (multiple - tokens % multiple if multiple else 0)
