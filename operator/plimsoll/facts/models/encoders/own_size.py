"""Towers for images at their own size: Kimi's MoonViT, and those of MiniMax-M3, Muse Glimmer and DeepSeek-V4.1.

Sources: vLLM's ``kimi_vl.py``, ``moonvit.py``, ``kimi_k25.py``, ``kimi_k25_vit.py`` and ``models/kimi_k3``, with the
largest image from the families' ``preprocessor_config.json`` (``in_patch_limit`` 16,384, ``in_token_limit`` 4,096);
``models/minimax_m3/common/vision_tower.py``, with sizes of images from ``image_size``, the largest side;
``muse_glimmer.py``; ``models/deepseek_v4/common/vision.py`` and ``models/deepseek_v41/common/mm_preprocess.py``, with
defaults from ``transformers_utils/configs/deepseek_v41.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.encoders.images import patches
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
from plimsoll.facts.models.layers.parts import vector

_MOONVIT = Tower(hidden=1152, intermediate=4304, layers=27, heads=16)
_NAMES_OF_K25 = ("vt_hidden_size", "vt_intermediate_size", "vt_num_hidden_layers", "vt_num_attention_heads")
_PATCHES_OF_K25 = 16_384
_PATCHES_OF_VL = 4_096


def kimi_vl(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Kimi-VL."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, _MOONVIT)
    return _moonvit_facts(section, tower, facts, projector="multi_modal_projector", most=_PATCHES_OF_VL)


def kimi_k25(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Kimi K2.5 and K3: divided if the degree divides the heads, else whole. K3 has RMSNorm and no biases."""
    section = tower_section(fields, "vision_config")
    biased = section.text("norm_type") != "rmsnorm"
    named = sized(section, _MOONVIT, _NAMES_OF_K25).with_biases(present=biased)
    width = size(section, "qkv_hidden_size", default=named.hidden)
    tower = replace(named, attention_width=width, norm_bias=biased, attention=TowerCut.BY_HEADS, mlp=TowerCut.BY_HEADS)
    return _moonvit_facts(section, tower, facts, projector="mm_projector", most=_PATCHES_OF_K25, bias=biased)


