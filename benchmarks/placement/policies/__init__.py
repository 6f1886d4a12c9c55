"""Other ways to place a fleet, for comparison. Each is a solver over the same options and the same ledger."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.placement.policies.by_programme import solve_by_exact_mix, solve_by_type
from benchmarks.placement.policies.one_by_one import (
    best_fit,
    first_fit,
    first_fit_decreasing,
    gpustack,
    least_fragments,
)
from plimsoll.adapters.highs import fleetwide
from plimsoll.placement.solvers import SOLVERS, Solver

POLICIES: dict[str, Solver] = {
    "first-fit": first_fit,
    "best-fit": best_fit,
    "ffd": first_fit_decreasing,
    "fgd-like": least_fragments,
    "gpustack": gpustack,
    "type-ilp": solve_by_type,
    "exact-mix": solve_by_exact_mix,
}
"""The policies by name. ``exact-mix`` is no peer: it packs the optimum's own mix, and shows that the bound is reached.
"""


def all_solvers() -> Mapping[str, Solver]:
    """Return the policies, and every solver that the operator has."""
    return {**POLICIES, **SOLVERS, "fleetwide": fleetwide()}
