"""Modules as checkpoints list them: names, wildcards, patterns, in one spelling.

Checkpoints and engines have different roots and names for the same layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import shown
from plimsoll.facts.models.quantization.patterns import (
    OutsideSubsetError,
    Pattern,
    TooComplexError,
    regular_expression,
    wildcard,
)

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
    """The module of a weight: ``layer`` None if ``name`` is from the root."""
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


REGULAR_EXPRESSION = "re:"
"""Prefix of a regular expression in compressed-tensors' and Quark's lists."""

MOST_PATTERNS = 32
"""Most patterns in one list. Published lists have up to six."""

MOST_NAMES = 500_000
"""Most names in one list: enough for every projection of every expert of the largest published models."""

_WILDCARDS = "*?["


@dataclass(frozen=True, slots=True)
class ModulePattern:
    """One pattern of a list: the part that remains after every root, within the layers and outside them."""

    text: str
    in_layers: tuple[Pattern, ...]
    outside: tuple[Pattern, ...]

    def matches(self, module: Module) -> bool:
        """Whether it matches the module under any root."""
        left = self.outside if module.layer is None else self.in_layers
        return any(pattern.matches(text) for pattern in left for text in module.texts())


@dataclass(frozen=True, slots=True)
class ModuleList:
    """Modules by name or pattern; a name includes everything below it.

    ``by_layer`` are names within one layer, ``anywhere`` are names without a layer number before them.
    """

    by_layer: frozenset[tuple[int, Parts]] = frozenset()
    anywhere: frozenset[Parts] = frozenset()
    patterns: tuple[ModulePattern, ...] = ()
    model: str = ""

    def covers(self, module: Module) -> bool:
        """Whether the list has the module, or a module that contains it.

        Raises:
            UnsupportedModel: a pattern is too complex to match.
        """
        if not self.by_layer and not self.anywhere and not self.patterns:
            return False
        if any(self._names(module.layer, parts) for parts in module.spellings()):
            return True
        return any(self._matches(pattern, module) for pattern in self.patterns)

    def _names(self, layer: int | None, parts: Parts) -> bool:
        ends = range(len(parts) + 1)
        if layer is not None and any((layer, parts[:end]) in self.by_layer for end in ends):
            return True
        return any(parts[start:end] in self.anywhere for start in ends for end in range(start + 1, len(parts) + 1))

    def _matches(self, pattern: ModulePattern, module: Module) -> bool:
        try:
            return pattern.matches(module)
        except TooComplexError:
            raise UnsupportedModel(self.model, _outside(pattern.text)) from None


NO_MODULES = ModuleList()
"""The empty list."""


def module_list(model: str, entries: Iterable[str], *, all_patterns: bool = False) -> ModuleList:
    """Read a list.

    Args:
        model: the model, for errors.
        entries: names, shell wildcards, and regular expressions behind ``re:``.
        all_patterns: whether every entry is a regular expression, without the prefix.

    Raises:
        UnsupportedModel: an entry names nothing, is a pattern outside the translated subset, or there are too many.
    """
    by_layer: set[tuple[int, Parts]] = set()
    anywhere: set[Parts] = set()
    patterns: list[ModulePattern] = []
    for count, entry in enumerate(entries):
        pattern = _pattern(model, entry, all_patterns=all_patterns)
        if pattern is not None:
            patterns.append(pattern)
        else:
            module = _named(model, entry)
            if module.layer is None:
                anywhere.add(module.parts)
            else:
                by_layer.add((module.layer, module.parts))
        if len(patterns) > MOST_PATTERNS or count > MOST_NAMES:
            raise UnsupportedModel(model, f"more than {MOST_PATTERNS} patterns or {MOST_NAMES} names of modules")
    return ModuleList(frozenset(by_layer), frozenset(anywhere), tuple(patterns), model)


def _pattern(model: str, entry: str, *, all_patterns: bool) -> ModulePattern | None:
    try:
        pattern = _compiled(entry, all_patterns=all_patterns)
        return None if pattern is None else ModulePattern(entry, pattern.after(LAYER_ROOTS), pattern.after(ROOTS))
    except (OutsideSubsetError, TooComplexError):
        raise UnsupportedModel(model, _outside(entry)) from None


def _compiled(entry: str, *, all_patterns: bool) -> Pattern | None:
    if all_patterns or entry.startswith(REGULAR_EXPRESSION):
        return regular_expression(one_spelling_of_pattern(entry.removeprefix(REGULAR_EXPRESSION)))
    if any(character in _subtree(entry) for character in _WILDCARDS):
        return wildcard(one_spelling_of_pattern(entry))
    return None


def _subtree(entry: str) -> str:
    """Return the name without ``*`` or ``.*``: ``name*`` and ``name.*`` mean the module and everything below it.

    vLLM rewrites the first into both (``modelopt.py``, ``apply_vllm_mapper``), so layer 1 does not include layer 10.
    """
    return entry.removesuffix("*").removesuffix(".")


def _named(model: str, entry: str) -> Module:
    name = _subtree(entry)
    if not name.strip() or not all(name.split(".")):
        raise UnsupportedModel(model, f"a checkpoint that leaves {shown(entry)!r} unquantized")
    module = parse_name(name)
    if not module.parts and module.layer is None:
        raise UnsupportedModel(model, f"a checkpoint that leaves {shown(entry)!r} unquantized")
    return module


def _outside(entry: str) -> str:
    return f"the pattern {shown(entry)!r} in the list of unquantized or chosen modules"