def _moonvit_facts(
    section: Fields, tower: Tower, facts: ModelFacts, *, projector: str, most: int, bias: bool = True
) -> EncoderFacts:
    merged = _merged(section)
    weights = (
        *patches("vision_tower", tower, size(section, "patch_size", default=14), bias=bias),
        *_moonvit_positions(section, tower),
        *tower_layers("vision_tower.encoder.blocks", tower),
        *layer_norm("vision_tower.encoder.final_layernorm", tower.hidden, bias=bias),
        *_moonvit_projector(projector, tower.hidden, merged, facts.hidden, bias=bias),
    )
    return tower_facts(tower, weights, positions=most, outputs=most // merged)


_MOST_MERGED = 64
"""Patches that are merged along one edge. Published towers merge 2; the projector grows with the square."""


def _merged(section: Fields) -> int:
    kernel = section.items("merge_kernel_size") or (2, 2)
    product = 1
    for edge in kernel:
        if isinstance(edge, bool) or not isinstance(edge, int) or not 1 <= edge <= _MOST_MERGED:
            raise section.refuse("merge_kernel_size", f"List two whole numbers from 1 to {_MOST_MERGED}.")
        product *= edge
    return product


def _moonvit_positions(section: Fields, tower: Tower) -> Iterator[Weight]:
    rows = size(section, "init_pos_emb_height", default=64)
    columns = size(section, "init_pos_emb_width", default=64)
    yield from whole("vision_tower.position_embedding", rows * columns, tower.hidden)


def _moonvit_projector(prefix: str, hidden: int, merged: int, outputs: int, *, bias: bool) -> Iterator[Weight]:
    """With a LayerNorm in front, or, without biases, an RMSNorm behind (``patchmergerv2``)."""
    joined = hidden * merged
    yield from (
        layer_norm(f"{prefix}.pre_norm", hidden) if bias else layer_norm(f"{prefix}.post_norm", outputs, bias=False)
    )
    yield from whole(f"{prefix}.linear_1", joined, joined, bias=bias)
    yield from whole(f"{prefix}.linear_2", outputs, joined, bias=bias)


def minimax_m3(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """MiniMax-M3: CLIP's layers over patches of two frames, each projected, then merged two by two."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, Tower(hidden=1280, intermediate=5120, layers=32, heads=16))
    merging = tower_section(section, "img_token_compression_config")
    merge = size(merging, "spatial_merge_size", default=2) ** 2
    frames = size(merging, "temporal_patch_size", default=2)
    patch, width = size(section, "patch_size", default=14), size(fields, "projector_hidden_size", default=facts.hidden)
    biased = fields.flag("multimodal_projector_bias", default=True)
    weights = (
        *patches("vision_tower", tower, patch, bias=False, channels=frames * size(section, "num_channels", default=3)),
        *layer_norm("vision_tower.pre_layrnorm", tower.hidden),
        *tower_layers("vision_tower.encoder.layers", tower),
        *up("multi_modal_projector.linear_1", width, tower.hidden, bias=biased),
        *down("multi_modal_projector.linear_2", facts.hidden, width, bias=biased),
        *up("patch_merge_mlp.linear_1", width, merge * facts.hidden, bias=biased),
        *down("patch_merge_mlp.linear_2", facts.hidden, width, bias=biased),
    )
    positions = (size(section, "image_size", default=2016) // patch) ** 2
    return tower_facts(tower, weights, positions=positions, outputs=positions // merge)


_CHANNELS = 3
_MOST_MUSE_TOKENS = 4_096


def muse_glimmer(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Muse Glimmer: patches of two frames, attention in windows, an adapter and a projection.

    Every rank holds the MLP whole, and the attention, too, if the degree does not divide its heads. The largest
    image size is in the preprocessor's file, which is not read; this one is that of the other towers.
    """
    section = tower_section(fields, "vision_config")
    tower = sized(
        section,
        Tower(hidden=1536, intermediate=8960, layers=50, heads=16, attention=TowerCut.BY_HEADS, mlp=TowerCut.WHOLE),
    )
    positions = size(section, "pos_emb_height", default=32) * size(section, "pos_emb_width", default=32)
    patch, frames = size(section, "patch_size", default=14), size(section, "patch_temporal", default=2)
    merge = size(section, "merge_size", default=2) ** 2
    outputs = size(fields, "out_hidden_size", default=merge * tower.hidden)
    width = size(fields, "projector_hidden_size", default=4096)
    weights = (
        *whole("vision_encoder.positional_embedding", positions, tower.hidden),
        *whole("vision_encoder.conv1", tower.hidden, _CHANNELS * frames * patch * patch),
        *layer_norm("vision_encoder.ln_pre", tower.hidden),
        *tower_layers("vision_encoder.transformer", tower),
        *layer_norm("vision_encoder.ln_post", tower.hidden),
        *whole("vision_adapter.c_fc", width, outputs),
        *whole("vision_adapter.c_proj", width, width),
        *whole("vision_projection", facts.hidden, width),
    )
    return tower_facts(tower, weights, positions=_MOST_MUSE_TOKENS * merge, outputs=_MOST_MUSE_TOKENS)


_DEEPSEEK = Tower(
    hidden=1024,
    intermediate=2816,
    layers=0,
    heads=16,
    gated=True,
    mlp_bias=False,
    norm_bias=False,
    attention=TowerCut.BY_HEADS,
    mlp=TowerCut.BY_HEADS,
)
_MOST_DEEPSEEK_TOKENS = 100_000
_ENDS = 2
"""Tokens before and after an image."""


def deepseek_v41(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """DeepSeek-V4.1: patches merged three by three, an aligner, and three learned tokens in 32 bits.

    Ranks that cannot share heads hold all.
    """
    section = tower_section(fields, "vision_config")
    tower = sized(section, _DEEPSEEK)
    merged = size(section, "downsample_ratio", default=3)
    weights = (
        *patches("vision", tower, size(section, "patch_size", default=14), bias=True),
        *tower_layers("vision.blocks", tower),
        *layer_norm("vision.norm", tower.hidden, bias=False),
        *up("aligner.w1", facts.hidden, merged * merged * tower.hidden, bias=True, units=tower.heads),
        *down("aligner.w2", facts.hidden, facts.hidden, bias=True, units=tower.heads),
        *(vector(f"image_{name}", facts.hidden, storage=FP32) for name in ("start", "end", "newline")),
    )
    most = min(size(section, "max_image_tokens", default=1024), _MOST_DEEPSEEK_TOKENS)
    positions = _largest_grid(most) * merged * merged
    return replace(tower_facts(tower, weights, positions=positions, outputs=most), one_by_one=True)


def _largest_grid(tokens: int) -> int:
    """Return the most merged patches that an image of ``tokens`` tokens can have: each row has one extra token."""
    room = max(0, tokens - _ENDS)
    return max((rows * (room // rows - 1) for rows in range(1, room // 2 + 1)), default=0)
