"""The fit: the constants that make the model's errors small, kept near what is expected of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt
from typing import Final

import numpy as np
from scipy.optimize import least_squares

from benchmarks.latency.cases import Case
from benchmarks.latency.parameters import COMMON, FAMILY, FOLLOWERS, Fitted
from benchmarks.latency.vectors import NAMES, Stack, Vector
from plimsoll.performance.hardware_speed import speed_of

_TPOT_SCALE: Final = 0.12
_TTFT_SCALE: Final = 0.25
"""Logarithms of errors that the fit takes for usual; beyond them a row pulls less and less (Cauchy)."""

_TTFT_WEIGHT: Final = 0.5
_MOST_ROWS_OF_A_GROUP: Final = 30
"""Rows of one source, model and GPU type are much alike: so many of them are fitted, evenly chosen."""

_SYNCHRONOUS_WEIGHT: Final = 0.3
"""Releases before 0.14 spend up to twice the time on the host, in ways that no constant follows, and few run them."""

_STEP: Final = 1e-5
_EVALUATIONS: Final = 50


@dataclass(frozen=True, slots=True)
class _Problem:
    """Cases with the roots of their weights, and the generation of each."""

    cases: tuple[Case, ...]
    stack: Stack
    families: tuple[str, ...]
    members: Vector
    tpot: Vector
    ttft: Vector
    tpot_weights: Vector
    ttft_weights: Vector

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

    def constants(self, x: Vector) -> Vector:
        """Return every constant of every case."""
        fitted = self.unpack(x)
        found = [fitted.efficiency(family) for family in self.families]
        return np.array([[getattr(each, name) for each in found] for name in NAMES])[:, self.members]

    def errors(self, constants: Vector) -> Vector:
        """Return weighted errors: of times per token, then of times to the first token."""
        tpot, ttft = self.stack.times(constants)
        return np.concatenate(
            [
                self.tpot_weights * _robust(np.log(tpot / self.tpot) / _TPOT_SCALE),
                self.ttft_weights * _robust(np.log(ttft / self.ttft) / _TTFT_SCALE),
            ]
        )

    def residuals(self, x: Vector) -> Vector:
        """Return weighted errors, and how far the parameters are from what is expected."""
        return np.concatenate([self.errors(self.constants(x)), x / self.spreads])

    def slopes(self, x: Vector) -> Vector:
        """Return the slopes of all residuals. A constant's logarithm is a sum of parameters, so its slope is shared."""
        constants = self.constants(x)
        base, by_constant = self.errors(constants), {}
        for place, name in enumerate(NAMES):
            moved = constants.copy()
            moved[place] *= exp(_STEP)
            by_constant[name] = (self.errors(moved) - base) / _STEP
        found = np.zeros((len(base) + len(x), len(x)))
        found[len(base) :] = np.diag(1 / self.spreads)
        for place, name in enumerate(COMMON):
            found[: len(base), place] = by_constant[name]
        for number in range(len(self.families)):
            own = np.tile(self.members == number, 2)
            for place, name in enumerate(FAMILY, self.start(number)):
                slope = sum((by_constant[each] for each in FOLLOWERS.get(name, ())), by_constant[name])
                found[: len(base), place] = np.where(own, slope, 0.0)
        return found


def fit(cases: Sequence[Case], start: Fitted | None = None) -> Fitted:
    """Return the constants fitted to the cases. Generations of ``start`` without cases are left out."""
    problem = _problem(cases)
    found = least_squares(
        problem.residuals,
        problem.pack(start or Fitted()),
        jac=problem.slopes,
        max_nfev=_EVALUATIONS,
        x_scale=problem.spreads,
        ftol=1e-5,
    )
    return problem.unpack(found.x)


def fit_factors(cases: Sequence[Case], spreads: Mapping[str, float]) -> dict[str, float]:
    """Return the logarithms of the factors on the catalogue's constants that make the errors of these cases small.

    ``spreads`` says how far rows may pull each of them.
    """
    problem = _problem(cases)
    base = np.array([[getattr(speed_of(case.gpu).efficiency, name) for case in problem.cases] for name in NAMES])
    spread = np.array([spreads[name] for name in NAMES])

    def constants(x: Vector) -> Vector:
        return base * np.exp(x)[:, None]

    def residuals(x: Vector) -> Vector:
        return np.concatenate([problem.errors(constants(x)), x / spread])

    def slopes(x: Vector) -> Vector:
        errors = problem.errors(constants(x))
        moved = [(problem.errors(constants(x + _STEP * unit)) - errors) / _STEP for unit in np.eye(len(x))]
        return np.concatenate([np.array(moved).T, np.diag(1 / spread)])

    start = np.zeros(len(NAMES))
    found = least_squares(residuals, start, jac=slopes, max_nfev=_EVALUATIONS, x_scale=spread, ftol=1e-5)
    return dict(zip(NAMES, map(float, found.x), strict=True))


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
    scored = [case.row.scored_ttft for case in chosen]
    old = np.array([case.row.synchronous for case in chosen])
    roots = np.sqrt(np.array(weights) * np.where(old, _SYNCHRONOUS_WEIGHT, 1.0))
    return _Problem(
        cases=tuple(chosen),
        stack=Stack(chosen),
        families=families,
        members=np.array([families.index(case.family) for case in chosen]),
        tpot=np.array([case.row.tpot for case in chosen]),
        ttft=np.array([each or 1.0 for each in scored]),
        tpot_weights=roots,
        ttft_weights=roots * sqrt(_TTFT_WEIGHT) * np.array([each is not None for each in scored]),
    )


def _robust(error: Vector) -> Vector:
    """Return errors whose squares grow like the logarithm of their size where they are large (Cauchy)."""
    return np.copysign(np.sqrt(np.log1p(error * error)), error)


def without(fitted: Fitted, families: set[str]) -> Fitted:
    """Return the constants with only those generations."""
    return replace(fitted, families={name: own for name, own in fitted.families.items() if name in families})
