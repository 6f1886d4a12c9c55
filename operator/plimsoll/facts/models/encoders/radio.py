"""C-RADIO with Nemotron-H: Nemotron Nano VL.

Sources: vLLM's ``nano_nemotron_vl.py``, ``radio.py`` and ``intern_vit.py``, whose layers it has;
``VIT_TIMM_DIM_BY_NAME`` in its ``RadioConfig``.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.facts.models.encoders.sections import neighbours, size, tower_section
from plimsoll.facts.models.encoders.towers import Cut, Tower, layer_norm, tower_facts, tower_layers, whole
from plimsoll.facts.models.fields import Fields, mapping_of, shown

_TOWERS = {
    "vit_small_patch16_224": Tower(hidden=384, intermediate=1536, layers=12, heads=6, attention=Cut.BY_HEADS),
    "vit_base_patch16_224": Tower(hidden=768, intermediate=3072, layers=12, heads=12, attention=Cut.BY_HEADS),
    "vit_large_patch16_224": Tower(hidden=1024, intermediate=4096, layers=24, heads=16, attention=Cut.BY_HEADS),
    "vit_huge_patch16_224": Tower(hidden=1280, intermediate=5120, layers=32, heads=16, attention=Cut.BY_HEADS),
}
_TILES = 13
"""Twelve tiles and a thumbnail. Source: ``max_num_tiles`` of the published preprocessor."""


def nemotron_vl(fields: Fields, language: Fields, facts: ModelFacts) -> EncoderFacts:
    """The tower, and an MLP whose inner width the file names."""
    if fields.has("sound_config"):
        raise UnsupportedModel(facts.name, "the audio tower of Nemotron Omni (sound_config)")
    section = tower_section(fields, "vision_config")
    args = tower_section(section, "args")
    model = args.text("model") or ""
    tower = _TOWERS.get(model)
    if tower is None:
        raise UnsupportedModel(facts.name, f"the vision tower {shown(model)!r} (vision_config.args.model)")
    patch = size(section, "patch_size", default=16)
    joined = tower.hidden * neighbours(fields, "downsample_ratio")
    width = size(fields, "projector_hidden_size", default=20_480)
    weights = [
        *_patches(args, tower, patch),
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
    outputs = max(1, _TILES * positions // neighbours(fields, "downsample_ratio"))
    return tower_facts(tower, weights, positions=_TILES * positions, outputs=outputs)


def _patches(args: Fields, tower: Tower, patch: int) -> Iterator[Weight]:
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
