"""An unknown tower, estimated from the fields that most configurations of vision towers share."""

from __future__ import annotations

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.model import EncoderFacts, ModelFacts
from plimsoll.facts.models.encoders.images import embeddings
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import Tower, TowerCut, layer_norm, tower_facts, tower_layers, whole
from plimsoll.facts.models.fields import Fields

_WIDTH = ("hidden_size", "embed_dim", "width")
_MLP = ("intermediate_size", "mlp_dim")
_LAYERS = ("num_hidden_layers", "depth", "layers")
_HEADS = ("num_attention_heads", "num_heads", "heads")
SOUND_SECTIONS = ("audio_config", "speech_config", "audio_encoder_config")
MOST_POSITIONS = 4_096
"""A square of 896 pixels in patches of 14: between towers for one small square and towers for images of any size."""
JOINED = 4
"""Patches in a token, after the most common merging: two by two."""


def can_estimate(fields: Fields) -> bool:
    """Whether the file describes a vision tower, and no audio tower, by the usual fields.

    Raises:
        InvalidInput: the section is no object.
    """
    section = tower_section(fields, "vision_config")
    sound = any(fields.has(key) for key in SOUND_SECTIONS)
    return not sound and all(section.first(keys) for keys in (_WIDTH, _MLP, _LAYERS))


def generic_tower(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Layers of attention and MLP with biases, a projector of two linear layers; whole on every rank.

    Whole is the larger estimate: a tower is at most a few GiB, and some classes do not divide it.
    """
    if not can_estimate(fields):
        raise UnsupportedModel(facts.name, f"the tower of the model class {facts.architecture}")
    section = tower_section(fields, "vision_config")
    tower = Tower(
        hidden=section.integer(_WIDTH),
        intermediate=section.integer(_MLP),
        layers=section.integer(_LAYERS),
        heads=size(section, *_HEADS, default=16),
        attention=TowerCut.WHOLE,
        mlp=TowerCut.WHOLE,
    )
    patch = size(section, "patch_size", default=14)
    image = size(section, "image_size", default=0) if section.has("image_size") else 0
    positions = (image // patch) ** 2 if image else MOST_POSITIONS
    joined = tower.hidden * JOINED
    weights = (
        *embeddings("vision_tower", tower, patch, positions, bias=True),
        *tower_layers("vision_tower.encoder.layers", tower),
        *layer_norm("vision_tower.post_layernorm", tower.hidden),
        *whole("multi_modal_projector.linear_1", facts.hidden, joined, bias=True),
        *whole("multi_modal_projector.linear_2", facts.hidden, facts.hidden, bias=True),
    )
    outputs = max(1, positions // JOINED)
    return tower_facts(tower, weights, positions=positions, outputs=outputs)
