"""DeepSeek-V4.1's tower: patches of any image at its own size, merged three by three.

Sources: vLLM's ``models/deepseek_v4/common/vision.py`` and ``models/deepseek_v41/common/mm_preprocess.py``; defaults
from ``transformers_utils/configs/deepseek_v41.py``.
"""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.models.model import EncoderFacts, ModelFacts
from plimsoll.domain.models.precision import FP32
from plimsoll.facts.models.encoders.images import patches
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import Cut, Tower, down, layer_norm, sized, tower_facts, tower_layers, up
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.layers.linears import vector

_TOWER = Tower(
    hidden=1024,
    intermediate=2816,
    layers=0,
    heads=16,
    gated=True,
    mlp_bias=False,
    norm_bias=False,
    attention=Cut.BY_HEADS,
    mlp=Cut.BY_HEADS,
)
_MOST_TOKENS = 100_000
_ENDS = 2
"""Tokens before and after an image."""


def deepseek_v41(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """The tower, its aligner, and the three learned tokens in 32 bits. Ranks that cannot share heads hold all."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, _TOWER)
    merged = size(section, "downsample_ratio", default=3)
    weights = (
        *patches("vision", tower, size(section, "patch_size", default=14), bias=True),
        *tower_layers("vision.blocks", tower),
        *layer_norm("vision.norm", tower.hidden, bias=False),
        *up("aligner.w1", facts.hidden, merged * merged * tower.hidden, bias=True, units=tower.heads),
        *down("aligner.w2", facts.hidden, facts.hidden, bias=True, units=tower.heads),
        *(vector(f"image_{name}", facts.hidden, storage=FP32) for name in ("start", "end", "newline")),
    )
    most = min(size(section, "max_image_tokens", default=1024), _MOST_TOKENS)
    positions = _largest_grid(most) * merged * merged
    return replace(tower_facts(tower, weights, positions=positions, outputs=most), one_by_one=True)


def _largest_grid(tokens: int) -> int:
    """Return the most merged patches that an image of ``tokens`` tokens can have: each row has one extra token."""
    room = max(0, tokens - _ENDS)
    return max((rows * (room // rows - 1) for rows in range(1, room // 2 + 1)), default=0)
