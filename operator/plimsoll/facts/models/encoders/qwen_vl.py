"""Qwen's vision towers, from Qwen2-VL to Qwen3.5: patches of two frames, merged two by two.

Sources: vLLM's ``qwen2_vl.py``, ``qwen2_5_vl.py``, ``exaone4_5.py`` and ``qwen3_vl.py``; defaults from the
configuration classes in Transformers. The largest image is what the families' ``preprocessor_config.json`` allow:
16,384 tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, VideoFacts, Weight
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import (
    BY_DEPTH,
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

_QWEN2_5 = Tower(hidden=1280, intermediate=3420, layers=32, heads=16, gated=True, norm_bias=False)
_QWEN3 = Tower(hidden=1152, intermediate=4304, layers=27, heads=16)

_MOST_TOKENS = 16_384
"""``max_pixels`` 12,845,056 over 28 x 28 pixels a token, or 16,777,216 over 32 x 32."""

_CHANNELS = 3

_MOST_STEPS = 7
"""Of a video of Qwen2-VL and Qwen2.5-VL: 14 frames, two a step, each step as large as the largest image (vLLM
``qwen2_vl.py``, ``_MAX_FRAMES_PER_VIDEO``; a 0.23 engine with 128,000 tokens of context logged 114,688)."""

_DEEPSTACK_VIDEO_TOKENS = 12_288
"""The largest video of Qwen3-VL and Qwen3.5: 25,165,824 pixels over 2 x 32 x 32 a token, whatever its length."""

_TIMESTAMPS = 12.5
"""Tokens that vLLM 0.11 and 0.12 counted for each of them (``qwen3_vl.py``, ``get_max_video_tokens``: 153,600)."""


def qwen2_vl(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Qwen2-VL: LayerNorm, a plain MLP."""
    section = tower_section(fields, "vision_config")
    hidden = size(section, "embed_dim", default=1280)
    tower = Tower(
        hidden=hidden,
        intermediate=int(hidden * section.number("mlp_ratio", default=4.0)),
        layers=size(section, "depth", default=32),
        heads=size(section, "num_heads", default=16),
    )
    # Here ``hidden_size`` is the language model's.
    outputs = size(section, "hidden_size", default=facts.hidden)
    merge = _merge(section)
    weights = (
        *_patches(section, hidden, patch=14, bias=False),
        *tower_layers("visual.blocks", tower),
        *_merger("visual.merger", hidden, hidden * merge, outputs),
    )
    return replace(_vision_facts(weights, tower, merge), video=_video_of_frames(merge))


def qwen2_5_vl(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Qwen2.5-VL: RMSNorm, a gated MLP, attention in windows; EXAONE 4.5's has fewer heads of keys and values."""
    section = tower_section(fields, "vision_config")
    named = sized(section, _QWEN2_5, BY_DEPTH)
    tower = replace(named, kv_heads=size(section, "num_key_value_heads", default=named.heads))
    merge = _merge(section)
    outputs = size(section, "out_hidden_size", default=facts.hidden)
    weights = (
        *_patches(section, tower.hidden, patch=14, bias=False),
        *tower_layers("visual.blocks", tower),
        *_merger("visual.merger", tower.hidden, tower.hidden * merge, outputs, norm_bias=False),
    )
    return replace(_vision_facts(weights, tower, merge), video=_video_of_frames(merge))


def qwen3_vl(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Qwen3-VL and Qwen3.5: learned positions, and one merger more for every layer of ``deepstack_visual_indexes``."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, _QWEN3, BY_DEPTH)
    merge = _merge(section)
    joined = tower.hidden * merge
    outputs = size(section, "out_hidden_size", default=facts.hidden)
    weights = [
        *_patches(section, tower.hidden, patch=16, bias=True),
        *whole("visual.pos_embed", size(section, "num_position_embeddings", default=2304), tower.hidden),
        *tower_layers("visual.blocks", tower),
        *_merger("visual.merger", tower.hidden, joined, outputs),
    ]
    levels = len(section.items("deepstack_visual_indexes"))
    for index in range(levels):
        weights += _merger(f"visual.deepstack_merger_list.{index}", joined, joined, outputs)
    stated = int(_DEEPSTACK_VIDEO_TOKENS * _TIMESTAMPS)
    video = VideoFacts(_DEEPSTACK_VIDEO_TOKENS * merge, _DEEPSTACK_VIDEO_TOKENS, most_steps=1, overstated_tokens=stated)
    seen = _vision_facts(tuple(weights), tower, merge)
    return replace(seen, video=video, deepstack_levels=levels, step_values=levels * facts.hidden)


def _vision_facts(weights: tuple[Weight, ...], tower: Tower, merge: int) -> EncoderFacts:
    return tower_facts(tower, weights, positions=_MOST_TOKENS * merge, outputs=_MOST_TOKENS)


def _video_of_frames(merge: int) -> VideoFacts:
    return VideoFacts(_MOST_TOKENS * merge, _MOST_TOKENS, most_steps=_MOST_STEPS)


def _merge(section: Fields) -> int:
    return size(section, "spatial_merge_size", default=2) ** 2


def _patches(section: Fields, hidden: int, *, patch: int, bias: bool) -> Iterator[Weight]:
    channels = size(section, "in_channels", "in_chans", default=_CHANNELS)
    frames = size(section, "temporal_patch_size", default=2)
    pixels = size(section, "patch_size", default=patch) ** 2
    yield from whole("visual.patch_embed", hidden, channels * frames * pixels, bias=bias)


def _merger(prefix: str, normed: int, joined: int, outputs: int, *, norm_bias: bool = True) -> Iterator[Weight]:
    yield from layer_norm(f"{prefix}.ln_q", normed, bias=norm_bias)
    yield from up(f"{prefix}.mlp.0", joined, joined, bias=True)
    yield from down(f"{prefix}.mlp.2", outputs, joined, bias=True)
