"""MoonViT: Kimi-VL, Kimi K2.5 and Kimi K3.

Sources: vLLM's ``kimi_vl.py``, ``moonvit.py``, ``kimi_k25.py``, ``kimi_k25_vit.py`` and ``models/kimi_k3``; the largest
image from the families' ``preprocessor_config.json`` (``in_patch_limit`` 16,384, ``in_token_limit`` 4,096).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll.domain.models.model import EncoderFacts, ModelFacts, Weight
from plimsoll.facts.models.encoders.images import patches
from plimsoll.facts.models.encoders.sections import size, tower_section
from plimsoll.facts.models.encoders.towers import Cut, Tower, layer_norm, sized, tower_facts, tower_layers, whole
from plimsoll.facts.models.fields import Fields

_MOONVIT = Tower(hidden=1152, intermediate=4304, layers=27, heads=16)
_NAMES_OF_K25 = ("vt_hidden_size", "vt_intermediate_size", "vt_num_hidden_layers", "vt_num_attention_heads")
_PATCHES_OF_K25 = 16_384
_PATCHES_OF_VL = 4_096


def kimi_vl(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Kimi-VL."""
    section = tower_section(fields, "vision_config")
    tower = sized(section, _MOONVIT)
    return _facts(section, tower, facts, projector="multi_modal_projector", most=_PATCHES_OF_VL)


def kimi_k25(fields: Fields, _language: Fields, facts: ModelFacts) -> EncoderFacts:
    """Kimi K2.5 and K3: divided where the degree divides the heads, else whole. K3 has RMSNorm and no biases."""
    section = tower_section(fields, "vision_config")
    biased = section.text("norm_type") != "rmsnorm"
    named = sized(section, _MOONVIT, _NAMES_OF_K25).with_biases(present=biased)
    width = size(section, "qkv_hidden_size", default=named.hidden)
    tower = replace(named, attention_width=width, norm_bias=biased, attention=Cut.BY_HEADS, mlp=Cut.BY_HEADS)
    return _facts(section, tower, facts, projector="mm_projector", most=_PATCHES_OF_K25, bias=biased)


def _facts(
    section: Fields, tower: Tower, facts: ModelFacts, *, projector: str, most: int, bias: bool = True
) -> EncoderFacts:
    merged = _merged(section)
    weights = (
        *patches("vision_tower", tower, size(section, "patch_size", default=14), bias=bias),
        *_positions(section, tower),
        *tower_layers("vision_tower.encoder.blocks", tower),
        *layer_norm("vision_tower.encoder.final_layernorm", tower.hidden, bias=bias),
        *_projector(projector, tower.hidden, merged, facts.hidden, bias=bias),
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


def _positions(section: Fields, tower: Tower) -> Iterator[Weight]:
    rows = size(section, "init_pos_emb_height", default=64)
    columns = size(section, "init_pos_emb_width", default=64)
    yield from whole("vision_tower.position_embedding", rows * columns, tower.hidden)


def _projector(prefix: str, hidden: int, merged: int, outputs: int, *, bias: bool) -> Iterator[Weight]:
    """With a LayerNorm in front, or, without biases, an RMSNorm behind (``patchmergerv2``)."""
    joined = hidden * merged
    yield from (
        layer_norm(f"{prefix}.pre_norm", hidden) if bias else layer_norm(f"{prefix}.post_norm", outputs, bias=False)
    )
    yield from whole(f"{prefix}.linear_1", joined, joined, bias=bias)
    yield from whole(f"{prefix}.linear_2", outputs, joined, bias=bias)
