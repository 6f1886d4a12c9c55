"""The answer of ``plimsoll learn``: as a table with sentences, and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from plimsoll.cli.answers.estimate_json import correction_document
from plimsoll.cli.answers.verdict import verdict
from plimsoll.cli.later import observation_document
from plimsoll.cli.starts.logged_start import Start, gib
from plimsoll.cli.starts.start_lesson import Lesson
from plimsoll.cli.starts.start_rows import Row, rows_of, shown
from plimsoll.domain.outcomes import MemoryEstimate
from plimsoll.placement.explain import place_words
from plimsoll.render.learned_words import correction_words


def print_lesson(console: Console, start: Start, lesson: Lesson | str, notes: Sequence[str]) -> None:
    """Print the terms, what the estimate would have said, and what the start teaches."""
    console.print(_headline(start), highlight=False, markup=False)
    table = Table("GiB OF ONE GPU", "PREDICTED", "LOGGED", "DIFFERENCE", "BAND", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows_of(start):
        table.add_row(*_cells(row))
    console.print(table)
    for note in notes:
        console.print(f"Note: {note}", highlight=False, markup=False)
    for line in _sentences(start, lesson):
        console.print(line, highlight=False, markup=False)


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
        "maxNumSeqs": settings.max_num_seqs,
        "maxNumBatchedTokens": settings.max_num_batched_tokens,
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
            "kvCapacityTokens": {
                "expected": lesson.after.kv_capacity_tokens,
                "low": lesson.after.kv_capacity_low_tokens,
                "high": lesson.after.kv_capacity_high_tokens,
            },
        },
    }


def _row_document(row: Row) -> dict[str, Any]:
    document = {"name": row.name, "unit": row.unit, "predicted": row.predicted, "logged": row.logged}
    band = {} if row.low is None else {"low": row.low, "high": row.high, "inside": row.is_inside}
    return {**document, **band}


def _headline(start: Start) -> str:
    request, settings, engine = start.request, start.settings, start.engine.title
    parts = (
        f"weights {request.precision}",
        f"KV cache {request.kv_precision}",
        f"{settings.max_model_len:,} tokens",
        f"at most {settings.max_num_seqs:,} requests and {settings.max_num_batched_tokens:,} tokens a step",
        f"{settings.gpu_memory_utilization_percent} % of the GPU",
    )
    where = place_words(start.gpu.name, start.split)
    return f"{request.model.name} on {where}, {engine} {request.engine.version}: {', '.join(parts)}"


def _cells(row: Row) -> tuple[str, ...]:
    difference = row.difference
    sign = "-" if difference is None else f"{'+' if difference >= 0 else '-'}{shown(abs(difference), row.unit)}"
    band = "" if row.low is None else f"{shown(row.low, row.unit)} to {shown(row.high, row.unit)}"
    inside = {None: "", True: ", inside", False: ", OUTSIDE"}[row.is_inside]
    return row.name, shown(row.predicted, row.unit), shown(row.logged, row.unit), sign, f"{band}{inside}"


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
    """Say how much memory was missing, where the log has the figures."""
    figures, failure = start.log.figures, start.log.failure
    left = None if failure is None else failure.available_kv_bytes
    needed, left = figures.kv_needed_bytes, figures.kv_bytes if left is None else left
    if needed is not None and left is not None:
        yield f"It missed {gib(needed - left)} GiB: one request needs {gib(needed)} GiB, and {gib(left)} were left."
    elif left is not None and left <= 0:
        yield f"It missed {gib(-left)} GiB and the cache of one request."
    if figures.longest_context is not None:
        yield f"The engine says that {figures.longest_context:,} tokens would fit."


def _after(figures: MemoryEstimate) -> str:
    low, high = figures.kv_capacity_low_tokens, figures.kv_capacity_high_tokens
    said = verdict(figures)
    tokens = f"{figures.kv_capacity_tokens:,} KV tokens ({low:,} to {high:,})"
    return f"The estimate after it: {tokens}; {said[0].lower()}{said[1:]}"
