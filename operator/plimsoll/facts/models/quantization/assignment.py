"""The scheme of each module of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.facts.models.quantization.formats import QuantizationScheme
from plimsoll.facts.models.quantization.module_list import MOST_PATTERNS, NO_MODULES, Module, ModuleList, module_list

Rule = tuple[ModuleList, QuantizationScheme | None]

MOST_RULES = 500
"""Most runs of modules with one scheme. A checkpoint that changes the format in every layer has some hundred."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Schemes by module, in the order in which the engine checks them.

    ``left`` are modules in 16 bits. ``rules`` are selected modules with their scheme (None: 16 bits); the first rule
    that covers a module counts. Then come the output projection, the routed experts and all other linear layers.
    ``headline`` is the scheme of most weights. Towers are quantized only if a rule names them. All published
    checkpoints agree with this; those that quantize "Linear" list their towers as exceptions under many names.
    """

    headline: QuantizationScheme
    left: ModuleList = NO_MODULES
    rules: tuple[Rule, ...] = ()
    head: QuantizationScheme | None = None
    experts: QuantizationScheme | None = None
    others: QuantizationScheme | None = None
    kv_precision: KvPrecision | None = None

    def scheme_of(self, module: Module) -> QuantizationScheme | None:
        """Return the scheme of one linear module; None for 16 bits.

        Raises:
            UnsupportedModel: a pattern is too complex to match.
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
    scheme: QuantizationScheme, left: ModuleList, *, head: bool = False, kv_precision: KvPrecision | None = None
) -> Assignment:
    """Return one scheme for all linear layers except those left out; ``head`` includes the output projection."""
    return Assignment(
        headline=scheme,
        left=left,
        head=scheme if head else None,
        experts=scheme,
        others=scheme,
        kv_precision=kv_precision,
    )


def ordered_rules(
    model: str, chosen: Iterable[tuple[str, QuantizationScheme | None]], *, all_patterns: bool = False
) -> tuple[Rule, ...]:
    """Return the rules in the checkpoint's order; merge neighbours with the same scheme.

    Raises:
        UnsupportedModel: an entry names nothing or is a pattern outside the supported subset.
    """
    runs = groupby(chosen, key=lambda entry: entry[1])
    return tuple((module_list(model, [name for name, _ in run], all_patterns=all_patterns), by) for by, run in runs)


def refuse_too_many(model: str, assignment: Assignment) -> None:
    """Limit the time that a checkpoint's lists take.

    Raises:
        UnsupportedModel: there are more rules or patterns than any real checkpoint has.
    """
    patterns = sum(len(modules.patterns) for modules, _ in assignment.rules)
    if len(assignment.rules) > MOST_RULES or patterns > MOST_PATTERNS:
        raise UnsupportedModel(model, f"more than {MOST_RULES} rules or {MOST_PATTERNS} patterns for single modules")


def most_weights(schemes: dict[QuantizationScheme, int]) -> QuantizationScheme:
    """Return the scheme with the largest share; of equal shares, the smaller format."""
    return max(schemes, key=lambda scheme: (schemes[scheme], -scheme.storage.bits))
