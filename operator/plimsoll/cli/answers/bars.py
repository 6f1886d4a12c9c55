"""The budget of one GPU as a stacked bar, its terms, what they mean, and every formula (``--why``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from plimsoll.cli.answers.advice import advice_sentence
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
from plimsoll.cli.screen import print_lines
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Rejection, Split
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.placement.explain import rejection_sentence
from plimsoll.placement.options.sizing import Sized
from plimsoll.placement.places.warnings import model_warnings

BAR_CELLS = 48
"""The length in characters of a bar that stands for all usable memory of a GPU."""

_BEFORE_BAR = ("", "", "", "", "", "")

_VERDICT = {Fit.SURE: ("fits", "green"), Fit.PROBABLE: ("probably", "yellow"), Fit.NO: ("no", "red")}


def print_answers(console: Console, request: Request, rows: Sequence[AnswerRow], split: Split | None) -> None:
    """Print the advice, a bar for each GPU type, the legend below, and the warnings that hold for all of them.

    ``split`` is the one that the command line names.
    """
    console.print(headline(request), highlight=False, markup=False)
    if len(rows) > 1:
        console.print(advice_sentence(request, rows), highlight=False, markup=False, style="bold", soft_wrap=True)
    console.print(_table(request, rows, split))
    letters = legend(row.answer.figures for row in rows if isinstance(row.answer, Sized))
    console.print(f"{letters}, . free, | what the engine may use, ! beyond the GPU", style="dim", highlight=False)
    if request.overrides.memory_per_gpu_bytes is not None:
        console.print("FITS and NEED are by override (spec.overrides.memoryPerGpu), the bars by the memory law.")
    if len(rows) > 1:
        print_warnings(console, model_warnings(request))


def _table(request: Request, rows: Sequence[AnswerRow], split: Split | None) -> Table:
    """A row for each GPU type; below one that does not fit, the first remedy."""
    money, time = (Column(title, justify="right") for title in ("$/h", "ms/TOKEN"))
    budget = Column("BUDGET OF ONE GPU", max_width=BAR_CELLS)
    table = Table("GPU", "TP", "PP", "FITS", money, time, budget, "NEED/MAY GiB", "KV TOKENS", "AT ONCE", box=None)
    for row in rows:
        table.add_row(*_row(request, row))
        if len(rows) > 1 and row.fit is Fit.NO:
            remedy = first_remedy(request, row.gpu, row.answer, split)
            table.add_row(*_BEFORE_BAR, Text(NO_REMEDY if remedy is None else remedy.short, "yellow"))
    return table


def print_warnings(console: Console, warnings: Sequence[str]) -> None:
    """Print one line for each warning."""
    for warning in warnings:
        console.print(f"Warning: {warning}", highlight=False, markup=False, style="yellow")


def print_one(console: Console, request: Request, row: AnswerRow, split: Split | None) -> None:
    """Print the terms of one GPU, the error band, the answers to the inverse questions, and the remedies."""
    if isinstance(row.answer, Sized):
        _print_figures(console, request, row, row.answer)
    print_lines(console, remedy_lines(request, row, split))
    if isinstance(row.answer, Sized):
        print_warnings(console, warnings_of(request, row.answer))


def _print_figures(console: Console, request: Request, row: AnswerRow, answer: Sized) -> None:
    figures = answer.figures
    table = Table("TERM", Column("GiB", justify="right"), box=None)
    for segment in segments(figures):
        if segment.size_bytes:
            table.add_row(segment.name.title, f"{segment.size_bytes / GIB:.2f}")
    table.add_row("needed, to be sure", f"{figures.computed_bytes / GIB:.2f}", style="bold")
    if figures.forced_bytes is not None:
        table.add_row("needed, by override", f"{figures.forced_bytes / GIB:.2f}", style="yellow")
    table.add_row("the engine may use", f"{figures.budget_bytes / GIB:.2f}")
    table.add_row("usable of the GPU", f"{figures.usable_bytes / GIB:.2f}")
    console.print(table)
    print_lines(console, (*sentences(request, answer), *costs(row)))


def bar(figures: MemoryEstimate) -> Text:
    """One cell for each of :data:`BAR_CELLS` parts of the usable memory; an overflow ends in ``!``."""
    cells: list[tuple[str, str]] = []
    reached = 0
    for segment in segments(figures):
        reached += segment.size_bytes
        filled = min(BAR_CELLS, round(BAR_CELLS * reached / figures.usable_bytes))
        cells += [segment.look] * (filled - len(cells))
    cells += [(".", "dim")] * (BAR_CELLS - len(cells))
    cells[min(BAR_CELLS - 2, BAR_CELLS * figures.budget_bytes // figures.usable_bytes)] = ("|", "bold")
    if reached > figures.usable_bytes:
        cells[-1] = ("!", "red")
    return Text.assemble(*cells)


def _row(request: Request, row: AnswerRow) -> tuple[Any, ...]:
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
    if isinstance(row.answer, Rejection):
        return *cells, rejection_sentence(row.answer)
    return *cells, *_figures(request, row.answer)


def _figures(request: Request, answer: Sized) -> tuple[Any, ...]:
    figures = answer.figures
    tokens = f"{figures.kv_capacity_low_tokens:,}-{figures.kv_capacity_high_tokens:,}"
    return (
        bar(figures),
        f"{figures.needed_bytes / GIB:.1f}/{figures.budget_bytes / GIB:.1f}",
        tokens if request.model.keeps_cache else "-",
        at_once(request, answer),
    )


def print_working(console: Console, answer: Sized) -> None:
    """Print every formula of an estimate with its numbers, one row for each step."""
    table = Table("TERM", "HOW", Column("GiB", justify="right"), box=None, show_lines=False)
    for step in steps(answer):
        size = "" if step.size_bytes is None else f"{step.size_bytes / GIB:.3f}"
        table.add_row(step.label, step.formula, size, style="bold" if step.is_total else None)
    console.print(table)
