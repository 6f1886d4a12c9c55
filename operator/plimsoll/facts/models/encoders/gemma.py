"""PaliGemma and Gemma 3: SigLIP and one projection. Gemma 3n and 4: their own towers, whole on every rank.

Gemma 3n has MobileNet-V5 for images, a Conformer for sound, and an embedder behind each.

Sources: vLLM's ``paligemma.py``, ``gemma3_mm.py``, ``gemma3n_mm.py`` and ``gemma4_mm.py``; ``Gemma3nAudioEncoder``,
``Gemma3nMultimodalEmbedder``, ``Gemma4VisionModel`` and ``Gemma4AudioModel`` in Transformers; Gemma 4 runs its two as
they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, VideoFacts, Weight
from plimsoll.facts.models.encoders.images import image_tower
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import Tower, TowerCut, layer_norm, sized, tower_facts, tower_layers, whole
from plimsoll.facts.models.extras.gemma import layer_input_width
from plimsoll.facts.models.fields import Fields

_PROJECTOR = "multi_modal_projector"

_VISION_OF_4 = Tower(
    hidden=768,
    intermediate=3072,
    layers=16,
    heads=12,
    gated=True,
    norms=4,
    norm_bias=False,
    attention=TowerCut.WHOLE,
    mlp=TowerCut.WHOLE,
).with_biases(present=False)

_FRAMES, _FRAME_TOKENS, _FRAME_MARKS = 32, 70, 8
"""Gemma 4's videos: most frames, tokens of a frame, tokens of the marks and timestamp around it (``gemma4_mm.py``)."""


