"""Which modules a quantized checkpoint leaves in 16 bits, read from its list of names, wildcards and patterns.

The patterns are classified, never run: a file from elsewhere must not choose how long a regular expression takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.fields import shown

_LAYER = re.compile(r"layers?\.(\d{1,5})(?!\d)")
_ATTENTION = ("self_attn", "self_attention", "attention", "attn")
_ATTENTION_PARTS = {
    "q_proj": "q",
    "k_proj": "k",
    "v_proj": "v",
    "o_proj": "o",
    "out_proj": "o",
    "dense": "o",
    "wo": "o",
    "qkv_proj": "qkv",
    "query_key_value": "qkv",
    "wqkv": "qkv",
}
_WHOLE = (frozenset({"*"}), frozenset({"q", "k", "v", "o"}), frozenset({"qkv", "o"}))
_NEVER_QUANTIZED = (
    "norm",
    "router",
    "embed",
    "wte",
    "wpe",
    "shared_expert_gate",
    "e_score_correction_bias",
    "vision",
    "visual",
    "multi_modal",
    "mtp",
)
"""Modules no method quantizes, or that no supported model has: listing them says nothing new."""

_MLP = ("mlp", "expert", "feed_forward", "block_sparse_moe", "gate_proj", "up_proj", "down_proj", "fc1", "fc2")


@dataclass(slots=True)
class _Left:
    lm_head: bool = False
    everywhere: set[str] = field(default_factory=set)
    by_layer: dict[int, set[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuantizedParts:
    """What of the model a checkpoint stores quantized."""

    attention: bool
    lm_head: bool


def quantized_parts(name: str, entries: Sequence[str], *, layers: int, lm_head: bool = False) -> QuantizedParts:
    """Classify the modules left out of quantization.

    Args:
        name: the model, for errors.
        entries: the checkpoint's list (``modules_to_not_convert``, ``ignore``, ``exclude_modules``).
        layers: layers of the model.
        lm_head: whether the method quantizes the output projection unless it is listed.

    Raises:
        UnsupportedModel: the list leaves out a part of the model that the facts cannot tell apart.
    """
    left = _Left()
    for entry in entries:
        _classify(name, entry, left)
    return QuantizedParts(attention=not _covers_attention(name, left, layers), lm_head=lm_head and not left.lm_head)


def _classify(name: str, entry: str, left: _Left) -> None:
    plain = _plain(entry)
    tokens = [token for token in re.split(r"[.*]+", plain) if token]
    if not tokens:
        raise UnsupportedModel(name, f"a checkpoint that leaves {shown(entry)} unquantized")
    last = tokens[-1]
    if "lm_head" in tokens or "output_layer" in tokens:
        left.lm_head = True
    elif last == "gate" or any(word in token for token in tokens for word in _NEVER_QUANTIZED):
        return
    elif last in _ATTENTION_PARTS or last in _ATTENTION:
        _leave_attention(plain, _ATTENTION_PARTS.get(last, "*"), left)
    elif any(word in token for token in tokens for word in _MLP):
        raise UnsupportedModel(name, f"a checkpoint that leaves some MLP layers unquantized ({shown(entry)})")
    else:
        raise UnsupportedModel(name, f"a checkpoint that leaves {shown(entry)} unquantized")


def _plain(entry: str) -> str:
    """Bring wildcards and regular expressions to one notation: names, dots, ``*``."""
    text = entry.removeprefix("re:").removeprefix("^").removesuffix("$")
    text = text.replace("\\.", ".").replace("\\d+", "*").replace("[0-9]+", "*").replace(".*", "*").replace("(", "")
    return text.replace(")", "").strip()


def _leave_attention(plain: str, part: str, left: _Left) -> None:
    layer = _LAYER.search(plain)
    if layer is None:
        left.everywhere.add(part)
    else:
        left.by_layer.setdefault(int(layer.group(1)), set()).add(part)


def _covers_attention(name: str, left: _Left, layers: int) -> bool:
    """Whether attention is left out in every layer; refused where it is in some."""
    if not left.everywhere and not left.by_layer:
        return False
    if all(_is_whole(left.everywhere | left.by_layer.get(layer, set())) for layer in range(layers)):
        return True
    raise UnsupportedModel(name, "a checkpoint that leaves some attention layers unquantized")


def _is_whole(parts: Iterable[str]) -> bool:
    return any(whole <= set(parts) for whole in _WHOLE)
