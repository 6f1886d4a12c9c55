"""The rows that a fold holds back: all of one GPU type, of all models of one shape, or of one source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.latency.cases import Case
from benchmarks.latency.parameters import Fitted
from benchmarks.latency.rows import DATA
from plimsoll.domain.cluster.gpus import Vendor

HELD_OUT: Final = DATA / "held_out.json"
FEW: Final = "few rows"
_FEWEST_ROWS: Final = 5
"""Models, GPU types and sources with fewer rows are held back together."""

_LARGEST: Final = "aiconfigurator"


def shape(case: Case) -> str:
    """Return the shape that a model shares with its derivatives: layers, width and experts."""
    experts = 0 if case.model.experts is None else case.model.experts.experts
    return f"{case.model.layers} x {case.model.hidden}" + (f" with {experts} experts" if experts else "")


def series(case: Case) -> str:
    """Return the series of runs: the source, and the release where one source has most of the rows."""
    row = case.row
    if row.source == _LARGEST:
        return f"{_LARGEST} {row.release}"
    return f"{row.source} {row.gpu}" if case.gpu.vendor is Vendor.AMD else row.source


KINDS: Final[Mapping[str, Callable[[Case], str]]] = {
    "gpu": lambda case: case.gpu.name,
    "model": shape,
    "source": series,
}


def folds(cases: Sequence[Case], kind: str) -> list[str]:
    """Return the fold of every case: what would have to be held back for it to be unseen."""
    names = [KINDS[kind](case) for case in cases]
    sizes = Counter(names)
    return [name if sizes[name] >= _FEWEST_ROWS else FEW for name in names]


def read_held_out(path: Path = HELD_OUT) -> dict[str, dict[str, Fitted]]:
    """Return the constants of every fold, by kind and name."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return {
        kind: {name: Fitted(each["common"], each["families"]) for name, each in found.items()}
        for kind, found in document["folds"].items()
    }


def write_held_out(found: Mapping[str, Mapping[str, Fitted]], path: Path = HELD_OUT) -> None:
    """Write the constants of every fold."""
    document = {
        "about": "constants fitted without the rows of the fold, as logarithms of ratios to the expected values",
        "folds": {kind: {name: _plain(each) for name, each in folds.items()} for kind, folds in found.items()},
    }
    path.write_text(f"{json.dumps(document, indent=1)}\n", encoding="utf-8")


def _plain(fitted: Fitted) -> dict[str, Any]:
    return {
        "common": _rounded(fitted.common),
        "families": {family: _rounded(own) for family, own in fitted.families.items()},
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}
