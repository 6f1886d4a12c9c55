"""The fit: the constants that make the model's errors small, kept near what is expected of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import copysign, log, sqrt
from typing import Any, Final

import numpy as np
from scipy.optimize import least_squares

from benchmarks.latency.cases import Case
from benchmarks.latency.parameters import COMMON, FAMILY, Fitted
from benchmarks.latency.prediction import predict

_TPOT_SCALE: Final = 0.12
_TTFT_SCALE: Final = 0.25
"""Logarithms of errors that the fit takes for usual; beyond them a row pulls less and less (soft L1)."""

_TTFT_WEIGHT: Final = 0.5
_MOST_ROWS_OF_A_GROUP: Final = 30
"""Rows of one source, model and GPU type are much alike: so many of them are fitted, evenly chosen."""

_STEP: Final = 2e-3

Vector = Any
"""An array of numpy, which carries no types where it is not installed."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """Cases with their weights, by generation."""

    cases: tuple[Case, ...]
    weights: tuple[float, ...]
    families: tuple[str, ...]

    def __len__(self) -> int:
        return 2 * len(self.cases)

    @property
    def size(self) -> int:
        """The number of parameters."""
        return len(COMMON) + len(FAMILY) * len(self.families)

    @property
    def spreads(self) -> Vector:
        """The spread of every parameter's logarithm."""
        own = [each.spread for each in FAMILY.values()] * len(self.families)
        return np.array([each.spread for each in COMMON.values()] + own)

    def unpack(self, x: Vector) -> Fitted:
        """Return the parameters by name."""
        common = dict(zip(COMMON, map(float, x), strict=False))
        families = {
            family: dict(zip(FAMILY, map(float, x[self.start(place) :]), strict=False))
            for place, family in enumerate(self.families)
        }
        return Fitted(common, families)

    def pack(self, fitted: Fitted) -> Vector:
        """Return the parameters as a vector."""
        found = [fitted.common[name] for name in COMMON]
        for family in self.families:
            own = fitted.families.get(family) or dict.fromkeys(FAMILY, 0.0)
            found += [own[name] for name in FAMILY]
        return np.array(found)

    @staticmethod
    def start(place: int) -> int:
        """Return where the parameters of a generation begin."""
        return len(COMMON) + len(FAMILY) * place

    def residuals(self, x: Vector, family: str | None = None, base: Vector | None = None) -> Vector:
        """Return weighted errors, twice for each case; of one ``family`` anew, the others' from ``base``."""
        found = np.zeros(len(self)) if base is None else base.copy()
        fitted = self.unpack(x)
        constants = {each: fitted.efficiency(each) for each in self.families}
        for place, (case, weight) in enumerate(zip(self.cases, self.weights, strict=True)):
            if family is not None and case.family != family:
                continue
            each = predict(case, constants[case.family])
            found[2 * place] = sqrt(weight) * _robust(log(each.tpot / case.row.tpot) / _TPOT_SCALE)
            if each.ttft is not None and case.row.scored_ttft is not None:
                error = log(each.ttft / case.row.scored_ttft) / _TTFT_SCALE
                found[2 * place + 1] = sqrt(_TTFT_WEIGHT * weight) * _robust(error)
        return found


def fit(cases: Sequence[Case], start: Fitted | None = None, evaluations: int = 10) -> Fitted:
    """Return the constants fitted to the cases. Generations of ``start`` without cases are left out."""
    problem = _problem(cases)
    spreads = problem.spreads

    def residuals(x: Vector) -> Vector:
        return np.concatenate([problem.residuals(x), x / spreads])

    found = least_squares(
        residuals,
        problem.pack(start or Fitted()),
        jac=lambda x: _jacobian(problem, x),
        max_nfev=evaluations,
        x_scale=spreads,
        ftol=1e-4,
    )
    return problem.unpack(found.x)


def _problem(cases: Sequence[Case]) -> _Problem:
    groups: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.row.source, case.row.model, case.row.gpu].append(case)
    sizes = Counter({key: len(group) for key, group in groups.items()})
    chosen: list[Case] = []
    weights: list[float] = []
    for key, group in groups.items():
        step = max(1.0, len(group) / _MOST_ROWS_OF_A_GROUP)
        kept = [group[int(place * step)] for place in range(int(len(group) / step))]
        chosen += kept
        weights += [sqrt(sizes[key]) / len(kept)] * len(kept)
    families = tuple(sorted({case.family for case in chosen}))
    return _Problem(tuple(chosen), tuple(weights), families)


def _jacobian(problem: _Problem, x: Vector) -> Vector:
    """Return the slopes. A generation's own parameters change the errors of its cases alone."""
    base = problem.residuals(x)
    rows = len(problem)
    slopes = np.zeros((rows + problem.size, problem.size))
    slopes[rows:] = np.diag(1 / problem.spreads)
    for place in range(problem.size):
        moved = x.copy()
        moved[place] += _STEP
        family = None
        if place >= len(COMMON):
            family = problem.families[(place - len(COMMON)) // len(FAMILY)]
        slopes[:rows, place] = (problem.residuals(moved, family, base) - base) / _STEP
    return slopes


def _robust(error: float) -> float:
    """Return an error whose square grows like its size where it is large (soft L1)."""
    return copysign(sqrt(2 * (sqrt(1 + error * error) - 1)), error)


def without(fitted: Fitted, families: set[str]) -> Fitted:
    """Return the constants with only those generations."""
    return replace(fitted, families={name: own for name, own in fitted.families.items() if name in families})
