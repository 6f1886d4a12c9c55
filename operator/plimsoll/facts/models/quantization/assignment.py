"""Which scheme each module of a checkpoint has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.precision import KvPrecision
from plimsoll.facts.models.quantization.formats import Scheme
from plimsoll.facts.models.quantization.module_list import MOST_PATTERNS, NO_MODULES, ModuleList, module_list
from plimsoll.facts.models.quantization.module_path import Module

Rule = tuple[ModuleList, Scheme | None]

MOST_RULES = 500
"""Runs of modules with one scheme. A checkpoint that changes format in every layer has some hundred."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Schemes by module, in the order in which the engine asks.

    ``left`` are modules in 16 bits; ``rules`` chosen modules with their scheme (None: 16 bits), the first that covers
    a module counts; then come the output projection, the routed experts and all other linear layers. ``headline`` is
    the scheme of most weights. Towers are quantized where a rule names them, not by default: no published checkpoint
    does it otherwise, and the ones that quantize "Linear" list their towers under many names.
    """

    headline: Scheme
    left: ModuleList = NO_MODULES
    rules: tuple[Rule, ...] = ()
    head: Scheme | None = None
    experts: Scheme | None = None
    others: Scheme | None = None
    kv_precision: KvPrecision | None = None

    def scheme_of(self, module: Module) -> Scheme | None:
        """The scheme of one linear module, None for 16 bits.

        Raises:
            UnsupportedModel: a pattern turns out too complex to match.
        """
        if self.left.covers(module):
            return None
        for modules, scheme in self.rules:
            if modules.covers(module):
                return scheme
        if module.is_tower:
            return None
        if module.is_head:
            return self.head
        return self.experts if module.is_expert else self.others


def uniform(
    scheme: Scheme, left: ModuleList, *, head: bool = False, kv_precision: KvPrecision | None = None
) -> Assignment:
    """One scheme for every linear layer but those left out; ``head`` tells whether the output projection is one."""
    return Assignment(
        headline=scheme,
        left=left,
        head=scheme if head else None,
        experts=scheme,
        others=scheme,
        kv_precision=kv_precision,
    )


def ordered_rules(
    model: str, chosen: Iterable[tuple[str, Scheme | None]], *, all_patterns: bool = False
) -> tuple[Rule, ...]:
    """Rules in the order in which the checkpoint gives them, neighbours with the same scheme as one.

    Raises:
        UnsupportedModel: an entry names nothing or is a pattern outside the translated subset.
    """
    runs = groupby(chosen, key=lambda entry: entry[1])
    return tuple((module_list(model, [name for name, _ in run], all_patterns=all_patterns), by) for by, run in runs)


def refuse_too_many(model: str, assignment: Assignment) -> None:
    """Keep the time that a checkpoint's lists take within bounds.

    Raises:
        UnsupportedModel: there are more rules or patterns than anybody writes.
    """
    patterns = sum(len(modules.patterns) for modules, _ in assignment.rules)
    if len(assignment.rules) > MOST_RULES or patterns > MOST_PATTERNS:
        raise UnsupportedModel(model, f"more than {MOST_RULES} rules or {MOST_PATTERNS} patterns for single modules")


def most_weights(schemes: dict[Scheme, int]) -> Scheme:
    """The scheme with the greatest share; between equals the smaller format."""
    return max(schemes, key=lambda scheme: (schemes[scheme], -scheme.storage.bits))
