"""The hull of one GPU: terms, error band, spare room, load line, and what is beyond it.

Bytes to picture units: one scale for all GPUs of a page, so that lengths can be compared.

One strip for all GPUs of a type: those of deployments, those of others, and the free ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from plimsoll.console.views.figures import Figures
from plimsoll.console.views.words import gib
from plimsoll.domain.units import GIB

_STEPS = (1, 2, 4, 8, 16, 32, 64, 128)
_MOST_TICKS = 7


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on a scale, with its words."""

    at: float
    words: str


def ticks_of(whole: float, steps: Sequence[int], most: int, at: Callable[[int], float]) -> tuple[Tick, ...]:
    """Return marks at round numbers up to ``whole``: at most so many of them, in the smallest of the steps."""
    step = next((each for each in steps if whole / each <= most), steps[-1])
    return tuple(Tick(at(each), f"{each}") for each in range(0, int(whole) + 1, step))


@dataclass(frozen=True, slots=True)
class BarScale:
    """``length`` picture units stand for ``most`` bytes."""

    most: int
    length: float

    def at(self, size: float) -> float:
        """Return the place of a size, at most the whole length."""
        return round(min(self.length, max(0.0, size / self.most * self.length)), 2) if self.most else 0.0

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Marks at round numbers of GiB."""
        return ticks_of(self.most / GIB, _STEPS, _MOST_TICKS, lambda each: self.at(each * GIB))


def common_scale(sizes: Iterable[int], length: float) -> BarScale:
    """Return the scale on which the largest of the sizes has the whole length."""
    return BarScale(max(sizes, default=0), length)


TERMS = ("weights", "kv", "activations", "other")


@dataclass(frozen=True, slots=True)
class BarPart:
    """A stretch of a hull, from ``start`` over ``length``, in picture units. ``kind`` is its CSS class."""

    kind: str
    start: float
    length: float
    words: str = ""

    @property
    def end(self) -> float:
        """Where it ends."""
        return round(self.start + self.length, 2)


@dataclass(frozen=True, slots=True)
class Label:
    """Words at a place; ``anchor`` is the end of the text that stands there, as in SVG."""

    at: float
    anchor: str
    words: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A hull on a scale, in picture units along its axis.

    ``hull`` is the length of the GPU's memory. ``parts`` are the terms and the spare room, in order. ``band`` is the
    error band. ``over`` is what is beyond the load line, at most up to the end of the scale. ``live`` is the KV cache
    in use; None if it is not known. ``need`` and ``line_label`` are for a large drawing. ``sentence`` says
    everything in words.
    """

    hull: float
    parts: tuple[BarPart, ...]
    band: BarPart
    line: float
    over: BarPart | None
    live: BarPart | None
    sentence: str
    need: Label
    line_label: Label
    ticks: tuple[Tick, ...] = ()

    def label_at(self, part: BarPart) -> float | None:
        """Return where the words of a part stand in the large drawing; None if they have no room.

        The disc of the load line lies over a part that goes beyond the line.
        """
        end = self.line - DISC_ARM if part.start < self.line < part.end else part.end
        return part.start + (end - part.start) / 2 if end - part.start > WIDTH_OF_TERM else None


def bar_of(figures: Figures, scale: BarScale, live: float | None = None) -> Bar:
    """Return the drawing of one GPU.

    Args:
        figures: the need and the room, in bytes.
        scale: the page's scale.
        live: the used share of the KV cache (0 to 1); None if it is not known.
    """
    return Bar(
        hull=scale.at(figures.usable),
        parts=tuple(_parts(figures, scale)),
        band=_stretch("band", figures.lower, figures.upper, scale),
        line=scale.at(figures.budget),
        over=_over(figures, scale),
        live=None if live is None else _live(figures, scale, live),
        sentence=sentence_of(figures, live),
        need=_need(figures, scale),
        line_label=_line_label(figures, scale),
        ticks=scale.ticks,
    )


DISC_ARM = 14.0
"""Half the width of the load line's disc, with its arms."""

WIDTH_OF_TERM = 78.0
"""Picture units that the words of a term take."""

WIDTH_OF_NEED = 215.0
"""Picture units that the longest label of a need takes, as drawn in the large bar."""


def _need(figures: Figures, scale: BarScale) -> Label:
    """Return the need in words, on the side of its end if the load line does not cross it."""
    words = f"needs {_between(figures)} GiB"
    if figures.spare < 0:
        words = f"{words}, {gib(-figures.spare)} over"
    end = min(scale.at(figures.upper), scale.at(figures.budget) - LABEL_GAP)
    return Label(end, "end", words) if end >= WIDTH_OF_NEED else Label(_start_of_label(figures, scale), "start", words)


