"""Learned queries that read a tower's output: BLIP-2, Granite Speech, and the resampler of MiniCPM-V and MiniCPM-o.

Sources: vLLM's ``blip2.py``, ``granite_speech.py``, ``minicpmv.py``, ``minicpmo.py`` and ``idefics2_vision_model.py``
(SigLIP without its grid); ``Blip2QFormerConfig`` in Transformers. Its layers are plain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.domain.units import ceil_div
from plimsoll.facts.models.encoders.audio import audio_tower, whisper_weights
from plimsoll.facts.models.encoders.images import embeddings, siglip
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import (
    Tower,
    TowerCut,
    down,
    layer_norm,
    sized,
    tower_facts,
    tower_layers,
    up,
    whole,
)
from plimsoll.facts.models.fields import Fields


@dataclass(frozen=True, slots=True)
class _QFormer:
    """Sizes of a querying transformer; ``cross_every`` n-th layer reads the tower."""

    hidden: int
    intermediate: int
    layers: int
    read: int
    cross_every: int


def _q_former(section: Fields, *, read: int) -> _QFormer:
    """The sizes that a section gives; ``read`` is the width of what it reads."""
    return _QFormer(
        hidden=size(section, "hidden_size", default=768),
        intermediate=size(section, "intermediate_size", default=3072),
        layers=size(section, "num_hidden_layers", default=12),
        read=read,
        cross_every=size(section, "cross_attention_frequency", default=2),
    )


def _q_former_weights(prefix: str, former: _QFormer) -> Iterator[Weight]:
    """All layers; every rank holds them whole."""
    crossing = ceil_div(former.layers, former.cross_every)
    yield from layer_norm(f"{prefix}.layernorm", former.hidden)
    yield from _attention(f"{prefix}.encoder.layer.attention", former, former.hidden, former.layers)
    yield from _attention(f"{prefix}.encoder.layer.crossattention", former, former.read, crossing)
    layers = former.layers
    yield from whole(
        f"{prefix}.encoder.layer.intermediate_query", former.intermediate, former.hidden, bias=True, count=layers
    )
    yield from whole(
        f"{prefix}.encoder.layer.output_query", former.hidden, former.intermediate, bias=True, count=layers
    )
    yield from layer_norm(f"{prefix}.encoder.layer.output_query.LayerNorm", former.hidden, count=layers)


def _attention(prefix: str, former: _QFormer, read: int, count: int) -> Iterator[Weight]:
    for name, inputs in (("query", former.hidden), ("key", read), ("value", read), ("output", former.hidden)):
        yield from whole(f"{prefix}.{name}", former.hidden, inputs, bias=True, count=count)
    yield from layer_norm(f"{prefix}.LayerNorm", former.hidden, count=count)


def blip2(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """BLIP-2: EVA's image tower, a querying transformer, one projection."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, Tower(hidden=1408, intermediate=6144, layers=39, heads=16))
    patch = size(section, "patch_size", default=14)
    positions = (size(section, "image_size", default=224) // patch) ** 2 + 1
    queries = size(fields, "num_query_tokens", default=32)
    former = _q_former(tower_section(fields, "qformer_config"), read=tower.hidden)
    weights = (
        *embeddings("vision_model", tower, patch, positions, bias=True, class_token=True),
        *tower_layers("vision_model.encoder.layers", tower),
        *layer_norm("vision_model.post_layernorm", tower.hidden),
        *whole("query_tokens", queries, former.hidden),
        *_q_former_weights("qformer", former),
        *whole("language_projection", facts.hidden, former.hidden, bias=True),
    )
    return tower_facts(tower, weights, positions=positions, outputs=queries)


_SECONDS_30 = 1500
"""Frames of 30 seconds: two of 10 ms are stacked."""

_POSITIONS = 512
"""``max_pos_emb`` of GraniteSpeechEncoderConfig in Transformers."""


def granite_speech(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Granite Speech: a Conformer with divided MLPs, and a querying transformer over windows of frames."""
    section = tower_section(fields, "encoder_config")
    hidden = size(section, "hidden_dim", default=1024)
    layers = size(section, "num_layers", default=10)
    former = _q_former(tower_section(fields, "projector_config"), read=hidden)
    window, rate = size(fields, "window_size", default=15), size(fields, "downsample_rate", default=5)
    queries = window // rate
    outputs = size(section, "output_dim", default=42)
    weights = (
        *whole("encoder.input_linear", hidden, size(section, "input_dim", default=160), bias=True),
        *_conformer(section, hidden, layers),
        *up("encoder.out", outputs, hidden, bias=True),
        *down("encoder.out_mid", hidden, outputs, bias=True),
        *whole("projector.query", queries, former.hidden),
        *_q_former_weights("projector.qformer", former),
        *whole("projector.linear", facts.hidden, former.hidden, bias=True),
    )
    width = hidden * size(section, "feedforward_mult", default=4)
    return EncoderFacts(weights, layers, hidden, width, _SECONDS_30, _SECONDS_30 // window * queries)


def _conformer(section: Fields, hidden: int, layers: int) -> Iterator[Weight]:
    prefix = "encoder.layers"
    width = hidden * size(section, "feedforward_mult", default=4)
    head_dim = size(section, "dim_head", default=128)
    inner = head_dim * size(section, "num_heads", default=8)
    conv = hidden * size(section, "conv_expansion_factor", default=2)
    kernel = size(section, "conv_kernel_size", default=15)
    positions = 2 * size(section, "max_pos_emb", default=_POSITIONS) + 1
    for name in ("ff1", "ff2"):
        yield from layer_norm(f"{prefix}.{name}.pre_norm", hidden, count=layers)
        yield from up(f"{prefix}.{name}.up_proj", width, hidden, bias=True, count=layers)
        yield from down(f"{prefix}.{name}.down_proj", hidden, width, bias=True, count=layers)
    yield from layer_norm(f"{prefix}.attn.pre_norm", hidden, count=layers)
    yield from whole(f"{prefix}.attn.to_q", inner, hidden, count=layers)
    yield from whole(f"{prefix}.attn.to_kv", 2 * inner, hidden, count=layers)
    yield from up(f"{prefix}.attn.to_out", hidden, inner, cut=TowerCut.WHOLE, bias=True, count=layers)
    yield from whole(f"{prefix}.attn.rel_pos_emb", positions, head_dim, count=layers)
    yield from layer_norm(f"{prefix}.conv.norm", hidden, count=layers)
    yield from whole(f"{prefix}.conv.up_conv", 2 * conv, hidden, bias=True, count=layers)
    yield from whole(f"{prefix}.conv.depth_conv", conv, kernel, count=layers)
    yield from layer_norm(f"{prefix}.conv.batch_norm", conv, count=layers)
    yield from whole(f"{prefix}.conv.down_conv", hidden, conv, bias=True, count=layers)
    yield from layer_norm(f"{prefix}.post_norm", hidden, count=layers)


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
    audio = audio_tower(section, cut=TowerCut.WHOLE, key_bias=False, mels=80)
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
