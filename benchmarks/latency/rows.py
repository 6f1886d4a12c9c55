"""The measured rows: one deployment under one load, and what it took."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plimsoll.performance.model import USUAL_ROUNDS

DATA: Final = Path(__file__).resolve().parent / "data"
ROWS: Final = DATA / "rows.csv"

_MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True)
class Row:
    """One measured row, in seconds. ``data/README.md`` explains the columns.

    ``ttft_left_out`` says why the time to the first token is not scored; empty where it is. ``is_step`` means that the
    time per token is the median of steps, not of requests.
    """

    number: int
    source: str
    release: str
    synchronous: bool
    gpu: str
    model: str
    precision: str
    kv_precision: str
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    expert_parallel: bool
    prompt: float
    output: float
    running: float
    rounds: float
    batched_tokens: int
    tpot: float
    is_step: bool
    ttft: float | None
    ttft_left_out: str
    eager: bool = False

    @property
    def scored_ttft(self) -> float | None:
        """The time to the first token if it is scored."""
        return None if self.ttft_left_out else self.ttft


def read_rows(path: Path = ROWS) -> list[Row]:
    """Read all rows of a file.

    Raises:
        ValueError: a figure is no number; the message names the line.
    """
    with path.open(encoding="utf-8", newline="") as file:
        return [_row(number, fields) for number, fields in enumerate(csv.DictReader(file))]


def _row(number: int, fields: Mapping[str, str]) -> Row:
    try:
        return Row(
            number=number,
            source=fields["source"],
            release=fields["release"],
            synchronous=fields["synchronous"] == "1",
            gpu=fields["gpu"],
            model=fields["model"],
            precision=fields["precision"],
            kv_precision=fields["kv"],
            tensor_parallel=int(fields["tp"]),
            pipeline_parallel=int(fields["pp"]),
            data_parallel=int(fields["dp"]),
            expert_parallel=fields["ep"] == "1",
            prompt=float(fields["prompt"]),
            output=float(fields["output"]),
            running=float(fields["running"]),
            rounds=float(fields["rounds"] or USUAL_ROUNDS),
            batched_tokens=int(fields["batched"]),
            tpot=float(fields["tpot_ms"]) / _MILLISECONDS,
            is_step=fields["tpot_is"] == "step",
            ttft=float(fields["ttft_ms"]) / _MILLISECONDS if fields["ttft_ms"] else None,
            ttft_left_out=fields["ttft_left_out"],
            eager=fields.get("eager") == "1",
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"row {number + 1}: {error}; see benchmarks/latency/data/README.md") from error
