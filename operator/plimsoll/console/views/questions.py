"""Links from a deployment to the views that answer questions about it, with its figures filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from plimsoll.console.views.rows import Row
from plimsoll.domain.spot import card_name

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """A link: its words and its address."""

    words: str
    url: str


def questions_about(row: Row, spec: Spec) -> tuple[Question, ...]:
    """Return the links. ``spec`` is as the API server has it, and may hold anything."""
    return tuple(_questions(row, spec))


def _questions(row: Row, spec: Spec) -> Iterator[Question]:
    load = {
        name: str(value)
        for name, field in (("context", "contextLength"), ("concurrency", "concurrency"))
        if isinstance(value := spec.get(field), int)
    }
    gpu = {} if row.gpu_type is None else {"gpu": card_name(row.gpu_type)}
    split = {} if row.split is None else {"tp": str(row.split.tensor_parallel)}
    yield Question("Size it in the calculator", f"/calculator?{urlencode({'model': row.model, **load, **gpu})}")
    if gpu:
        wanted = {"model": row.model, **gpu, **split, **load}
        yield Question("Simulate a load", f"/simulator?{urlencode(wanted)}")
    if row.pools and "totalConcurrency" not in spec:  # which lets the planner choose the number of replicas
        change = urlencode({"change": f"{row.key}.replicas={_replicas(row) + 1}"})
        yield Question("What would one more replica change?", f"/what-if?{change}")


def _replicas(row: Row) -> int:
    return sum(pool.replicas for pool in row.pools if not pool.is_retiring)
