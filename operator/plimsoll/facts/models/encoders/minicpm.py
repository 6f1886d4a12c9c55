"""MiniCPM-V and MiniCPM-o: SigLIP without its grid, a resampler, and Whisper's encoder for sound.

Sources: vLLM's ``minicpmv.py``, ``minicpmo.py`` and ``idefics2_vision_model.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.facts.models.encoders.audio import audio_tower, whisper_weights
from plimsoll.facts.models.encoders.images import siglip
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import Cut, layer_norm, tower_facts, whole
from plimsoll.facts.models.fields import Fields

_SLICES = 9
_SLICE_EDGE = 448


def minicpmv(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """MiniCPM-V from 2.5 on: slices of 448 pixels, each turned into ``query_num`` tokens."""
    section = tower_section(fields, "vision_config")
    layers = size(section, "num_hidden_layers", default=27) - fields.flag("drop_vision_last_layer", default=False)
    image = siglip(section, "vpm", layers=layers)
    queries = size(fields, "query_num", default=64)
    slices = size(tower_section(fields, "slice_config"), "max_slice_nums", default=_SLICES) + 1
    weights = (*image.weights, *_resampler(queries, facts.hidden, image.tower.hidden))
    positions = slices * (_SLICE_EDGE // image.patch) ** 2
    return tower_facts(image.tower, weights, positions=positions, outputs=slices * queries)


def minicpmo(fields: Fields, language: Fields, facts: ModelFacts) -> EncoderFacts:
    """MiniCPM-o: the tower of MiniCPM-V, and an audio tower that is whole on every rank."""
    vision = minicpmv(fields, language, facts)
    section = fields.section("audio_config")
    if section is None or not fields.flag("init_audio", default=True):
        return vision
    audio = audio_tower(section, cut=Cut.WHOLE, key_bias=False, mels=80)
    weights = (
        *vision.weights,
        *whole("audio_projection_layer.linear1", facts.hidden, audio.tower.hidden, bias=True),
        *whole("audio_projection_layer.linear2", facts.hidden, facts.hidden, bias=True),
        *whisper_weights("apm", audio),
    )
    return replace(vision, weights=weights)


def _resampler(queries: int, hidden: int, read: int) -> Iterator[Weight]:
    yield from whole("resampler.query", queries, hidden)
    yield from whole("resampler.proj", hidden, hidden)
    yield from whole("resampler.kv_proj", hidden, read)
    yield from whole("resampler.attn.in_proj", 3 * hidden, hidden, bias=True)
    yield from whole("resampler.attn.out_proj", hidden, hidden, bias=True)
    for name in ("ln_q", "ln_kv", "ln_post"):
        yield from layer_norm(f"resampler.{name}", hidden)
