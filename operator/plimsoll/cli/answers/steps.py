"""Every formula of an estimate with its numbers, as rows that a table, a page or a document shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from plimsoll.domain.decisions.outcomes import MemoryEstimate, Rejection
from plimsoll.domain.decisions.terms import Term
from plimsoll.placement.options.sizing import Sized


class FormulaRow(NamedTuple):
    """One row: a label, a formula with its numbers, and bytes. Rows of a term add up to the total that follows them."""

    label: str
    formula: str
    size_bytes: int | None = None
    is_total: bool = False


def working_document(answer: Sized | Rejection) -> list[dict[str, Any]]:
    """Return the steps as data; empty if there is no estimate."""
    if isinstance(answer, Rejection):
        return []
    return [
        {"term": step.label.strip(), "how": step.formula, "bytes": step.size_bytes, "total": step.is_total}
        for step in steps(answer)
    ]


def steps(answer: Sized) -> tuple[FormulaRow, ...]:
    """Return the steps for the stage that runs out of memory first."""
    figures = answer.figures
    return (
        FormulaRow("budget", _budget(answer), figures.budget_bytes, is_total=True),
        *(step for term in figures.summands for step in _term_steps(term)),
        *_totals(figures, _outside(answer)),
    )


def _budget(answer: Sized) -> str:
    settings = answer.settings
    if settings.static is None:
        return f"{answer.figures.usable_bytes:,} B usable x {settings.gpu_memory_utilization_percent} %"
    return f"what is free before the weights x {settings.static.thousandths / 1000:.3f}"


def _outside(answer: Sized) -> str:
    what = "CUDA and NCCL" if answer.settings.static is None else "CUDA, NCCL, steps, graphs and the table of requests"
    return f"{what}, outside the budget and in no sum"


def _term_steps(term: Term) -> Iterator[FormulaRow]:
    derivation = term.derive()
    for line in derivation.lines:
        yield FormulaRow(f"  {line.label}", line.formula, line.size_bytes)
    yield FormulaRow(term.name.title, derivation.formula, term.size_bytes, is_total=True)


def _totals(figures: MemoryEstimate, outside: str) -> Iterator[FormulaRow]:
    needed = " + ".join(term.name.title for term in figures.summands)
    tokens = f"{figures.kv_capacity_low_tokens:,} to {figures.kv_capacity_high_tokens:,}"
    yield FormulaRow("needed", needed, figures.expected_bytes, is_total=True)
    yield FormulaRow("margin", "upper half of the error band, to be sure", figures.margin_bytes, is_total=True)
    yield FormulaRow("left for KV", "budget - all other terms", figures.available_kv_bytes, is_total=True)
    yield FormulaRow("KV tokens", f"{figures.kv_capacity_tokens:,} ({tokens})")
    yield FormulaRow("outside", outside, figures.outside_bytes, is_total=True)
