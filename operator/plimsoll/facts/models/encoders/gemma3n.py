"""Gemma 3n: MobileNet-V5 for images, a Conformer for sound, an embedder behind each; whole on every rank.

Sources: vLLM's ``gemma3n_mm.py``; ``Gemma3nAudioEncoder`` and ``Gemma3nMultimodalEmbedder`` in Transformers.
"""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import layer_norm, whole
from plimsoll.facts.models.extras.gemma import layer_input_width
from plimsoll.facts.models.fields import Fields

_MOBILENET_WEIGHTS = 294_126_912
"""``mobilenetv5_300m_enc``: the published counts of Gemma 3n E2B and E4B (5,439,438,272 and 7,849,978,192) minus all
other weights; both give the same number."""

_CONVOLUTIONS = 84
"""Blocks of the published MobileNet-V5; the activation law reads them as layers."""

_POSITIONS = 2_304
"""A square of 768 pixels at a sixteenth of its resolution."""

_IMAGE_TOKENS = 256
"""``vision_soft_tokens_per_image`` of Gemma3nConfig."""

_MELS = 128
_HEADS = 8


def gemma3n(fields: Fields, language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Both towers."""
    vision, audio = tower_section(fields, "vision_config"), tower_section(fields, "audio_config")
    hidden = size(vision, "hidden_size", default=2048)
    width = size(audio, "hidden_size", default=1536)
    weights = (
        *whole("vision_tower.timm_model", _MOBILENET_WEIGHTS, 1),
        *_embedder("embed_vision", size(vision, "vocab_size", default=128), hidden, facts.hidden),
        *_conformer(audio, width),
        *_embedder("embed_audio", size(audio, "vocab_size", default=128), width, facts.hidden),
    )
    outputs = size(fields, "vision_soft_tokens_per_image", default=_IMAGE_TOKENS)
    values = facts.layers * layer_input_width(language)
    return EncoderFacts(weights, _CONVOLUTIONS, hidden, hidden, _POSITIONS, outputs, step_values=values)


def _embedder(prefix: str, tokens: int, width: int, hidden: int) -> Iterator[Weight]:
    yield from whole(f"{prefix}.embedding", tokens, width)
    yield from layer_norm(f"{prefix}.hard_embedding_norm", width, bias=False)
    yield from layer_norm(f"{prefix}.soft_embedding_norm", width, bias=False)
    yield from whole(f"{prefix}.embedding_projection", hidden, width)


def _conformer(section: Fields, width: int) -> Iterator[Weight]:
    layers = size(section, "conf_num_hidden_layers", default=12)
    kernel = size(section, "conf_conv_kernel_size", default=5)
    heads = size(section, "conf_num_attention_heads", default=_HEADS)
    first, second = 128, 32
    prefix = "audio_tower.conformer"
    yield from whole("audio_tower.subsample_conv_projection.conv_0", first, 9)
    yield from layer_norm("audio_tower.subsample_conv_projection.conv_0.norm", first, bias=False)
    yield from whole("audio_tower.subsample_conv_projection.conv_1", second, 9 * first)
    yield from layer_norm("audio_tower.subsample_conv_projection.conv_1.norm", second, bias=False)
    bands = size(section, "input_feat_size", default=_MELS) // 4
    yield from whole("audio_tower.subsample_conv_projection.input_proj_linear", width, bands * second)
    for name in ("ffw_layer_start", "ffw_layer_end"):
        yield from whole(f"{prefix}.{name}.ffw_layer_1", 4 * width, width, count=layers)
        yield from whole(f"{prefix}.{name}.ffw_layer_2", width, 4 * width, count=layers)
        for norm in ("pre_layer_norm", "post_layer_norm"):
            yield from layer_norm(f"{prefix}.{name}.{norm}", width, bias=False, count=layers)
    for name in ("q_proj", "k_proj", "v_proj", "relative_position_embedding.pos_proj", "post"):
        yield from whole(f"{prefix}.attention.{name}", width, width, count=layers)
    yield from layer_norm(f"{prefix}.attention.attn.per_dim_scale", width // heads, bias=False, count=layers)
    yield from whole(f"{prefix}.lconv1d.linear_start", 2 * width, width, count=layers)
    yield from whole(f"{prefix}.lconv1d.depthwise_conv1d", width, kernel, count=layers)
    yield from whole(f"{prefix}.lconv1d.linear_end", width, width, count=layers)
    for name in ("pre_attn_norm", "post_norm", "lconv1d.pre_layer_norm", "lconv1d.conv_norm", "norm"):
        yield from layer_norm(f"{prefix}.{name}", width, bias=False, count=layers)
