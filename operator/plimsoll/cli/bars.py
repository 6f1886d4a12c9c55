"""The budget of one GPU as a stacked bar, its terms, and what they mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from plimsoll.cli.advice import advice_sentence
from plimsoll.cli.cache_words import cache_sentence
from plimsoll.cli.limits import limits
from plimsoll.cli.remedies import all_remedies, first_remedy
from plimsoll.cli.rows import Row
from plimsoll.cli.segments import legend, segments
from plimsoll.cli.verdict import is_sure, verdict, warnings_of
from plimsoll.domain.model import ModelFacts, Task
from plimsoll.domain.outcomes import Fit, MemoryEstimate, Rejection, Split
from plimsoll.domain.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.engines.registry import engine_of
from plimsoll.performance.decode_time import decode_floor
from plimsoll.placement.explain import rejection_sentence
from plimsoll.placement.sizing import Sized
from plimsoll.placement.warnings import model_warnings

BAR_CELLS = 48
"""The length in characters of a bar that stands for all usable memory of a GPU."""

_BEFORE_BAR = ("", "", "", "", "", "")
_NO_REMEDY = "no change that was tried makes it fit"

_VERDICT = {Fit.SURE: ("fits", "green"), Fit.PROBABLE: ("probably", "yellow"), Fit.NO: ("no", "red")}


def print_answers(console: Console, request: Request, rows: Sequence[Row], split: Split | None) -> None:
    """Print the advice, a bar for each GPU type, the legend below, and the warnings that hold for all of them.

    ``split`` is the one that the command line names.
    """
    console.print(_headline(request), highlight=False, markup=False)
    if len(rows) > 1:
        console.print(advice_sentence(request, rows), highlight=False, markup=False, style="bold", soft_wrap=True)
    console.print(_table(request, rows, split))
    letters = legend(row.answer.figures for row in rows if isinstance(row.answer, Sized))
    console.print(f"{letters}, . free, | what the engine may use, ! beyond the GPU", style="dim", highlight=False)
    if request.overrides.memory_per_gpu_bytes is not None:
        console.print("FITS and NEED are by override (spec.overrides.memoryPerGpu), the bars by the memory law.")
    if len(rows) > 1:
        print_warnings(console, model_warnings(request))


def _table(request: Request, rows: Sequence[Row], split: Split | None) -> Table:
    """A row for each GPU type; below one that does not fit, the first remedy."""
    table = _titles()
    for row in rows:
        table.add_row(*_row(request, row))
        if len(rows) > 1 and row.fit is Fit.NO:
            remedy = first_remedy(request, row.gpu, row.answer, split)
            table.add_row(*_BEFORE_BAR, Text(_NO_REMEDY if remedy is None else remedy.short, "yellow"))
    return table


def _titles() -> Table:
    table = Table("GPU", "TP", "PP", "FITS", "$/h", "ms/TOKEN", box=None)
    for column in table.columns[-2:]:
        column.justify = "right"
    table.add_column("BUDGET OF ONE GPU", max_width=BAR_CELLS)
    for title in ("NEED/MAY GiB", "KV TOKENS", "AT ONCE"):
        table.add_column(title)
    return table


def print_warnings(console: Console, warnings: Sequence[str]) -> None:
    """Print one line for each warning."""
    for warning in warnings:
        console.print(f"Warning: {warning}", highlight=False, markup=False, style="yellow")


def print_one(console: Console, request: Request, row: Row, split: Split | None) -> None:
    """Print the terms of one GPU, the error band, the answers to the inverse questions, and the remedies."""
    if isinstance(row.answer, Sized):
        _print_figures(console, request, row, row.answer)
    for line in _remedies(request, row, split):
        console.print(line, highlight=False, markup=False)
    if isinstance(row.answer, Sized):
        print_warnings(console, warnings_of(request, row.answer))


def _print_figures(console: Console, request: Request, row: Row, answer: Sized) -> None:
    figures = answer.figures
    table = Table("TERM", "GiB", box=None)
    table.columns[1].justify = "right"
    for segment in segments(figures):
        if segment.size_bytes:
            table.add_row(segment.name.title, f"{segment.size_bytes / GIB:.2f}")
    table.add_row("needed, to be sure", f"{figures.computed_bytes / GIB:.2f}", style="bold")
    if figures.forced_bytes is not None:
        table.add_row("needed, by override", f"{figures.forced_bytes / GIB:.2f}", style="yellow")
    table.add_row("the engine may use", f"{figures.budget_bytes / GIB:.2f}")
    table.add_row("usable of the GPU", f"{figures.usable_bytes / GIB:.2f}")
    console.print(table)
    for line in (*_sentences(request, answer), *_costs(row)):
        console.print(line, highlight=False, markup=False)


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


def _degree(split: Split) -> str:
    """The tensor-parallel degree, the engines if there are several, and EP where experts are whole."""
    cut = (
        str(split.tensor_parallel) if split.data_parallel == 1 else f"{split.tensor_parallel} x DP{split.data_parallel}"
    )
    return f"{cut} EP" if split.expert_parallel else cut


def _at_once(request: Request, answer: Sized) -> str:
    """The full-length requests that the cache holds. Each engine of a replica holds whole requests."""
    engines, each = answer.split.data_parallel, answer.figures.kv_capacity_tokens / request.shape.context_tokens
    return f"{each:.1f}x" if engines == 1 else f"{engines * int(each / engines)}x"


def _row(request: Request, row: Row) -> tuple[Any, ...]:
    word, colour = _VERDICT[row.fit]
    split = row.answer.split
    cells = (
        row.gpu.name,
        _degree(split),
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
    return (
        bar(figures),
        f"{figures.needed_bytes / GIB:.1f}/{figures.budget_bytes / GIB:.1f}",
        f"{figures.kv_capacity_low_tokens:,}-{figures.kv_capacity_high_tokens:,}",
        _at_once(request, answer),
    )


def _headline(request: Request) -> str:
    shape, model, engine = request.shape, request.model, engine_of(request.engine.name).title
    load = f"{shape.concurrency} requests of {shape.context_tokens:,} tokens, guaranteed"
    if shape.expected_tokens is not None:
        lengths = f"{shape.expected_tokens:,} tokens on average, at most {shape.context_tokens:,}"
        load = f"{shape.concurrency} requests, {lengths}"
    return (
        f"{model.name} ({model.architecture}, {model.evidence.value.lower()}): weights {request.precision}, "
        f"KV cache {request.kv_precision}, {load}, {engine} {request.engine.version}"
    )


def _sentences(request: Request, answer: Sized) -> Iterator[str]:
    figures = answer.figures
    low, high = figures.expected_bytes - figures.slack_bytes, figures.computed_bytes
    yield f"Expected need {figures.expected_bytes / GIB:.2f} GiB, between {low / GIB:.2f} and {high / GIB:.2f}."
    yield verdict(figures)
    yield from _cache(request.model, figures)
    yield from _engines(request, answer.split)
    yield from _limits(request, answer)
    yield from _floor(request, answer)
    if figures.host_bytes:
        yield f"{figures.host_bytes / GIB:.2f} GiB of weights of each GPU stay in host memory."


def _cache(model: ModelFacts, figures: MemoryEstimate) -> Iterator[str]:
    if not model.keeps_cache:
        yield "KV cache: none. The engine reads an input in one step and keeps nothing of it."
        return
    low_tokens, high_tokens = figures.kv_capacity_low_tokens, figures.kv_capacity_high_tokens
    yield cache_sentence(figures)
    yield f"KV tokens that fit: {figures.kv_capacity_tokens:,} expected, {low_tokens:,} to {high_tokens:,}."


def _floor(request: Request, answer: Sized) -> Iterator[str]:
    if request.model.task is Task.POOL:
        yield "It does not generate, so there is no time per token."
        return
    floor = decode_floor(request.model, request.precision, answer.gpu, answer.split, request.engine.residency)
    over_pcie = f", {1000 * floor.host_seconds:.1f} ms of it over PCIe" if floor.host_seconds else ""
    yield f"One token at batch size 1 takes at least {1000 * floor.seconds:.1f} ms{over_pcie}."


def _engines(request: Request, split: Split) -> Iterator[str]:
    if split.data_parallel > 1:
        share, engines = split.share(request.shape.concurrency), split.data_parallel
        yield f"These are tokens of {engines} engines. Each has a cache of its own and holds {share} of the requests."


def _limits(request: Request, answer: Sized) -> Iterator[str]:
    found = limits(request, answer)
    if answer.figures.forced_bytes is not None:
        yield "By the memory law, without the override:"
    yield from found.sentences()


def _costs(row: Row) -> Iterator[str]:
    """The price, and the speed at the declared load; or that they are not known."""
    price, speed, gpus = row.gpu.price_in_force, row.speed, row.answer.split.gpus
    if row.fit is Fit.NO:
        return
    if row.price is None or price is None:
        yield f"Price: not known for {row.gpu.name}."
    else:
        yield f"Price: ${row.price:.2f} an hour for {gpus} GPU{'s' if gpus > 1 else ''} ({price.source})."
    if speed is None:
        yield "Speed at the declared load: not known, the performance model does not cover this."
    else:
        low, high = (1000 * edge for edge in speed.tpot_band)
        figure = f"{1000 * speed.tpot_seconds:.1f} ms a token ({low:.1f} to {high:.1f})"
        yield f"Speed at the declared load: {figure}, first token after {speed.ttft_seconds:.2f} s."


def _remedies(request: Request, row: Row, split: Split | None) -> Iterator[str]:
    """Yield the changes that would make it fit, if it does not fit for sure."""
    if is_sure(row.answer):
        return
    found = all_remedies(request, row.gpu, row.answer, split)
    if found:
        yield "Any one of these would make it fit for sure:" if len(found) > 1 else "This would make it fit for sure:"
        yield from (f"  {each.sentence}." for each in found)
    else:
        yield "No change that was tried would make it fit for sure: other numbers, more GPUs of a node, a smaller load."
