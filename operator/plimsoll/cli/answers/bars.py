"""The budget of one GPU as a stacked bar, its terms, what they mean, and every formula (``--why``); an API's bill."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rich.console import Console
from rich.text import Text

from plimsoll.cli.answers.advice import advice_sentence
from plimsoll.cli.answers.api_words import ApiAnswer
from plimsoll.cli.answers.engines import TwoEngines
from plimsoll.cli.answers.rows import AnswerRow
from plimsoll.cli.answers.segments import legend, segments
from plimsoll.cli.answers.sentences import (
    NO_REMEDY,
    at_once,
    costs,
    degree,
    headline,
    remedy_lines,
    sentences,
    warnings_of,
)
from plimsoll.cli.answers.steps import steps
from plimsoll.cli.changes.remedies import first_remedy
from plimsoll.cli.listing import Cell, Listing, bar, figure, name, prose
from plimsoll.cli.screen import print_lines, print_listing
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Rejection, Split
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.placement.explain import rejection_sentence
from plimsoll.placement.options.sizing import Sized
from plimsoll.placement.places.warnings import model_warnings

BAR_CELLS = 48
"""The length in characters of a bar that stands for all usable memory of a GPU."""

_VERDICT = {Fit.SURE: ("fits", "green"), Fit.PROBABLE: ("probably", "yellow"), Fit.NO: ("no", "red")}


def print_answers(console: Console, request: Request, rows: Sequence[AnswerRow], split: Split | None) -> None:
    """Print the advice, a bar for each GPU type, the legend below, and the warnings that hold for all of them.

    ``split`` is the one that the command line names.
    """
    print_lines(console, (headline(request),))
    if len(rows) > 1:
        print_lines(console, (advice_sentence(request, rows),), "bold")
    print_listing(console, _table(request, rows, split))
    letters = legend(row.answer.figures for row in rows if isinstance(row.answer, Sized))
    print_lines(console, (f"{letters}, . free, | what the engine may use, ! beyond the GPU",), "dim")
    if request.overrides.memory_per_gpu_bytes is not None:
        print_lines(console, (_BY_OVERRIDE,))
    if len(rows) > 1:
        print_warnings(console, model_warnings(request))


_BY_OVERRIDE = "FITS and NEED are by override (spec.overrides.memoryPerGpu), the bars by the memory law."

_COLUMNS = (
    name("GPU"),
    figure("TP"),
    figure("PP"),
    name("FITS"),
    figure("$/h"),
    figure("ms/TOKEN"),
    bar("BUDGET OF ONE GPU", BAR_CELLS),
    figure("NEED/MAY GiB"),
    figure("KV TOKENS"),
    figure("AT ONCE"),
)


def _table(request: Request, rows: Sequence[AnswerRow], split: Split | None) -> Listing:
    """A row for each GPU type; below one that does not fit, why no figure is known, and the first remedy."""
    table = Listing(_COLUMNS)
    for row in rows:
        parts = [] if isinstance(row.answer, Sized) else [Text(f"{rejection_sentence(row.answer)}.")]
        if len(rows) > 1 and row.fit is Fit.NO:
            remedy = first_remedy(request, row.gpu, row.answer, split)
            parts.append(Text(NO_REMEDY if remedy is None else remedy.short, "yellow"))
        table.add(*_row(request, row), note=Text(" ").join(parts) if parts else None)
    return table


def print_warnings(console: Console, warnings: Sequence[str]) -> None:
    """Print one line for each warning."""
    print_lines(console, (f"Warning: {warning}" for warning in warnings), "yellow")


def print_one(console: Console, request: Request, row: AnswerRow, split: Split | None) -> None:
    """Print the terms of one GPU, the error band, the answers to the inverse questions, and the remedies."""
    if isinstance(row.answer, Sized):
        _print_figures(console, request, row, row.answer)
    print_lines(console, remedy_lines(request, row, split))
    if isinstance(row.answer, Sized):
        print_warnings(console, warnings_of(request, row.answer))


def _print_figures(console: Console, request: Request, row: AnswerRow, answer: Sized) -> None:
    figures = answer.figures
    table = Listing((name("TERM"), figure("GiB")))
    for segment in segments(figures):
        if segment.size_bytes:
            table.add(segment.name.title, f"{segment.size_bytes / GIB:.2f}")
    table.add("needed, to be sure", f"{figures.computed_bytes / GIB:.2f}", style="bold")
    if figures.forced_bytes is not None:
        table.add("needed, by override", f"{figures.forced_bytes / GIB:.2f}", style="yellow")
    table.add("the engine may use", f"{figures.budget_bytes / GIB:.2f}")
    table.add("usable of the GPU", f"{figures.usable_bytes / GIB:.2f}")
    print_listing(console, table)
    print_lines(console, (*sentences(request, answer), *costs(row)))


def budget_bar(figures: MemoryEstimate, length: int = BAR_CELLS) -> Text:
    """One cell for each of ``length`` parts of the usable memory; an overflow ends in ``!``."""
    cells: list[tuple[str, str]] = []
    reached = 0
    for segment in segments(figures):
        reached += segment.size_bytes
        filled = min(length, round(length * reached / figures.usable_bytes))
        cells += [segment.look] * (filled - len(cells))
    cells += [(".", "dim")] * (length - len(cells))
    cells[min(length - 2, length * figures.budget_bytes // figures.usable_bytes)] = ("|", "bold")
    if reached > figures.usable_bytes:
        cells[-1] = ("!", "red")
    return Text.assemble(*cells)


def _row(request: Request, row: AnswerRow) -> tuple[Cell, ...]:
    word, colour = _VERDICT[row.fit]
    split = row.answer.split
    cells = (
        row.gpu.name,
        degree(split),
        str(split.pipeline_parallel),
        Text(word, colour),
        "-" if row.price is None else f"{row.price:.2f}",
        "-" if row.speed is None else f"{1000 * row.speed.tpot_seconds:.1f}",
    )
    return cells if isinstance(row.answer, Rejection) else (*cells, *_figures(request, row.answer))


def _figures(request: Request, answer: Sized) -> tuple[Cell, ...]:
    figures = answer.figures
    tokens = f"{figures.kv_capacity_low_tokens:,}-{figures.kv_capacity_high_tokens:,}"
    return (
        partial(budget_bar, figures),
        f"{figures.needed_bytes / GIB:.1f}/{figures.budget_bytes / GIB:.1f}",
        tokens if request.model.keeps_cache else "-",
        at_once(request, answer),
    )


def print_working(console: Console, answer: Sized) -> None:
    """Print every formula of an estimate with its numbers, one row for each step."""
    table = Listing((name("TERM"), prose("HOW"), figure("GiB")))
    for step in steps(answer):
        size = "" if step.size_bytes is None else f"{step.size_bytes / GIB:.3f}"
        table.add(step.label, step.formula, size, style="bold" if step.is_total else "")
    print_listing(console, table)


def print_engines(console: Console, answers: Sequence[TwoEngines]) -> None:
    """Print the table of two engines: two rows for each GPU type on which one of them fits."""
    columns = (name("GPU"), name("ENGINE"), figure("TP"), name("FITS"))
    table = Listing((*columns, *map(figure, ("KV TOKENS", "AT ONCE", "ms/TOKEN", "$/h"))))
    for each in answers:
        if Fit.NO in (each.own.row.fit, each.other.row.fit) and each.own.row.fit is each.other.row.fit:
            continue
        for place, row in enumerate((each.own, each.other)):
            table.add(each.own.row.gpu.name if place == 0 else "", *row.cells())
    print_listing(console, table)


def print_api(console: Console, answers: Sequence[ApiAnswer]) -> None:
    """Print the table against an API: a row for each GPU type that fits and has a price and a speed."""
    columns = [name("GPU"), figure("PAYS FROM/DAY"), figure("TO ZERO, FROM/DAY")]
    if any(each.usd for each in answers):
        columns += [figure("API $/DAY"), figure("TO ZERO $/DAY"), figure("ALWAYS $/DAY"), name("CHEAPEST")]
    table = Listing(tuple(columns))
    for each in answers:
        table.add(each.gpu, *each.cells())
    print_listing(console, table)
