"""The segments of a bar: one for each term of the estimate, and one for the margin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from string import ascii_letters
from typing import NamedTuple

from plimsoll.domain.decisions.outcomes import MemoryEstimate
from plimsoll.domain.decisions.terms import ACTIVATIONS, ADAPTERS, CUDA_GRAPHS, KV_CACHE, OVERHEAD, WEIGHTS, TermName

MARGIN = TermName("margin", "margin")
"""The upper half of the error band. It is no term of the estimate, but it has a segment."""


class SegmentStyle(NamedTuple):
    """The letter and the colour of one segment. The letter makes a bar readable without colours too."""

    letter: str
    colour: str


class Segment(NamedTuple):
    """One segment of a bar."""

    name: TermName
    size_bytes: int
    look: SegmentStyle


_LOOKS = {
    WEIGHTS: SegmentStyle("W", "blue"),
    ADAPTERS: SegmentStyle("L", "magenta"),
    KV_CACHE: SegmentStyle("K", "green"),
    ACTIVATIONS: SegmentStyle("A", "yellow"),
    CUDA_GRAPHS: SegmentStyle("G", "cyan"),
    OVERHEAD: SegmentStyle("O", "white"),
    MARGIN: SegmentStyle("m", "bright_black"),
}
"""The usual segments, which the legend always names. A term without a row gets the first free letter of its title."""

_OTHER_COLOUR = "red"


def segments(figures: MemoryEstimate) -> tuple[Segment, ...]:
    """Return the segments of one estimate in the engine's order; the margin is the last."""
    sizes = [(term.name, term.size_bytes) for term in figures.terms]
    sizes.append((MARGIN, figures.margin_bytes))
    looks = _looks(name for name, _ in sizes)
    return tuple(Segment(name, size, looks[name]) for name, size in sizes)


def legend(estimates: Iterable[MemoryEstimate]) -> str:
    """Return the letters with their meaning: of the usual segments, and of others if one of the bars shows them."""
    shown = {name: look.letter for name, look in _LOOKS.items() if name != MARGIN}
    for figures in estimates:
        shown |= {each.name: each.look.letter for each in segments(figures) if each.size_bytes and each.name != MARGIN}
    shown[MARGIN] = _LOOKS[MARGIN].letter
    return ", ".join(f"{letter} {name.title}" for name, letter in shown.items())


def _looks(names: Iterable[TermName]) -> dict[TermName, SegmentStyle]:
    looks = dict(_LOOKS)
    for name in names:
        if name not in looks:
            taken = {look.letter for look in looks.values()}
            looks[name] = SegmentStyle(next(letter for letter in _letters(name) if letter not in taken), _OTHER_COLOUR)
    return looks


def _letters(name: TermName) -> Iterator[str]:
    yield from (letter.upper() for letter in name.title if letter.isalpha())
    yield from ascii_letters
