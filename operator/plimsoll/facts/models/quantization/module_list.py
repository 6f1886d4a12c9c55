"""Lists of modules as checkpoints write them: names, wildcards, patterns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import shown
from plimsoll.facts.models.quantization.module_path import (
    LAYER_ROOTS,
    ROOTS,
    Module,
    Parts,
    one_spelling_of_pattern,
    parse_name,
)
from plimsoll.facts.models.quantization.patterns import (
    OutsideSubsetError,
    Pattern,
    TooComplexError,
    regular_expression,
    wildcard,
)

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
    """Return the pattern of an entry; None if the entry is a name."""
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
