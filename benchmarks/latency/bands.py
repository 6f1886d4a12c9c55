"""From the fit to the catalogue's file: constants of each generation, bands of each kind of weights and load."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path
from typing import Any, Final

from benchmarks.latency.cases import Case
from benchmarks.latency.folds import folds
from benchmarks.latency.parameters import Fitted
from benchmarks.latency.prediction import Prediction, predict
from benchmarks.latency.scoring import quantile, weighted_quantile
from plimsoll.domain.cluster.gpus import MANY_SEQUENCES, Vendor
from plimsoll.performance.slo import TPOT_QUARTER, TTFT_QUARTER

CONSTANTS: Final = Path(__file__).resolve().parents[2] / "operator" / "plimsoll" / "catalog" / "performance.json"
ENOUGH_ROWS: Final = 20
"""With so many rows of a GPU type its class is ``measured``; of a kind of weights and load, it is validated."""

_WIDER: Final = 1.25
"""Cards of the class ``unknown`` get edges that are so much further away: nothing is known of their kernels."""

MEASURED, FAMILY, UNKNOWN = "measured", "family", "unknown"
FEW, MANY = "few", "many"

Edges = tuple[float, float]
"""Logarithms of measured over predicted at both edges of a band."""


def predictions(cases: Sequence[Case], held_out: Mapping[str, Mapping[str, Fitted]], kind: str) -> list[Prediction]:
    """Return what is predicted of each case with constants that never saw its fold."""
    names = folds(cases, kind)
    return [
        predict(case, held_out[kind][name].efficiency(case.family)) for case, name in zip(cases, names, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Level:
    """Cells of one fineness: what a case belongs to, and how many groups of rows pull as much as the coarser level."""

    key: Callable[[Case], tuple[str, ...]]
    pull: float


def load_of(case: Case) -> str:
    """Return whether an engine runs few or many sequences."""
    return MANY if case.load.running > MANY_SEQUENCES * case.split.data_parallel else FEW


def _kind(case: Case) -> tuple[str, ...]:
    return str(case.work.kind), load_of(case)


def _of_family(case: Case) -> tuple[str, ...]:
    return str(case.work.kind), load_of(case), case.family


def _experts(case: Case) -> tuple[str, ...]:
    return str(case.work.kind).split()[0], load_of(case)


@dataclass(frozen=True, slots=True)
class Figure:
    """How the band of one figure is made: its tails, its levels from coarse to fine, and where its upper quarter is."""

    is_ttft: bool
    tail: float
    quarter: float
    levels: tuple[Level, ...]


TPOT: Final = Figure(is_ttft=False, tail=0.05, quarter=TPOT_QUARTER, levels=(Level(_of_family, 6),))
TTFT: Final = Figure(is_ttft=True, tail=0.03, quarter=TTFT_QUARTER, levels=(Level(_experts, 6), Level(_kind, 12)))
"""Chosen so that bands made without a source hold 88 % of its rows or more, and are narrow (docs/latency.md)."""


@dataclass(frozen=True, slots=True)
class Bands:
    """The bands of one figure: of everything, and of each cell of the finest level with its number of rows."""

    usual: Edges
    cells: Mapping[tuple[str, ...], tuple[Edges, int]]
    key: Callable[[Case], tuple[str, ...]]

    def edges(self, case: Case) -> Edges:
        """Return the edges for a case."""
        found = self.cells.get(self.key(case))
        return self.usual if found is None else found[0]


def bands_of(cases: Sequence[Case], answers: Sequence[Sequence[Prediction]], figure: Figure) -> Bands:
    """Return the bands from the errors of held-back predictions.

    Rows of one source, model and GPU type are much alike: a group of n of them counts as the root of n. A cell with few
    groups is drawn towards the coarser level that holds it.
    """
    errors = [_errors(cases, each, figure) for each in answers]
    scored = [place for place, each in enumerate(errors[0]) if each is not None]
    sizes = Counter(_group(cases[place]) for place in scored)

    def edges(places: Sequence[int]) -> Edges:
        values = [each[place] or 0.0 for each in errors for place in places]
        weights = [sizes[_group(cases[place])] ** -0.5 for _ in errors for place in places]
        return weighted_quantile(values, weights, figure.tail), weighted_quantile(values, weights, 1 - figure.tail)

    usual = edges(scored)
    found: dict[tuple[str, ...], Edges] = {}
    counts: dict[tuple[str, ...], int] = {}
    for level in figure.levels:
        members: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for place in scored:
            members[level.key(cases[place])].append(place)
        finer = {}
        for key, places in members.items():
            groups = len({_group(cases[place]) for place in places})
            coarser = next((found[up] for up in found if _holds(up, key)), usual)
            finer[key] = _drawn(edges(places), coarser, groups / (groups + level.pull))
        found, counts = finer, {key: len(places) for key, places in members.items()}
    return Bands(usual, {key: (found[key], counts[key]) for key in found}, figure.levels[-1].key)


def _holds(coarse: tuple[str, ...], fine: tuple[str, ...]) -> bool:
    return fine[0].startswith(coarse[0]) and fine[1] == coarse[1]


def _drawn(own: Edges, coarser: Edges, share: float) -> Edges:
    return tuple(share * each + (1 - share) * other for each, other in zip(own, coarser, strict=True))  # type: ignore[return-value]


def _group(case: Case) -> Hashable:
    return case.row.source, case.row.model, case.row.precision, case.row.gpu


def _errors(cases: Sequence[Case], predicted: Sequence[Prediction], figure: Figure) -> list[float | None]:
    """Return the logarithm of measured over predicted of every case; None where the figure is not scored."""
    found: list[float | None] = []
    for case, each in zip(cases, predicted, strict=True):
        measured = case.row.scored_ttft if figure.is_ttft else case.row.tpot
        value = each.ttft if figure.is_ttft else each.tpot
        found.append(None if measured is None or value is None else log(measured / value))
    return found


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many rows are inside bands that were made without their source, and how many above their upper quarter.

    ``width`` is the median of upper over lower edge.
    """

    inside: int
    above_quarter: int
    rows: int
    width: float


