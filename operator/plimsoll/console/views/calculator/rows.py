"""One row of the calculator for each GPU type, with the reason or the price, and the details of a type alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from plimsoll.cli.answers.advice import Advice, advice
from plimsoll.cli.answers.api_words import api_answer
from plimsoll.cli.answers.engines import two_engines
from plimsoll.cli.answers.rows import AnsweredQuestion, AnswerRow, Standing
from plimsoll.cli.answers.segments import segments
from plimsoll.cli.answers.sentences import NO_REMEDY, at_once, costs, remedy_lines, sentences, warnings_of
from plimsoll.cli.answers.steps import FormulaRow, steps
from plimsoll.cli.changes.remedies import first_remedy
from plimsoll.console.drawing.bar import PERCENT, Bar, BarScale, DrawnMemory, bar_of, common_scale, drawn_memory
from plimsoll.console.views.figures import Figures, figures_of_estimate
from plimsoll.console.views.words import Sign
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Rejection, Split
from plimsoll.placement.explain import rejection_sentence
from plimsoll.placement.options.feasibility import memory_reason
from plimsoll.placement.options.sizing import Sized


class Shelf(StrEnum):
    """Where a row stands: in the table, or folded under one line."""

    SHOWN = "shown"
    RARE = "rare"
    UNPRICED = "unpriced"
    IMPOSSIBLE = "impossible"


_VERDICTS = {
    Fit.SURE: Sign("\u2713", "fits", "good"),
    Fit.PROBABLE: Sign("\u25b2", "probably", "warn"),
    Fit.NO: Sign("\u2717", "no", "bad"),
}
_ADVICE = {
    Advice.CHEAPEST: "cheapest",
    Advice.CHEAPEST_IN_SERVERS: "cheapest in servers",
    Advice.CHEAPEST_OWNED: "cheapest here",
    Advice.FASTEST: "fastest for its price",
}


@dataclass(frozen=True, slots=True)
class RowView:
    """One row. ``figures`` and ``bar`` are None if there is no estimate. Prices are in US dollars an hour.

    ``difference`` is the price over that of the cheapest, in percent. ``code`` is the reason that placement would give.
    ``api`` are words against an API, None if none is asked about, and ``engine`` words on another engine.
    """

    gpu: str
    split: Split
    verdict: Sign
    shelf: Shelf
    figures: Figures | None
    bar: Bar | None
    at_once: str | None
    price: str | None
    price_source: str | None
    difference: int | None
    milliseconds: str | None
    is_owned: bool
    advice: tuple[str, ...]
    code: str
    reason: str
    api: str | None
    engine: str | None


def row_views(answer: AnsweredQuestion) -> tuple[RowView, ...]:
    """Return the rows in the order of ``plimsoll estimate``."""
    request, rows = answer.question.request, answer.shown
    advised = advice(request, rows)
    scale, cheapest = scale_of(rows), _cheapest(rows)
    return tuple(_view(answer, row, advised, scale, cheapest) for row in rows)


def scale_of(rows: Sequence[AnswerRow]) -> BarScale:
    """Return one scale for all hulls: the largest GPU has the whole width."""
    sizes = (row.answer.figures.usable_bytes for row in rows if isinstance(row.answer, Sized))
    return common_scale(sizes, PERCENT)


def _cheapest(rows: Sequence[AnswerRow]) -> Decimal | None:
    """Return the lowest price of what fits for sure, else of what fits probably; first of what is common in servers."""
    usual = [row for row in rows if row.standing is not Standing.RARE]
    for some in (usual, rows):
        for fit in (Fit.SURE, Fit.PROBABLE):
            prices = [row.price for row in some if row.fit is fit and row.price is not None]
            if prices:
                return min(prices)
    return None


def _view(
    answer: AnsweredQuestion,
    row: AnswerRow,
    advised: Mapping[Advice, AnswerRow],
    scale: BarScale,
    cheapest: Decimal | None,
) -> RowView:
    figures = figures_of_estimate(row.answer.figures) if isinstance(row.answer, Sized) else None
    source, api = row.gpu.price_in_force, api_answer(answer.question, row)
    engines = two_engines(answer, row)
    return RowView(
        gpu=row.gpu.name,
        split=row.answer.split,
        verdict=_VERDICTS[row.fit],
        shelf=_shelf(row, is_named=bool(answer.question.gpus)),
        figures=figures,
        bar=None if figures is None else bar_of(figures, scale),
        at_once=at_once(answer.question.request, row.answer) if isinstance(row.answer, Sized) else None,
        price=None if row.price is None else f"{row.price:.2f}",
        price_source=None if row.price is None or source is None else source.source,
        difference=_difference(row.price, cheapest),
        milliseconds=None if row.speed is None else f"{1000 * row.speed.tpot_seconds:.1f}",
        is_owned=row.is_owned,
        advice=tuple(_ADVICE[word] for word, each in advised.items() if each is row),
        code=_code(row.answer),
        reason=_reason(answer, row),
        api=None if api is None else api.short,
        engine=None if engines is None else engines.short,
    )


_SHELVES = {Standing.RARE: Shelf.RARE, Standing.UNPRICED: Shelf.UNPRICED}


def _shelf(row: AnswerRow, *, is_named: bool) -> Shelf:
    """Return where a row stands. What the question names is shown, whatever it is."""
    if isinstance(row.answer, Rejection):
        return Shelf.IMPOSSIBLE
    return Shelf.SHOWN if is_named else _SHELVES.get(row.standing, Shelf.SHOWN)


def _difference(price: Decimal | None, cheapest: Decimal | None) -> int | None:
    return None if price is None or not cheapest else round(100 * (price / cheapest - 1))


def _code(answer: Sized | Rejection) -> str:
    if isinstance(answer, Rejection):
        return answer.reason.value
    return memory_reason(answer.figures)[0].value if answer.figures.fit is Fit.NO else ""


def _reason(answer: AnsweredQuestion, row: AnswerRow) -> str:
    """Return why there is no estimate, or the first remedy of what does not fit, as the command's table has them."""
    if isinstance(row.answer, Rejection):
        return rejection_sentence(row.answer)
    if row.fit is not Fit.NO or answer.is_alone:
        return ""
    found = first_remedy(answer.question.request, row.gpu, row.answer, answer.split)
    return NO_REMEDY if found is None else found.short


