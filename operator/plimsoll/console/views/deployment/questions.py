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


DASHBOARD = "plimsoll"
"""The uid of the chart's Grafana dashboard, whose variables are ``namespace`` and ``deployment``."""


def questions_about(row: Row, spec: Spec, grafana_url: str | None = None) -> tuple[Question, ...]:
    """Return the links.

    Args:
        row: the deployment in short.
        spec: as the API server has it; it may hold anything.
        grafana_url: root of a Grafana with the chart's dashboard; None for no link to it.
    """
    found = tuple(_questions(row, spec))
    return found if grafana_url is None else (*found, _dashboard(row, grafana_url))


def _dashboard(row: Row, root: str) -> Question:
    chosen = urlencode({"var-namespace": row.key.namespace, "var-deployment": row.key.name})
    return Question("Over time in Grafana", f"{root}/d/{DASHBOARD}?{chosen}")


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
