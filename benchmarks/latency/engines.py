"""Engines other than vLLM: a factor for each constant, fitted on that engine's own rows.

Their rows are few, and of few generations. So the constants of a generation are vLLM's, and each is multiplied by one
factor that holds for all generations and stays near 1 unless rows say otherwise. A generation without rows has the
factors too, and says that nothing was measured there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Final

from benchmarks.latency.bands import ENOUGH_ROWS, FAMILY, MEASURED, TPOT, TTFT, UNKNOWN, bands_of, narrow, plain
from benchmarks.latency.cases import Case
from benchmarks.latency.folds import KINDS, folds
from benchmarks.latency.parameters import COMMON
from benchmarks.latency.parameters import FAMILY as OF_FAMILIES
from benchmarks.latency.prediction import Prediction, predict
from benchmarks.latency.rows import DATA
from plimsoll.domain.cluster.gpus import Efficiency, Vendor
from plimsoll.performance.hardware_speed import as_run_by, speed_of

ENGINE_ROWS: Final[Mapping[str, Path]] = {"sglang": DATA / "sglang.csv"}
"""The rows of each engine, by its name."""

Logs = Mapping[str, float]
"""Logarithms of factors, by the name of the constant."""

SPREADS: Final[Logs] = {name: each.spread for name, each in (*COMMON.items(), *OF_FAMILIES.items())}
"""How far rows may pull a factor: as far as they may pull vLLM's constants from what kernels reach."""


def held_out_path(engine: str) -> Path:
    """Return the file of the factors that were fitted without each fold."""
    return DATA / f"{engine}_held_out.json"


def scaled(efficiency: Efficiency, logs: Logs) -> Efficiency:
    """Return constants with their factors."""
    return replace(efficiency, **{name: getattr(efficiency, name) * exp(each) for name, each in logs.items()})


def read_held_out(engine: str) -> dict[str, dict[str, Logs]]:
    """Return the factors of every fold, by kind and name."""
    found: dict[str, dict[str, Logs]] = json.loads(held_out_path(engine).read_text(encoding="utf-8"))["folds"]
    return found


def predictions(cases: Sequence[Case], held_out: Mapping[str, Mapping[str, Logs]], kind: str) -> list[Prediction]:
    """Return what is predicted of each case with factors that never saw its fold."""
    names = folds(cases, kind)
    return [
        predict(case, scaled(speed_of(case.gpu).efficiency, held_out[kind][name]))
        for case, name in zip(cases, names, strict=True)
    ]


def in_the_fit(engine: str, cases: Sequence[Case]) -> list[Prediction]:
    """Return what is predicted of each case with the constants that the catalogue has for an engine."""
    return [predict(case, speed_of(as_run_by(case.gpu, engine)).efficiency) for case in cases]


def write_held_out(engine: str, found: Mapping[str, Mapping[str, Logs]]) -> None:
    """Write the factors of every fold."""
    document = {
        "about": "factors fitted without the rows of the fold, as logarithms",
        "folds": {kind: {name: _rounded(each) for name, each in own.items()} for kind, own in found.items()},
    }
    held_out_path(engine).write_text(f"{json.dumps(document, indent=1)}\n", encoding="utf-8")


def write_factors(
    engine: str, cases: Sequence[Case], logs: Logs, held_out: Mapping[str, Mapping[str, Logs]], path: Path
) -> None:
    """Write factors and bands of one engine into the catalogue's file; everything else in it stays.

    A card is ``measured`` if enough of its rows have a first token that is scored. AMD's cards keep the class
    ``unknown``: all their rows are of one source.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    known = [case for case in cases if case.gpu.vendor is not Vendor.AMD]
    counts = Counter(case.gpu.name for case in known if case.row.scored_ttft is not None)
    answers = [predictions(cases, held_out, kind) for kind in ("source", "model")]
    document.setdefault("engines", {})[engine] = {
        "factors": {name: float(f"{exp(each):.3g}") for name, each in logs.items()},
        "families": dict.fromkeys(sorted({case.family for case in known}), FAMILY),
        "trust": UNKNOWN,
        "cards": {name: MEASURED for name, rows in sorted(counts.items()) if rows >= ENOUGH_ROWS},
        "bands": {
            "tpot": plain(bands_of(cases, answers, TPOT)),
            "ttft": plain(bands_of(cases, answers, TTFT)),
        },
    }
    path.write_text(f"{narrow(json.dumps(document, indent=1))}\n", encoding="utf-8")


def fold_names(cases: Sequence[Case]) -> dict[str, list[str]]:
    """Return the fold of every case for each kind of fold."""
    return {kind: folds(cases, kind) for kind in KINDS}


def _rounded(logs: Logs) -> dict[str, float]:
    return {name: round(value, 4) for name, value in logs.items()}
