"""Other ways to place a fleet, for comparison. Each is a solver over the same options and the same ledger."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

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


def all_solvers(inject: Iterable[str] = ()) -> dict[str, Solver]:
    """Return the policies, every solver of the operator, and those of ``NAME=MODULE:FACTORY``."""
    return {**POLICIES, **SOLVERS, "fleetwide": fleetwide(), **dict(map(_made, inject))}


def _made(entry: str) -> tuple[str, Solver]:
    """Return the name and the solver that a factory makes.

    Raises:
        ValueError: the entry has another form.
    """
    name, _, factory = entry.partition("=")
    module, _, attribute = factory.partition(":")
    if not (name and module and attribute):
        raise ValueError(f"--inject {entry}: give NAME=MODULE:FACTORY, e.g. mine=my_solvers.fast:make")
    solver: Solver = getattr(import_module(module), attribute)()
    return name, solver