LABEL_GAP = 6.0


def _start_of_label(figures: Figures, scale: BarScale) -> float:
    """Return where a label begins that has no room before the end of the need: before the load line, or after it."""
    start, line = scale.at(figures.lower), scale.at(figures.budget)
    return start if start + WIDTH_OF_NEED < line else line + LABEL_GAP


def _between(figures: Figures) -> str:
    low, high = gib(figures.lower), gib(figures.upper)
    return high if low == high else f"{low} to {high}"


def _line_label(figures: Figures, scale: BarScale) -> Label:
    at = scale.at(figures.budget)
    words = f"load line {gib(figures.budget)} GiB"
    return Label(at, "end", words) if at > scale.length / 2 else Label(at, "start", words)


def _parts(figures: Figures, scale: BarScale) -> Iterator[BarPart]:
    start = 0
    for kind, size in zip(TERMS, figures.terms, strict=True):
        yield _stretch(kind, start, start + size, scale, gib(size))
        start += size
    if figures.spare > 0:
        yield _stretch("spare", figures.upper, figures.budget, scale, gib(figures.spare))


def _stretch(kind: str, start: float, end: float, scale: BarScale, words: str = "") -> BarPart:
    first, last = scale.at(start), scale.at(end)
    return BarPart(kind, first, round(max(0.0, last - first), 2), words)


def _over(figures: Figures, scale: BarScale) -> BarPart | None:
    if figures.upper <= figures.budget:
        return None
    return _stretch("over", figures.budget, figures.upper, scale, gib(figures.upper - figures.budget))


def _live(figures: Figures, scale: BarScale, share: float) -> BarPart:
    """Return the KV cache in use, from the end of the weights."""
    return _stretch(
        "live", figures.weights, in_use(figures, share), scale, f"{100 * share:.0f} % of the KV cache in use"
    )


def in_use(figures: Figures, share: float) -> float:
    """Return the bytes up to which weights and the used share of the KV cache reach.

    The engine takes all room between its other terms and the line for its cache.
    """
    pool = max(0, figures.budget - (figures.expected - figures.kv_cache))
    return figures.weights + pool * min(1.0, max(0.0, share))


def sentence_of(figures: Figures, live: float | None = None) -> str:
    """Return the drawing in words."""
    terms = (
        f"weights {gib(figures.weights)}, KV cache {gib(figures.kv_cache)}, "
        f"activations {gib(figures.activations)}, graphs and overhead {gib(figures.other)}"
    )
    need = f"needs {gib(figures.lower)} to {gib(figures.upper)} GiB ({terms})"
    line = f"load line at {gib(figures.budget)} of {gib(figures.usable)} GiB"
    rest = f"{gib(figures.spare)} GiB spare" if figures.spare >= 0 else f"{gib(-figures.spare)} GiB over the line"
    used = "" if live is None else f"; {100 * live:.0f} % of the KV cache in use"
    return f"{need}; {line}; {rest}{used}"


PERCENT = 100.0
"""The length of the scale of drawings that are as wide as their place: their units are percent of it."""


@dataclass(frozen=True, slots=True)
class DrawnMemory:
    """The memory of one GPU twice: a large drawing with words, and a bar without for narrow screens."""

    large: Bar
    small: Bar


def drawn_memory(figures: Figures, length: float, live: float | None = None) -> DrawnMemory:
    """Return the drawings of one GPU alone, the large one on a scale of this length.

    ``live`` is the used share of the KV cache (0 to 1); None if it is not known.
    """
    sizes = (figures.usable, figures.upper)
    return DrawnMemory(
        bar_of(figures, common_scale(sizes, length), live), bar_of(figures, common_scale(sizes, PERCENT), live)
    )


@dataclass(frozen=True, slots=True)
class BarStrip:
    """Lengths in percent of the drawing's width, in the order of the drawing, and everything in words."""

    ours: float
    others: float
    free: float
    sentence: str


def strip_of(ours: int, others: int, free: int, most: int, sentence: str) -> BarStrip:
    """Return the strip on a scale on which ``most`` GPUs have the whole length."""

    def length(gpus: int) -> float:
        return round(gpus / most * PERCENT, 2) if most else 0.0

    return BarStrip(length(ours), length(others), length(free), sentence)
