"""The details of one GPU type: its terms, its sentences, and every formula with its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.cli.answered import Answered
from plimsoll.cli.segments import segments
from plimsoll.cli.sentences import costs, remedy_lines, sentences
from plimsoll.cli.steps import Step, steps
from plimsoll.cli.verdict import warnings_of
from plimsoll.console.drawing.bar import Bar, bar_of
from plimsoll.console.views.calculator.rows import scale_of
from plimsoll.console.views.figures import figures_of_estimate
from plimsoll.domain.outcomes import MemoryEstimate
from plimsoll.placement.sizing import Sized

BIG_LENGTH = 640.0
"""The length of the big hull in picture units."""


@dataclass(frozen=True, slots=True)
class Detail:
    """The details of one GPU type. Without an estimate there are only remedies.

    ``terms`` have bytes of one GPU; the last lines are sums.
    """

    gpu: str
    bar: Bar | None
    terms: tuple[tuple[str, int], ...]
    sentences: tuple[str, ...]
    remedies: tuple[str, ...]
    warnings: tuple[str, ...]
    steps: tuple[Step, ...]


def detail_of(answer: Answered) -> Detail | None:
    """Return the details where the answer has one GPU type, as the command prints them."""
    if not answer.is_alone:
        return None
    request, row = answer.question.request, answer.shown[0]
    remedies = tuple(line.strip() for line in remedy_lines(request, row, answer.split))
    if not isinstance(row.answer, Sized):
        return Detail(row.gpu.name, None, (), (), remedies, (), ())
    figures = row.answer.figures
    return Detail(
        gpu=row.gpu.name,
        bar=bar_of(figures_of_estimate(figures), scale_of((row,), BIG_LENGTH)),
        terms=_terms(figures),
        sentences=(*sentences(request, row.answer), *costs(row)),
        remedies=remedies,
        warnings=warnings_of(request, row.answer),
        steps=steps(row.answer),
    )


def _terms(figures: MemoryEstimate) -> tuple[tuple[str, int], ...]:
    named = [(each.name.title, each.size_bytes) for each in segments(figures) if each.size_bytes]
    named.append(("needed, to be sure", figures.computed_bytes))
    if figures.forced_bytes is not None:
        named.append(("needed, by override", figures.forced_bytes))
    return (*named, ("the engine may use", figures.budget_bytes), ("usable of the GPU", figures.usable_bytes))