def paligemma(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """PaliGemma 1 and 2."""
    image = image_tower(facts.name, tower_section(fields, "vision_config"))
    outputs = size(tower_section(fields, "vision_config"), "projection_dim", default=facts.hidden)
    projector = whole(f"{_PROJECTOR}.linear", outputs, image.tower.hidden, bias=True)
    return tower_facts(image.tower, (*image.weights, *projector), positions=image.positions, outputs=image.positions)


def gemma3(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Gemma 3: 4,096 patches pooled to ``mm_tokens_per_image``."""
    image = image_tower(facts.name, tower_section(fields, "vision_config"))
    hidden = image.tower.hidden
    projector = (
        *whole(f"{_PROJECTOR}.mm_input_projection_weight", hidden, facts.hidden),
        *layer_norm(f"{_PROJECTOR}.mm_soft_emb_norm", hidden, bias=False),
    )
    outputs = size(fields, "mm_tokens_per_image", default=256)
    return tower_facts(image.tower, (*image.weights, *projector), positions=image.positions, outputs=outputs)


def gemma4(fields: Fields, language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Gemma 4: a vision tower, and an audio tower in the small models."""
    section = tower_section(fields, "vision_config")
    tower = _vision4(section)
    pooled = size(section, "pooling_kernel_size", default=3) ** 2
    outputs = size(section, "default_output_length", default=280)
    weights = [*_vision_weights(section, tower, facts.hidden)]
    if fields.section("audio_config") is not None:
        weights += _audio4(tower_section(fields, "audio_config"), facts.hidden)
    return EncoderFacts(
        # These are modules of Transformers, so online quantization does not change them.
        weights=tuple(replace(weight, linear=False) for weight in weights),
        layers=tower.layers,
        hidden=tower.hidden,
        intermediate=tower.intermediate,
        item_tokens=outputs * pooled,
        output_tokens=outputs,
        video=VideoFacts(_FRAMES * _FRAME_TOKENS * pooled, _FRAMES * (_FRAME_TOKENS + _FRAME_MARKS), most_steps=1),
        one_by_one=True,
        step_values=facts.layers * layer_input_width(language),
    )


def _vision4(section: Fields) -> Tower:
    tower = sized(section, _VISION_OF_4)
    return replace(tower, attention_width=tower.heads * size(section, "head_dim", default=64))


def _vision_weights(section: Fields, tower: Tower, hidden: int) -> Iterator[Weight]:
    head_dim = size(section, "head_dim", default=64)
    patch = size(section, "patch_size", default=16)
    table = size(section, "position_embedding_size", default=10240)
    yield from whole("vision_tower.patch_embedder.input_proj", tower.hidden, 3 * patch**2)
    yield from whole("vision_tower.position_embedding_table", 2 * table, tower.hidden)
    yield from tower_layers("vision_tower.encoder.layers", tower)
    for name in ("q_norm", "k_norm"):
        yield from layer_norm(f"vision_tower.encoder.layers.{name}", head_dim, bias=False, count=tower.layers)
    if section.flag("standardize", default=False):
        yield from layer_norm("vision_tower.standardize", tower.hidden)
    yield from whole("embed_vision.embedding_projection", hidden, tower.hidden)


def _audio4(section: Fields, hidden: int) -> Iterator[Weight]:
    """A Conformer: two MLPs around attention and a light convolution."""
    width = size(section, "hidden_size", default=1024)
    layers = size(section, "num_hidden_layers", default=12)
    kernel = size(section, "conv_kernel_size", default=5)
    heads = size(section, "num_attention_heads", default=8)
    first, second = _subsampling(section)
    prefix = "audio_tower.layers"
    yield from whole("audio_tower.subsample_conv_projection.layer0", first, 9)
    yield from layer_norm("audio_tower.subsample_conv_projection.layer0.norm", first, bias=False)
    yield from whole("audio_tower.subsample_conv_projection.layer1", second, 9 * first)
    yield from layer_norm("audio_tower.subsample_conv_projection.layer1.norm", second, bias=False)
    yield from whole("audio_tower.subsample_conv_projection.input_proj_linear", width, _MELS // 4 * second)
    for name in ("feed_forward1", "feed_forward2"):
        yield from whole(f"{prefix}.{name}.ffw_layer_1", 4 * width, width, count=layers)
        yield from whole(f"{prefix}.{name}.ffw_layer_2", width, 4 * width, count=layers)
    for name in ("q_proj", "k_proj", "v_proj", "post", "relative_k_proj"):
        yield from whole(f"{prefix}.self_attn.{name}", width, width, count=layers)
    yield from layer_norm(f"{prefix}.self_attn.per_dim_scale", width // heads, bias=False, count=layers)
    yield from whole(f"{prefix}.lconv1d.linear_start", 2 * width, width, count=layers)
    yield from whole(f"{prefix}.lconv1d.linear_end", width, width, count=layers)
    yield from whole(f"{prefix}.lconv1d.depthwise_conv1d", width, kernel, count=layers)
    for index in range(_AUDIO_NORMS):
        yield from layer_norm(f"{prefix}.norm_{index}", width, bias=False, count=layers)
    outputs = size(section, "output_proj_dims", default=1536)
    yield from whole("audio_tower.output_proj", outputs, width, bias=True)
    yield from whole("embed_audio.embedding_projection", hidden, outputs)


_MELS = 128
"""Mel bands. Source: ``Gemma4AudioFeatureExtractor`` in Transformers."""

_AUDIO_NORMS = 9
"""Two around each MLP, two around attention, two around the convolution, one behind the layer."""


def _subsampling(section: Fields) -> tuple[int, int]:
    key = "subsampling_conv_channels"
    first, second = section.integers(key, 2) if section.has(key) else (128, 32)
    return first, second


_MOBILENET_WEIGHTS = 294_126_912
"""``mobilenetv5_300m_enc``: the published counts of Gemma 3n E2B and E4B (5,439,438,272 and 7,849,978,192) minus all
other weights; both give the same number."""

_CONVOLUTIONS = 84
"""Blocks of the published MobileNet-V5; the activation law reads them as layers."""

_POSITIONS_OF_3N = 2_304
"""A square of 768 pixels at a sixteenth of its resolution."""

_IMAGE_TOKENS = 256
"""``vision_soft_tokens_per_image`` of Gemma3nConfig."""

_MELS_OF_3N = 128
_HEADS_OF_3N = 8


def gemma3n(fields: Fields, language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Both towers."""
    vision, audio = tower_section(fields, "vision_config"), tower_section(fields, "audio_config")
    hidden = size(vision, "hidden_size", default=2048)
    width = size(audio, "hidden_size", default=1536)
    weights = (
        *whole("vision_tower.timm_model", _MOBILENET_WEIGHTS, 1),
        *_embedder("embed_vision", size(vision, "vocab_size", default=128), hidden, facts.hidden),
        *_audio3n(audio, width),
        *_embedder("embed_audio", size(audio, "vocab_size", default=128), width, facts.hidden),
    )
    outputs = size(fields, "vision_soft_tokens_per_image", default=_IMAGE_TOKENS)
    values = facts.layers * layer_input_width(language)
    return EncoderFacts(weights, _CONVOLUTIONS, hidden, hidden, _POSITIONS_OF_3N, outputs, step_values=values)


def _embedder(prefix: str, tokens: int, width: int, hidden: int) -> Iterator[Weight]:
    yield from whole(f"{prefix}.embedding", tokens, width)
    yield from layer_norm(f"{prefix}.hard_embedding_norm", width, bias=False)
    yield from layer_norm(f"{prefix}.soft_embedding_norm", width, bias=False)
    yield from whole(f"{prefix}.embedding_projection", hidden, width)


def _audio3n(section: Fields, width: int) -> Iterator[Weight]:
    layers = size(section, "conf_num_hidden_layers", default=12)
    kernel = size(section, "conf_conv_kernel_size", default=5)
    heads = size(section, "conf_num_attention_heads", default=_HEADS_OF_3N)
    first, second = 128, 32
    prefix = "audio_tower.conformer"
    yield from whole("audio_tower.subsample_conv_projection.conv_0", first, 9)
    yield from layer_norm("audio_tower.subsample_conv_projection.conv_0.norm", first, bias=False)
    yield from whole("audio_tower.subsample_conv_projection.conv_1", second, 9 * first)
    yield from layer_norm("audio_tower.subsample_conv_projection.conv_1.norm", second, bias=False)
    bands = size(section, "input_feat_size", default=_MELS_OF_3N) // 4
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
