"""Audio towers derived from Whisper's encoder: two convolutions, positions, layers, a projector.

Sources: vLLM's ``qwen2_audio.py``, ``qwen2_5_omni_thinker.py``, ``qwen3_omni_moe_thinker.py``, ``audioflamingo3.py``,
``ultravox.py``, ``voxtral.py`` and ``whisper.py``; defaults from the configuration classes in Transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.encoders.qwen_vl import qwen2_5_vl, qwen3_vl
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import Tower, TowerCut, layer_norm, tower_facts, tower_layers, up, whole
from plimsoll.facts.models.fields import Fields

_KERNEL = 3
_MEL_PIXELS = 8
"""Factor by which three convolutions of stride 2 reduce the spectrogram (Qwen3-Omni)."""


@dataclass(frozen=True, slots=True)
class AudioTower:
    """Sizes of one audio tower: its layers, mel bands and positions of 30 seconds."""

    tower: Tower
    mels: int
    positions: int


def audio_tower(section: Fields, *, cut: TowerCut, key_bias: bool, mels: int = 128) -> AudioTower:
    """The sizes that a section gives; defaults are those of Whisper large.

    Raises:
        InvalidInput: a field is ill-typed or absurd.
    """
    tower = Tower(
        hidden=size(section, "d_model", "hidden_size", default=1280),
        intermediate=size(section, "encoder_ffn_dim", "intermediate_size", default=5120),
        layers=size(section, "encoder_layers", "num_hidden_layers", default=32),
        heads=size(section, "encoder_attention_heads", "num_attention_heads", default=20),
        key_bias=key_bias,
        attention=cut,
        mlp=cut,
    )
    bands = size(section, "num_mel_bins", default=mels)
    return AudioTower(tower, bands, size(section, "max_source_positions", default=1500))


def whisper_weights(prefix: str, audio: AudioTower) -> Iterator[Weight]:
    """Whisper's encoder."""
    hidden = audio.tower.hidden
    yield from whole(f"{prefix}.conv1", hidden, audio.mels * _KERNEL, bias=True)
    yield from whole(f"{prefix}.conv2", hidden, hidden * _KERNEL, bias=True)
    yield from whole(f"{prefix}.embed_positions", audio.positions, hidden)
    yield from tower_layers(f"{prefix}.layers", audio.tower)
    yield from layer_norm(f"{prefix}.layer_norm", hidden)


def _audio_facts(weights: Iterator[Weight] | tuple[Weight, ...], audio: AudioTower, *, outputs: int) -> EncoderFacts:
    """The tower with 30 seconds of sound."""
    return tower_facts(audio.tower, weights, positions=audio.positions, outputs=max(1, outputs))


def whisper(fields: Fields, _language: Fields, _facts: ModelFacts) -> EncoderFacts:
    """Whisper's own encoder: its output is read by cross attention and takes none of the decoder's context."""
    audio = audio_tower(fields, cut=TowerCut.DIVIDED, key_bias=True, mels=80)
    return _audio_facts(whisper_weights("model.encoder", audio), audio, outputs=audio.positions)


