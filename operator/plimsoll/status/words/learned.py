"""Sentences about corrections: what engines have taught about the memory of their kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from plimsoll.domain.decisions.observations import Correction, Observation
from plimsoll.domain.decisions.terms import Teacher
from plimsoll.domain.units import GIB, counted
from plimsoll.placement.explain import place_words

_LEAST_SHOWN = GIB // 200
"""Bytes of a term that are named: 0.00 GiB is no figure."""

_MOST_NAMES = 4
"""The most sources that one sentence names; more are counted instead."""


class Source(NamedTuple):
    """An observation, the name of its object or file, and whether it is of the same object as the estimate."""

    where: str
    observation: Observation
    is_own: bool = False


def sources_of(correction: Correction, all_sources: Iterable[Source]) -> list[str]:
    """Return the name of the source of each engine that counts for a correction.

    A failure without a figure counts only if no engine was measured, and own measurements outweigh those of others.
    """
    same = [each for each in all_sources if each.observation.kind == correction.kind]
    if correction.exact:
        same = [each for each in same if each.observation.available_kv_bytes is not None]
    own = [each for each in same if each.is_own and correction.exact]
    return [each.where for each in own or same]


def correction_words(correction: Correction) -> str:
    """Return a correction as a sentence without its end: the sum, and each term; all of one GPU."""
    if not correction.exact:
        return "an engine ran out of memory and gave no figure, so the upper half of the band is wider"
    terms = (
        ("weights", correction.weights_bytes),
        ("activations", correction.activations_bytes),
        ("no single term", correction.rest_bytes),
    )
    parts = ", ".join(f"{name} {size / GIB:+.2f}" for name, size in terms if abs(size) >= _LEAST_SHOWN)
    more = "more" if correction.total_bytes >= 0 else "less"
    figure = f"{abs(correction.total_bytes) / GIB:.2f} GiB {more} than the memory law says"
    return f"the engine takes {figure} ({parts or 'each term is as predicted'}){_spread(correction)}"


def learned_sentence(correction: Correction, sources: Iterable[str]) -> str:
    """Return the sentence about one correction and the engines that taught it, of which each has one source."""
    each, kind = list(sources), correction.kind
    engines = counted(len(each), "engine")
    where = place_words(kind.gpu_type, kind.split)
    limit = "" if correction.taught_by.is_own or not correction.exact else "; up to twice the error band of that counts"
    return f"Learned on {where} from {engines} ({_names(each)}): {correction_words(correction)}{limit}."


def teacher_words(teacher: Teacher) -> str:
    """Return whose engines taught something, as a few words. Deployments of other namespaces are not named."""
    if teacher.is_own:
        return "this deployment"
    return _names(teacher.names) if teacher.names else counted(teacher.namespaces, "other namespace")


def _spread(correction: Correction) -> str:
    """Say how far apart several engines are; empty for one."""
    if not correction.above_bytes and not correction.below_bytes:
        return ""
    low, high = (f"{size / GIB:.2f}" for size in (correction.below_bytes, correction.above_bytes))
    return f"; others take up to {low} GiB less and {high} GiB more"


def _names(sources: Iterable[str]) -> str:
    names = list(dict.fromkeys(sources))
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
