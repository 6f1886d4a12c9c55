"""The GPUs of one node, upright and next to each other: one path for each kind of part, however many GPUs there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plimsoll.console.drawing.bar import TERMS, BarScale, in_use
from plimsoll.console.views.figures import Figures
from plimsoll.console.views.rows import DeploymentRow
from plimsoll.domain.units import GIB

HULL_WIDTH = 16.0
GAP = 6.0
FOOT = 18.0
"""Room below the hulls for letters."""


@dataclass(frozen=True, slots=True)
class Held:
    """A pod on a node: its letter (empty for somebody else's), its GPUs, and its deployment in short.

    ``live`` is the used share of its KV cache (0 to 1); None if it is not known.
    """

    letter: str
    gpus: int
    row: DeploymentRow | None
    live: float | None = None


@dataclass(frozen=True, slots=True)
class Bracket:
    """A line below the GPUs of one pod, with its letter."""

    start: float
    length: float
    letter: str

    @property
    def middle(self) -> float:
        """Where the letter stands."""
        return self.start + self.length / 2


@dataclass(frozen=True, slots=True)
class Hulls:
    """The drawing of a node. ``paths`` has one path for each kind of part, by its CSS class.

    ``top`` is the memory of one GPU in whole GiB, which stands at the upper end of the axis.
    """

    width: float
    height: float
    paths: tuple[tuple[str, str], ...]
    brackets: tuple[Bracket, ...]
    sentence: str
    top: str = ""


def hulls_of(usable: int, gpus: int, held: Sequence[Held], scale: BarScale) -> Hulls:
    """Return the drawing of a node.

    Args:
        usable: bytes of one GPU.
        gpus: the number of GPUs that pods can take.
        held: the pods, in the order of the drawing. Kubernetes does not say which GPU a pod has: they stand in order.
        scale: the page's scale.
    """
    paths: dict[str, list[str]] = defaultdict(list)
    brackets: list[Bracket] = []
    at, tall = 0, scale.at(usable)
    for each in held:
        for index in range(at, at + each.gpus):
            _draw(paths, index, each, tall, scale)
        if each.letter:
            brackets.append(Bracket(_left(at), _left(at + each.gpus) - _left(at) - GAP, each.letter))
        at += each.gpus
    for index in range(at, gpus):
        paths["free"].append(_box(index, 0, tall, tall))
    shown = max(gpus, at)
    width = _left(shown)
    return Hulls(
        width,
        tall + FOOT,
        tuple((kind, "".join(parts)) for kind, parts in paths.items()),
        tuple(brackets),
        _words(gpus, held),
        f"{usable / GIB:.0f}",
    )


def _words(gpus: int, held: Sequence[Held]) -> str:
    ours = sum(each.gpus for each in held if each.letter)
    others = sum(each.gpus for each in held if not each.letter)
    return f"{gpus} GPUs: {ours} of deployments, {others} of other pods, {max(0, gpus - ours - others)} free"


def _left(index: int) -> float:
    return index * (HULL_WIDTH + GAP)


def _draw(paths: dict[str, list[str]], index: int, held: Held, tall: float, scale: BarScale) -> None:
    figures = None if held.row is None else held.row.figures
    if figures is None:
        paths["mine" if held.letter else "foreign"].append(_box(index, 0, tall, tall))
        return
    paths["hull"].append(_box(index, 0, tall, tall))
    for kind, start, end in _stretches(figures):
        low, high = scale.at(start), min(tall, scale.at(end))
        if high > low:
            paths[kind].append(_box(index, low, high, tall))
    line = scale.at(figures.budget)
    paths["line"].append(f"M{_left(index) - 2:g} {tall - line:g}h{HULL_WIDTH + 4:g}")
    if held.live is not None:
        used = scale.at(in_use(figures, held.live))
        paths["live"].append(f"M{_left(index):g} {tall - used:g}h{HULL_WIDTH:g}")


def _stretches(figures: Figures) -> Iterator[tuple[str, int, int]]:
    at = 0
    for kind, size in zip(TERMS, figures.terms, strict=True):
        yield kind, at, at + size
        at += size
    yield "band", figures.lower, figures.upper
    if figures.spare > 0:
        yield "spare", figures.upper, figures.budget
    if figures.spare < 0:
        yield "over", figures.budget, figures.upper


def _box(index: int, low: float, high: float, tall: float) -> str:
    return f"M{_left(index):g} {tall - high:g}h{HULL_WIDTH:g}v{high - low:g}h-{HULL_WIDTH:g}z"
