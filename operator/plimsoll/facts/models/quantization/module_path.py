"""Convert names of modules to one spelling: checkpoints and engines have different roots for the same layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

HEAD = "lm_head"
"""The output projection."""

_ROOTS = frozenset({"model", "language_model", "transformer", "decoder", "backbone", "text_model", "llm", "thinker"})
"""Modules around the language model's layers; any other name before them is a tower or a predictor."""

_LAYERS = frozenset({"layers", "layer", "h", "blocks"})
_PREDICTORS = frozenset({"mtp", "nextn"})
_EXPERTS = "experts"
_FIRST_EXPERT = "0"
_LONGEST_NUMBER = 6

_SPELLINGS = {
    "attn": "self_attn",
    "attention": "self_attn",
    "self_attention": "self_attn",
    "ffn": "mlp",
    "feed_forward": "mlp",
    "block_sparse_moe": "mlp",
    "shared_experts": "shared_expert",
    "share_expert": "shared_expert",
    "w1": "gate_proj",
    "w2": "down_proj",
    "w3": "up_proj",
}
"""One spelling for modules that the published classes name differently."""

_SPELLED = re.compile(rf"(?:(?<=[.(|])|^)({'|'.join(_SPELLINGS)})(?=[.\\)|*$]|$)")

_AFTER_ANYTHING = re.compile(r"(?<=\*)(ffn|feed_forward|block_sparse_moe|share_expert)(?=[.\\)|*$]|$)")
"""Those names that have one meaning after any beginning of a name. ``.*attn`` has not: it may be linear attention."""

_FUSED = {
    "q_proj": ("qkv_proj", "query_key_value", "Wqkv"),
    "k_proj": ("qkv_proj", "query_key_value", "Wqkv"),
    "v_proj": ("qkv_proj", "query_key_value", "Wqkv"),
    "gate_proj": ("gate_up_proj",),
    "up_proj": ("gate_up_proj",),
    "q_a_proj": ("fused_qkv_a_proj",),
    "kv_a_proj_with_mqa": ("fused_qkv_a_proj",),
    "in_proj_qkv": ("in_proj_qkvz",),
    "in_proj_z": ("in_proj_qkvz",),
    "in_proj_qkvz": ("in_proj_qkv",),
    "in_proj_b": ("in_proj_ba",),
    "in_proj_a": ("in_proj_ba",),
    "in_proj_ba": ("in_proj_b",),
}
"""Names that a list may use for a projection that is fused in the engine or in the facts."""

LAYER_ROOTS = (
    "model.layers.",
    "layers.",
    "model.language_model.layers.",
    "language_model.model.layers.",
    "language_model.layers.",
    "transformer.h.",
    "transformer.blocks.",
    "backbone.layers.",
    "model.decoder.layers.",
)
"""Names that may come before the number of a layer."""

ROOTS = ("", "model.", "language_model.")
"""Prefixes that a module outside the layers may have."""

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """One linear module of the model: its layer, and its name below the layer (or from the root) in parts."""

    layer: int | None
    parts: Parts

    @property
    def is_head(self) -> bool:
        """Whether it is the output projection."""
        return self.layer is None and self.parts[:1] == (HEAD,)

    @property
    def is_expert(self) -> bool:
        """Whether it belongs to the routed experts."""
        return _EXPERTS in self.parts

    @property
    def is_tower(self) -> bool:
        """Whether it lies outside the language model: vision, audio, projectors."""
        return self.layer is None and not self.is_head and not _PREDICTORS.intersection(self.parts[:1])

    def spellings(self) -> tuple[Parts, ...]:
        """Its own name, and those of the fused modules it becomes a part of."""
        last = self.parts[-1]
        return (self.parts, *((*self.parts[:-1], fused) for fused in _FUSED.get(last, ())))

    def texts(self) -> tuple[str, ...]:
        """Its names as a pattern sees them behind one of the roots."""
        number = "" if self.layer is None else f"{self.layer}."
        return tuple(number + ".".join(parts) for parts in self.spellings())


def module_of(layer: int | None, name: str) -> Module:
    """The module of a weight: ``layer`` None where ``name`` is from the root."""
    if layer is None:
        return parse_name(name)
    return Module(layer, _one_spelling(name.split(".")))


def parse_name(name: str) -> Module:
    """A module by its full name in a checkpoint."""
    parts = name.strip().removesuffix(".weight").split(".")
    start = 0
    while start < len(parts) and parts[start] in _ROOTS:
        start += 1
    inner = parts[start:]
    if len(inner) > 1 and inner[0] in _LAYERS and is_number(inner[1]):
        return Module(int(inner[1]), _one_spelling(inner[2:]))
    return Module(None, _one_spelling(inner))


def is_number(text: str) -> bool:
    """Whether it numbers a layer or an expert."""
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER


def one_spelling_of_pattern(pattern: str) -> str:
    """Convert a pattern to one spelling: replace whole names between dots and keep the rest."""
    respelled = _SPELLED.sub(lambda found: _SPELLINGS[found.group(1)], pattern)
    respelled = _AFTER_ANYTHING.sub(lambda found: _SPELLINGS[found.group(1)], respelled)
    return respelled.replace("shared_experts", "shared_expert")


def _one_spelling(parts: Sequence[str]) -> Parts:
    """Convert the parts of a name to one spelling. All experts have one form, so each gets the number of the first."""
    spelled = [_SPELLINGS.get(part, part) for part in parts]
    if _EXPERTS in spelled:
        after = spelled.index(_EXPERTS) + 1
        if len(spelled) > after:
            rest = spelled[after + 1 :] if is_number(spelled[after]) else spelled[after:]
            spelled = [*spelled[:after], _FIRST_EXPERT, *rest]
    return tuple(spelled)
