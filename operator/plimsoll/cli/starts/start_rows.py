"""The terms of a logged start: predicted against logged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from plimsoll.cli.starts.logged_start import Start
from plimsoll.cli.starts.start_lesson import available_bytes
from plimsoll.domain.units import GIB


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one GPU, predicted and logged; None where there is none.

    Figures are bytes, or tokens or requests where ``unit`` says so. ``low`` and ``high`` are the edges of the band.
    """

    name: str
    predicted: float | None
    logged: float | None
    low: float | None = None
    high: float | None = None
    unit: str = "bytes"

    @property
    def is_inside(self) -> bool | None:
        """Whether the logged figure is inside the band; None where there is no band or no figure."""
        if self.logged is None or self.low is None or self.high is None:
            return None
        return self.low <= self.logged <= self.high

    @property
    def difference(self) -> float | None:
        """Logged less predicted; None where one of them is missing."""
        return None if self.predicted is None or self.logged is None else self.logged - self.predicted


def rows_of(start: Start) -> tuple[Row, ...]:
    """Return the rows that have a predicted or a logged figure."""
    rows = (*_memory_rows(start), *_term_rows(start), _cache_row(start), *_token_rows(start))
    return tuple(row for row in rows if row.logged is not None or row.predicted)


def _memory_rows(start: Start) -> Iterator[Row]:
    yield Row("memory of the GPU", start.gpu.usable_bytes, start.log.figures.total_bytes)
    yield Row("the engine may use", start.figures.budget_bytes, None)


def _term_rows(start: Start) -> Iterator[Row]:
    """Yield the terms. Of several stages the logs mix the ranks, so nothing is predicted for them."""
    figures, logged = start.figures, start.log.figures
    weights, outside = figures.weights_bytes + figures.adapters_bytes, figures.overhead_bytes
    staged = start.split.pipeline_parallel > 1
    yield Row("weights", None if staged else weights, logged.weights_bytes)
    if logged.consumed_bytes is not None:
        yield Row("weights and memory outside PyTorch", None if staged else weights + outside, logged.consumed_bytes)
    yield Row("activations", None if staged else figures.activations_bytes, logged.activations_bytes)
    yield Row("CUDA graphs, charged", None if staged else figures.cuda_graphs_bytes, logged.charged_graphs_bytes)
    yield Row("CUDA graphs, captured", None, logged.graphs_bytes)
    yield Row("memory outside PyTorch", None if staged else outside, logged.outside_torch_bytes)


def _cache_row(start: Start) -> Row:
    pair = available_bytes(start)
    predicted = start.figures.available_kv_bytes if pair is None else pair[0]
    logged = None if pair is None else pair[1]
    if pair is None and start.log.failure is not None:
        logged = start.log.failure.available_kv_bytes
    figures = start.figures
    return Row("KV cache", predicted, logged, predicted - figures.margin_bytes, predicted + figures.slack_bytes)


def _token_rows(start: Start) -> Iterator[Row]:
    figures, logged, engines = start.figures, start.log.figures, start.split.data_parallel
    # Some releases report another figure than the tokens of full-length requests: the band is counted as theirs.
    factor = figures.kv_reported_tokens / figures.kv_capacity_tokens if figures.kv_capacity_tokens > 0 else 1.0
    low, high = (round(each * factor / engines) for each in (_low(start), figures.kv_capacity_high_tokens))
    yield Row("KV tokens", figures.kv_reported_tokens // engines, logged.kv_tokens, low, high, "tokens")
    held = max(0, figures.kv_capacity_tokens) / engines / start.settings.max_model_len
    yield Row("requests of full length", held, logged.concurrency, unit="requests")


def _low(start: Start) -> int:
    return max(0, start.figures.kv_capacity_low_tokens)


def shown(value: float | None, unit: str) -> str:
    """Return a figure for a table; a dash for none."""
    if value is None:
        return "-"
    return {"bytes": f"{value / GIB:.2f}", "tokens": f"{value:,.0f}", "requests": f"{value:.2f}x"}[unit]