def coverage_of_new_sources(
    cases: Sequence[Case], answers: Sequence[Sequence[Prediction]], figure: Figure
) -> dict[str, Coverage]:
    """Return, for each source and for all, how the bands of all other sources cover its rows.

    The first of ``answers`` is what is compared: predictions with the source held back.
    """
    errors = _errors(cases, answers[0], figure)
    widths: dict[str, list[float]] = defaultdict(list)
    inside: Counter[str] = Counter()
    above: Counter[str] = Counter()
    for source in sorted({case.row.source for case in cases}):
        kept = [place for place, case in enumerate(cases) if case.row.source != source]
        bands = bands_of(
            [cases[place] for place in kept], [[each[place] for place in kept] for each in answers], figure
        )
        for case, error in zip(cases, errors, strict=True):
            if case.row.source == source and error is not None:
                low, high = bands.edges(case)
                for name in (source, "all"):
                    widths[name].append(high - low)
                    inside[name] += low <= error <= high
                    above[name] += error > figure.quarter * high
    return {
        name: Coverage(inside[name], above[name], len(each), exp(quantile(each, 0.5))) for name, each in widths.items()
    }


def write_constants(
    cases: Sequence[Case],
    fitted: Fitted,
    held_out: Mapping[str, Mapping[str, Fitted]],
    path: Path = CONSTANTS,
) -> None:
    """Write constants and bands into the catalogue's file; generations and sources in it stay.

    AMD's cards keep the class ``unknown``: all their rows are of one source, so that no other one judges them.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = Counter(case.gpu.name for case in cases)
    for family in document["families"]:
        family["efficiency"] = {
            name: float(f"{value:.3g}") for name, value in asdict(fitted.efficiency(family["name"])).items()
        }
        members = {
            case.gpu.name for case in cases if case.family == family["name"] and case.gpu.vendor is not Vendor.AMD
        }
        family["trust"] = FAMILY if members else UNKNOWN
        family["cards"] = {name: MEASURED for name in sorted(members) if rows[name] >= ENOUGH_ROWS}
    answers = [predictions(cases, held_out, kind) for kind in ("source", "model")]
    document["bands"] = {
        "validated_rows": ENOUGH_ROWS,
        "wider": {UNKNOWN: _WIDER},
        "tpot": plain(bands_of(cases, answers, TPOT)),
        "ttft": plain(bands_of(cases, answers, TTFT)),
    }
    path.write_text(f"{narrow(json.dumps(document, indent=1))}\n", encoding="utf-8")


def plain(bands: Bands) -> dict[str, Any]:
    """Return the bands of one figure as the catalogue holds them."""
    return {
        "usual": _factors(bands.usual),
        "cells": [
            dict(zip(("weights", "load", "family"), key, strict=False)) | {"edges": _factors(edges), "rows": rows}
            for key, (edges, rows) in sorted(bands.cells.items())
        ],
    }


def _factors(edges: Edges) -> list[float]:
    """Return edges as factors. A band holds its estimate."""
    return [min(round(exp(edges[0]), 2), 0.95), max(round(exp(edges[1]), 2), 1.05)]


def narrow(text: str) -> str:
    """Return JSON with the innermost lists and cells on one line each."""
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    return re.sub(r"\{\s+(\"weights\"[^{}]*?)\s+\}", lambda found: f"{{{' '.join(found[1].split())}}}", text)
