"""Every formula of an estimate with its numbers: ``plimsoll estimate --why``."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from plimsoll.domain.outcomes import Rejection
from plimsoll.domain.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.engines.registry import engine_of
from plimsoll.memory.steps import Step
from plimsoll.placement.sizing import Sized


def print_working(console: Console, request: Request, answer: Sized) -> None:
    """Print one line for each step: the term, its formula with numbers, and the result."""
    table = Table("TERM", "HOW", "GiB", box=None, show_lines=False)
    table.columns[2].justify = "right"
    for step in _steps(request, answer):
        size = "" if step.size_bytes is None else f"{step.size_bytes / GIB:.3f}"
        table.add_row(step.term, step.formula, size, style="bold" if step.is_total else None)
    console.print(table)


def working_document(request: Request, answer: Sized | Rejection) -> list[dict[str, Any]]:
    """Return the same as data; empty if there is no estimate."""
    if isinstance(answer, Rejection):
        return []
    return [
        {"term": step.term.strip(), "how": step.formula, "bytes": step.size_bytes, "total": step.is_total}
        for step in _steps(request, answer)
    ]


def _steps(request: Request, answer: Sized) -> tuple[Step, ...]:
    return engine_of(request.engine.name).working(request, answer.gpu, answer.split, answer.settings)
