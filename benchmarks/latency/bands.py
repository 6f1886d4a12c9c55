"""From the fit to the catalogue's file: constants of each generation, and the bands of each class of GPU types."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.latency.cases import Case
from benchmarks.latency.folds import folds
from benchmarks.latency.parameters import Fitted
from benchmarks.latency.prediction import Prediction, predict
from benchmarks.latency.scoring import quantile, ratios

CONSTANTS: Final = Path(__file__).resolve().parents[2] / "operator" / "plimsoll" / "catalog" / "performance.json"
_ENOUGH_ROWS: Final = 20
"""With so many rows of a GPU type the class of its band is ``measured``."""

_LOW, _HIGH = 0.05, 0.95
_DIGITS: Final = 4

_WIDER: Final = 1.25
"""GPU types of no class with rows get edges that are so much further away: nothing is known of their generation."""

MEASURED, FAMILY, UNKNOWN = "measured", "family", "unknown"


def predictions(cases: Sequence[Case], held_out: Mapping[str, Mapping[str, Fitted]], kind: str) -> list[Prediction]:
    """Return what is predicted of each case with constants that never saw its fold."""
    names = folds(cases, kind)
    return [
        predict(case, held_out[kind][name].efficiency(case.family)) for case, name in zip(cases, names, strict=True)
    ]


def write_constants(
    cases: Sequence[Case],
    fitted: Fitted,
    held_out: Mapping[str, Mapping[str, Fitted]],
    path: Path = CONSTANTS,
) -> None:
    """Write constants and bands into the catalogue's file; generations and sources in it stay."""
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = Counter(case.gpu.name for case in cases)
    for family in document["families"]:
        family["efficiency"] = {
            name: float(f"{value:.3g}") for name, value in asdict(fitted.efficiency(family["name"])).items()
        }
        members = {case.gpu.name for case in cases if case.family == family["name"]}
        family["trust"] = FAMILY if members else UNKNOWN
        family["cards"] = {name: MEASURED for name in sorted(members) if rows[name] >= _ENOUGH_ROWS}
    document["trust"] = _bands(cases, held_out)
    path.write_text(f"{json.dumps(document, indent=1)}\n", encoding="utf-8")


def _bands(cases: Sequence[Case], held_out: Mapping[str, Mapping[str, Fitted]]) -> dict[str, Any]:
    """Return the bands: measured cards meet models and servers that are new, others are themselves what is new."""
    measured = _edges(cases, predictions(cases, held_out, "model"))
    servers = _edges(cases, predictions(cases, held_out, "source"))
    measured = {name: _around(measured[name], servers[name]) for name in measured}
    family = _edges(cases, predictions(cases, held_out, "gpu"))
    family = {name: _around(family[name], measured[name]) for name in family}
    unknown = {name: [round(low / _WIDER, 2), round(high * _WIDER, 2)] for name, (low, high) in family.items()}
    return {
        MEASURED: {"validated": True, **measured},
        FAMILY: {"validated": False, **family},
        UNKNOWN: {"validated": False, **unknown},
    }


def _edges(cases: Sequence[Case], predicted: Sequence[Prediction]) -> dict[str, list[float]]:
    """Return measured over predicted at the 5th and the 95th percentile."""
    found: dict[str, list[float]] = {}
    for name, is_ttft in (("tpot", False), ("ttft", True)):
        inverse = [1 / ratio for ratio in ratios(cases, predicted, ttft=is_ttft)]
        found[name] = [round(quantile(inverse, _LOW), 2), round(quantile(inverse, _HIGH), 2)]
    return found


def _around(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return the band that holds both: what is less known has no narrower band."""
    return [min(one[0], other[0]), max(one[1], other[1])]
