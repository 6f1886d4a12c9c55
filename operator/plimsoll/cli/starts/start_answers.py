"""The answer of ``plimsoll learn``: as a table with sentences, and as data.

The terms of a logged start: predicted against logged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from plimsoll.cli.answers.estimate_json import capacity_document, correction_document
from plimsoll.cli.answers.sentences import verdict
from plimsoll.cli.later import observation_document
from plimsoll.cli.listing import Listing, figure, name
from plimsoll.cli.screen import print_lines, print_listing
from plimsoll.cli.starts.logged_start import Start
from plimsoll.cli.starts.start_lesson import Lesson, available_bytes
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate
from plimsoll.domain.units import GIB
from plimsoll.placement.explain import place_words
from plimsoll.status.words.learned import correction_words


@dataclass(frozen=True, slots=True)
class StartRow:
    """One figure of one GPU, predicted and logged; None if there is none.

    Figures are bytes, or tokens or requests if ``unit`` says so. ``low`` and ``high`` are the edges of the band.
    """

    name: str
    predicted: float | None
    logged: float | None
    low: float | None = None
    high: float | None = None
    unit: str = "bytes"

    @property
    def is_inside(self) -> bool | None:
        """Whether the logged figure is inside the band; None if there is no band or no figure."""
        if self.logged is None or self.low is None or self.high is None:
            return None
        return self.low <= self.logged <= self.high

    @property
    def difference(self) -> float | None:
        """Logged less predicted; None if one of them is missing."""
        return None if self.predicted is None or self.logged is None else self.logged - self.predicted


def rows_of(start: Start) -> tuple[StartRow, ...]:
    """Return the rows that have a predicted or a logged figure."""
    rows = (*_memory_rows(start), *_term_rows(start), _cache_row(start), *_token_rows(start))
    return tuple(row for row in rows if row.logged is not None or row.predicted)


def _memory_rows(start: Start) -> Iterator[StartRow]:
    logged = start.log.figures
    yield StartRow("memory of the GPU", start.gpu.usable_bytes, logged.total_bytes)
    yield StartRow("free before the weights", None, logged.free_bytes)
    yield StartRow("the engine may use", start.figures.budget_bytes, None)
    yield StartRow("free when ready", None, logged.spare_bytes)


def _term_rows(start: Start) -> Iterator[StartRow]:
    """Yield the terms. Of several stages the logs mix the ranks, so nothing is predicted for them."""
    figures, logged = start.figures, start.log.figures
    weights, outside = figures.weights_bytes + figures.adapters_bytes, figures.overhead_bytes
    staged = start.split.pipeline_parallel > 1
    yield StartRow("weights", None if staged else weights, logged.weights_bytes)
    if logged.consumed_bytes is not None:
        yield StartRow(
            "weights and memory outside PyTorch", None if staged else weights + outside, logged.consumed_bytes
        )
    yield StartRow("activations", None if staged else figures.activations_bytes, logged.activations_bytes)
    yield StartRow("CUDA graphs, charged", None if staged else figures.cuda_graphs_bytes, logged.charged_graphs_bytes)
    yield StartRow("CUDA graphs, captured", None, logged.graphs_bytes)
    yield StartRow("memory outside PyTorch", None if staged else outside, logged.outside_torch_bytes)


def _cache_row(start: Start) -> StartRow:
    pair = available_bytes(start)
    predicted = start.figures.available_kv_bytes if pair is None else pair[0]
    logged = None if pair is None else pair[1]
    if pair is None and start.log.failure is not None:
        logged = start.log.failure.available_kv_bytes
    figures = start.figures
    return StartRow("KV cache", predicted, logged, predicted - figures.margin_bytes, predicted + figures.slack_bytes)


def _token_rows(start: Start) -> Iterator[StartRow]:
    figures, logged, engines = start.figures, start.log.figures, start.split.data_parallel
    # Some releases report another figure than the tokens of full-length requests: the band is counted as theirs.
    factor = figures.kv_reported_tokens / figures.kv_capacity_tokens if figures.kv_capacity_tokens > 0 else 1.0
    band = max(0, figures.kv_capacity_low_tokens), figures.kv_capacity_high_tokens
    low, high = (round(each * factor / engines) for each in band)
    yield StartRow("KV tokens", figures.kv_reported_tokens // engines, logged.kv_tokens, low, high, "tokens")
    held = max(0, figures.kv_capacity_tokens) / engines / start.settings.max_model_len
    yield StartRow("requests of full length", held, logged.concurrency, unit="requests")


def _shown(value: float | None, unit: str) -> str:
    """Return a figure for a table; a dash for none."""
    if value is None:
        return "-"
    return {"bytes": f"{value / GIB:.2f}", "tokens": f"{value:,.0f}", "requests": f"{value:.2f}x"}[unit]


def print_lesson(console: Console, start: Start, lesson: Lesson | str, notes: Sequence[str]) -> None:
    """Print the terms, what the estimate would have said, and what the start teaches."""
    print_lines(console, (_headline(start),))
    table = Listing((name("GiB OF ONE GPU"), *map(figure, ("PREDICTED", "LOGGED", "DIFFERENCE", "BAND"))))
    for row in rows_of(start):
        table.add(*_cells(row))
    print_listing(console, table)
    print_lines(console, (f"Note: {note}" for note in notes))
    print_lines(console, _sentences(start, lesson))


def lesson_document(start: Start, lesson: Lesson | str, notes: Sequence[str]) -> dict[str, Any]:
    """Return the same as data, in bytes and tokens."""
    failure, settings = start.log.failure, start.settings
    document: dict[str, Any] = {
        "model": start.request.model.name,
        "gpuType": start.gpu.name,
        "engine": {"name": start.log.engine, "build": start.log.build, "version": str(start.request.engine.version)},
        "tensorParallel": start.split.tensor_parallel,
        "pipelineParallel": start.split.pipeline_parallel,
        "dataParallel": start.split.data_parallel,
        "expertParallel": start.split.expert_parallel,
        "precision": start.request.precision.value,
        "kvPrecision": start.request.kv_precision.value,
        "maxModelLen": settings.max_model_len,
        "maxNumSeqs": settings.limits.sequences,
        "maxNumBatchedTokens": settings.limits.step_tokens,
        "served": start.log.served,
        "failure": None if failure is None else {"reason": failure.reason.value, "message": failure.message},
        "fit": start.figures.fit.value,
        "rows": [_row_document(row) for row in rows_of(start)],
        "notes": list(notes),
    }
    if isinstance(lesson, str):
        return {**document, "lesson": None, "why": lesson}
    return {**document, "lesson": _lesson_document(lesson)}


def _lesson_document(lesson: Lesson) -> dict[str, Any]:
    return {
        "observation": observation_document(lesson.observation),
        "correction": correction_document(lesson.correction),
        "after": {
            "fit": lesson.after.fit.value,
            "availableKvBytes": lesson.after.available_kv_bytes,
            "kvCapacityTokens": capacity_document(lesson.after),
        },
    }


def _row_document(row: StartRow) -> dict[str, Any]:
    document = {"name": row.name, "unit": row.unit, "predicted": row.predicted, "logged": row.logged}
    band = {} if row.low is None else {"low": row.low, "high": row.high, "inside": row.is_inside}
    return {**document, **band}


def _headline(start: Start) -> str:
    request, settings, engine = start.request, start.settings, start.engine.title
    parts = (
        f"weights {request.precision}",
        f"KV cache {request.kv_precision}",
        f"{settings.max_model_len:,} tokens",
        f"at most {settings.limits.sequences:,} requests and {settings.limits.step_tokens:,} tokens a step",
        _share_words(settings),
    )
    where = place_words(start.gpu.name, start.split)
    return f"{request.model.name} on {where}, {engine} {request.engine.version}: {', '.join(parts)}"


def _share_words(settings: EngineSettings) -> str:
    if settings.static is None:
        return f"{settings.gpu_memory_utilization_percent} % of the GPU"
    return f"{settings.static.thousandths / 10:g} % of the memory that is free before the weights"


def _cells(row: StartRow) -> tuple[str, ...]:
    difference = row.difference
    sign = "-" if difference is None else f"{'+' if difference >= 0 else '-'}{_shown(abs(difference), row.unit)}"
    band = "" if row.low is None else f"{_shown(row.low, row.unit)} to {_shown(row.high, row.unit)}"
    inside = {None: "", True: ", inside", False: ", OUTSIDE"}[row.is_inside]
    return row.name, _shown(row.predicted, row.unit), _shown(row.logged, row.unit), sign, f"{band}{inside}"


def _sentences(start: Start, lesson: Lesson | str) -> Iterator[str]:
    failure, figures = start.log.failure, start.figures
    if failure is not None:
        yield f"The engine did not start ({failure.reason}): {failure.message}"
        yield from _missing(start)
    said = verdict(figures)
    yield f"The estimate for one request of {start.settings.max_model_len:,} tokens: {said[0].lower()}{said[1:]}"
    if isinstance(lesson, str):
        yield f"Nothing is learned. {lesson}"
        return
    words, kind = correction_words(lesson.correction), lesson.observation.kind
    yield f"Learned: {words}."
    where = f"{place_words(kind.gpu_type, kind.split)}, {start.engine.title} {kind.version}"
    yield f"It counts for {kind.model} in {kind.precision} on {where}, with the same options."
    yield _after(lesson.after)


def _missing(start: Start) -> Iterator[str]:
    figures, failure = start.log.figures, start.log.failure
    left = None if failure is None else failure.available_kv_bytes
    needed, left = figures.kv_needed_bytes, figures.kv_bytes if left is None else left
    if needed is not None and left is not None:
        missed, request, kept = (f"{each / GIB:.2f}" for each in (needed - left, needed, left))
        yield f"It missed {missed} GiB: one request needs {request} GiB, and {kept} were left."
    elif left is not None and left <= 0:
        yield f"It missed {-left / GIB:.2f} GiB and the cache of one request."
    if figures.longest_context is not None:
        yield f"The engine says that {figures.longest_context:,} tokens would fit."


def _after(figures: MemoryEstimate) -> str:
    low, high = figures.kv_capacity_low_tokens, figures.kv_capacity_high_tokens
    said = verdict(figures)
    tokens = f"{figures.kv_capacity_tokens:,} KV tokens ({low:,} to {high:,})"
    return f"The estimate after it: {tokens}; {said[0].lower()}{said[1:]}"