BIG_LENGTH = 640.0
"""The length of the big hull in picture units."""


@dataclass(frozen=True, slots=True)
class Detail:
    """The details of one GPU type. Without an estimate there are only remedies.

    ``terms`` have bytes of one GPU; the last lines are sums.
    """

    gpu: str
    drawn: DrawnMemory | None
    terms: tuple[tuple[str, int], ...]
    sentences: tuple[str, ...]
    remedies: tuple[str, ...]
    warnings: tuple[str, ...]
    steps: tuple[FormulaRow, ...]


def detail_of(answer: AnsweredQuestion) -> Detail | None:
    """Return the details if the answer has one GPU type, as the command prints them."""
    if not answer.is_alone:
        return None
    request, row = answer.question.request, answer.shown[0]
    remedies = tuple(line.strip() for line in remedy_lines(request, row, answer.split))
    if not isinstance(row.answer, Sized):
        return Detail(row.gpu.name, None, (), (), remedies, (), ())
    figures, api, engines = row.answer.figures, api_answer(answer.question, row), two_engines(answer, row)
    others = (line for each in (engines, api) if each is not None for line in each.sentences())
    return Detail(
        gpu=row.gpu.name,
        drawn=drawn_memory(figures_of_estimate(figures), BIG_LENGTH),
        terms=_terms(figures),
        sentences=(*sentences(request, row.answer), *costs(row), *others),
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
