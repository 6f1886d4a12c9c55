"""What the command leaves behind: every prediction as JSON lines, the figures as JSON, and the table in a document."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.accuracy.loading import Loaded
from benchmarks.accuracy.prediction import Prediction, Verdict
from benchmarks.accuracy.predictors import Column
from benchmarks.accuracy.scoring import Scored
from benchmarks.accuracy.setups import GPU_TYPE, SPECULATION, Setup
from benchmarks.accuracy.table import TableRow

BEGIN = "<!-- begin: written by `python -m benchmarks.accuracy` -->"
END = "<!-- end -->"
STARTS = ("<!-- begin starts: written by `python -m benchmarks.accuracy` -->", "<!-- end starts -->")
"""The markers of the table of reported starts."""

SGLANG = ("<!-- begin sglang: written by `python -m benchmarks.accuracy` -->", "<!-- end sglang -->")
"""The markers of the table of SGLang's starts."""

_NO_CONFIGURATION = "no configuration: "
_HIDDEN = ("config", "gpu", "checkpoint", "version", "id", "model", "draft", "possible")


def write_predictions(path: Path, loaded: Loaded, columns: Sequence[Column]) -> None:
    """Every single prediction beside its measured value, one JSON object a line; then what was left out, and why."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for line in _lines(loaded, columns):
            file.write(json.dumps(line, default=str) + "\n")


def write_figures(path: Path, rows: Sequence[TableRow], loaded: Loaded, columns: Sequence[Column]) -> None:
    """The table as JSON."""
    document = {
        "predictors": [{"name": each.name, "source": each.source, "unavailable": each.unavailable} for each in columns],
        "rows": [asdict(row) for row in rows],
        "left_out": [asdict(row) for row in loaded.left_out],
        "unreadable": [asdict(row) for row in loaded.bad],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def write_into(path: Path, text: str, first: str = BEGIN, last: str = END) -> None:
    """Put ``text`` between two markers of a document.

    Raises:
        ValueError: the document has no such pair.
    """
    document = path.read_text(encoding="utf-8")
    before, begin, rest = document.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"--write: {path} has no lines {first!r} and {last!r}")
    path.write_text(f"{before}{first}\n\n{text}\n\n{last}{after}", encoding="utf-8")


def summary(loaded: Loaded, columns: Sequence[Column]) -> Iterator[str]:
    """The lines below the table: who was asked, who could not be, and what is not in it."""
    for column in columns:
        if column.unavailable:
            yield f"- {column.name}: not run. {column.unavailable}"
        else:
            yield f"- {column.name}: {column.source}."
    known = sum(each.has_known_flags for each in loaded.scored)
    held_out = sum(each.held_out for each in loaded.scored)
    yield (
        f"- {len(loaded.scored)} starts are scored: {known} with known flags, {len(loaded.scored) - known} with assumed"
        f" ones; {held_out} held out from the fit. {len(loaded.weights)} rows of weights."
    )
    yield from _assumptions(loaded)
    if false_fits := _false_fits(loaded, columns[0]):
        yield f"- Failures that {columns[0].name} calls sure: {', '.join(false_fits)}."
    if loaded.left_out:
        reasons = Counter(row.reason.split(":")[0] for row in loaded.left_out)
        models = sorted(
            {row.reason.split(": ")[1] for row in loaded.left_out if row.reason.startswith(_NO_CONFIGURATION)}
        )
        yield f"- {len(loaded.left_out)} rows are left out: {_counted(reasons)}."
        if models:
            yield f"- Models without a configuration whose facts are certain: {', '.join(models)}."
    if loaded.bad:
        yield f"- {len(loaded.bad)} rows or files could not be read: " + "; ".join(
            f"{row.name} ({row.reason})" for row in loaded.bad[:12]
        )


def _assumptions(loaded: Loaded) -> Iterator[str]:
    """Yield what is assumed of cards without a name, of speculation, and of buffers in rows of weights."""
    nameless = [each.setup for each in loaded.scored if GPU_TYPE in each.setup.assumed]
    if nameless:
        texts = (f"{each.id} ({_possible_types(each)})" for each in nameless)
        yield f"- {len(nameless)} starts name no card; its type is assumed from its memory alone: {'; '.join(texts)}."
    drafts = [each.setup for each in loaded.scored if SPECULATION in each.setup.assumed]
    if drafts:
        texts = (f"{each.id} ({each.drafting.method})" for each in drafts if each.drafting is not None)
        yield f"- {len(drafts)} starts draft tokens in a way that no predictor is given: {'; '.join(texts)}."
    unsaid = sum(row.buffers is None for row, _ in loaded.weights)
    if unsaid:
        yield (
            f"- {unsaid} rows of weights do not say whether buffers are counted (`buffers`): it is assumed that they"
            " are not, and the table has a line for either reading."
        )


def _possible_types(setup: Setup) -> str:
    names = [each.gpu.name for each in setup.possible if each.gpu is not None]
    return f"the widest band of {', '.join(names)}" if names else f"{setup.gpu.name if setup.gpu else 'unknown'} alone"


def _false_fits(loaded: Loaded, column: Column) -> list[str]:
    """Ids of starts that failed for want of memory and that the predictor calls sure."""
    pairs = zip(loaded.scored, column.cases or [], strict=True)
    return [
        each.case.id
        for each, said in pairs
        if said.verdict is Verdict.SURE and each.case.measured.outcome.is_memory_failure
    ]


def _counted(reasons: Counter[str]) -> str:
    return "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common())


def _lines(loaded: Loaded, columns: Sequence[Column]) -> Iterator[dict[str, Any]]:
    answered = [column for column in columns if column.cases is not None and column.weights is not None]
    for number, scored in enumerate(loaded.scored):
        yield _case_line(scored) | {"predictions": {each.name: _said((each.cases or [])[number]) for each in answered}}
    for number, (row, setup) in enumerate(loaded.weights):
        yield {
            "id": row.id,
            "kind": "weights",
            "family": setup.family,
            "measured": {"bytes": row.bytes, "parameters": row.parameters, "buffers": row.buffers},
            "predictions": {each.name: _said((each.weights or [])[number]) for each in answered},
        }
    for kind, rows in (("left out", loaded.left_out), ("unreadable", loaded.bad)):
        for bad in rows:
            yield {"id": bad.name, "kind": kind, "reason": bad.reason}


def _case_line(scored: Scored) -> dict[str, Any]:
    setup, case = scored.setup, scored.case
    return {
        "id": case.id,
        "kind": case.dataset,
        "model": case.model,
        "source": case.source,
        "known_flags": scored.has_known_flags,
        "held_out": scored.held_out,
        "is_tight": scored.is_tight,
        "inputs": _inputs(setup),
        "measured": asdict(case.measured),
    }


def _inputs(setup: Setup) -> dict[str, Any]:
    names = [name for name in type(setup).__dataclass_fields__ if name not in _HIDDEN]
    return {name: getattr(setup, name) for name in names} | {
        "gpu": setup.gpu.name if setup.gpu else None,
        "possible_gpus": [each.gpu.name for each in setup.possible if each.gpu is not None],
        "total_gib": round(setup.total_gib, 3),
        "version": str(setup.version),
        "drafting": None if setup.drafting is None else asdict(setup.drafting),
    }


def _said(prediction: Prediction) -> dict[str, Any]:
    return {name: value for name, value in asdict(prediction).items() if value is not None}