def qwen2_audio(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Qwen2-Audio: Transformers' encoder, whole on every rank; pairs of positions are pooled."""
    audio = audio_tower(tower_section(fields, "audio_config"), cut=TowerCut.WHOLE, key_bias=False)
    projector = whole("multi_modal_projector.linear", facts.hidden, audio.tower.hidden, bias=True)
    weights = (*whisper_weights("audio_tower", audio), *projector)
    return _audio_facts(weights, audio, outputs=audio.positions // 2)


def audio_flamingo3(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Audio Flamingo 3: the same encoder, two linear layers."""
    audio = audio_tower(tower_section(fields, "audio_config"), cut=TowerCut.WHOLE, key_bias=False)
    weights = (
        *whisper_weights("audio_tower", audio),
        *whole("multi_modal_projector.linear_1", facts.hidden, audio.tower.hidden, bias=True),
        *whole("multi_modal_projector.linear_2", facts.hidden, facts.hidden, bias=True),
    )
    return _audio_facts(weights, audio, outputs=audio.positions // 2)


def ultravox(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Ultravox: ``stack_factor`` positions joined, a gated MLP between two norms."""
    section = tower_section(fields, "audio_config")
    audio = audio_tower(section, cut=TowerCut.DIVIDED, key_bias=True)
    stacked = size(fields, "stack_factor", default=8)
    joined = stacked * audio.tower.hidden
    width = size(fields, "hidden_size", default=4096)
    gated = width // 2 if fields.text("projector_act") in (None, "swiglu") else width
    middle = fields.flag("projector_ln_mid", default=False)
    weights = (
        *whisper_weights("audio_tower", audio),
        *layer_norm("multi_modal_projector.ln_pre", joined, bias=False),
        *whole("multi_modal_projector.linear_1", width, joined),
        *whole("multi_modal_projector.linear_2", facts.hidden, gated),
        *layer_norm("multi_modal_projector.ln_mid", gated if middle else facts.hidden, bias=False),
    )
    return _audio_facts(weights, audio, outputs=audio.positions // stacked)


def voxtral(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Voxtral: Whisper's encoder with positions in 32 bits; four of them joined."""
    section = tower_section(fields, "audio_config")
    audio = audio_tower(section, cut=TowerCut.DIVIDED, key_bias=True)
    stacked = size(section, "downsample_factor", default=4)
    encoder = (
        replace(weight, storage=FP32) if weight.name.endswith("embed_positions") else weight
        for weight in whisper_weights("whisper_encoder", audio)
    )
    weights = (
        *encoder,
        *whole("audio_language_adapter.w_in", facts.hidden, stacked * audio.tower.hidden),
        *whole("audio_language_adapter.w_out", facts.hidden, facts.hidden),
    )
    return _audio_facts(weights, audio, outputs=audio.positions // stacked)


def qwen2_5_omni(fields: Fields, language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Qwen2.5-Omni's thinker: Qwen2.5-VL's vision tower, and an audio tower that is whole on every rank."""
    thinker = tower_section(fields, "thinker_config")
    section = tower_section(thinker, "audio_config")
    audio = audio_tower(section, cut=TowerCut.WHOLE, key_bias=False)
    outputs = size(section, "output_dim", default=3584)
    extra = (
        *(weight for weight in whisper_weights("audio_tower", audio) if "positions" not in weight.name),
        *whole("audio_tower.audio_bos_eos_token", 2, outputs),
        *whole("audio_tower.proj", outputs, audio.tower.hidden, bias=True),
    )
    vision = qwen2_5_vl(thinker, language, facts)
    return replace(vision, weights=(*extra, *vision.weights))


def qwen3_omni(fields: Fields, language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Qwen3-Omni's thinker: Qwen3-VL's vision tower, and an audio tower with three convolutions."""
    thinker = tower_section(fields, "thinker_config")
    vision = qwen3_vl(thinker, language, facts)
    return replace(vision, weights=(*_qwen3_audio(tower_section(thinker, "audio_config")), *vision.weights))


def _qwen3_audio(section: Fields) -> Iterator[Weight]:
    audio = audio_tower(section, cut=TowerCut.BY_HEADS, key_bias=True)
    hidden, channels = audio.tower.hidden, size(section, "downsample_hidden_size", default=480)
    outputs = size(section, "output_dim", default=3584)
    yield from whole("audio_tower.conv2d1", channels, _KERNEL**2, bias=True)
    yield from whole("audio_tower.conv2d2", channels, channels * _KERNEL**2, bias=True)
    yield from whole("audio_tower.conv2d3", channels, channels * _KERNEL**2, bias=True)
    yield from whole("audio_tower.conv_out", hidden, channels * (audio.mels // _MEL_PIXELS))
    yield from tower_layers("audio_tower.layers", audio.tower)
    yield from layer_norm("audio_tower.ln_post", hidden)
    yield from up("audio_tower.proj1", hidden, hidden, cut=TowerCut.WHOLE, bias=True)
    yield from up("audio_tower.proj2", outputs, hidden, cut=TowerCut.WHOLE, bias=True)


def qwen3_asr(fields: Fields, _language: Fields, _facts: ModelFacts) -> EncoderFacts:
    """Qwen3-ASR: Qwen3-Omni's audio tower alone."""
    thinker = tower_section(fields, "thinker_config")
    section = tower_section(thinker, "audio_config")
    audio = audio_tower(section, cut=TowerCut.BY_HEADS, key_bias=True)
    return _audio_facts(_qwen3_audio(section), audio, outputs=audio.positions // 4)
