"""``python -m benchmarks.latency.fit``: fit the constants, hold back models and GPU types, write the catalogue's file.

With ``--engines`` it leaves vLLM's constants as they are, and fits the factors of the other engines on them.

It needs scipy, which ``make latency-fit`` adds to the environment.
"""

from __future__ import annotations

import sys
import time

from benchmarks.latency import engines
from benchmarks.latency.bands import CONSTANTS, write_constants
from benchmarks.latency.cases import Case, cases_of
from benchmarks.latency.fitting import fit, fit_factors, without
from benchmarks.latency.folds import KINDS, folds, write_held_out
from benchmarks.latency.parameters import Fitted
from benchmarks.latency.rows import read_rows


def main() -> int:
    """Run the command."""
    cases = cases_of(read_rows())
    begin = time.monotonic()
    fitted = fit(cases)
    _say(f"all {len(cases)} rows: {time.monotonic() - begin:.0f} s")
    held_out: dict[str, dict[str, Fitted]] = {}
    for kind in KINDS:
        held_out[kind] = _held_out(cases, kind, fitted)
        _say(f"held back each {kind}: {time.monotonic() - begin:.0f} s")
    write_held_out(held_out)
    write_constants(cases, fitted, held_out)
    return 0


def fit_engines() -> int:
    """Fit the factors of the other engines on the constants that the catalogue has."""
    for engine in engines.ENGINE_ROWS:
        _fit_engine(engine)
        _say(f"{engine}: fitted, with every fold held back")
    return 0


def _fit_engine(engine: str) -> None:
    """Fit the factors of one engine, with every fold held back once."""
    cases = cases_of(read_rows(engines.ENGINE_ROWS[engine]))
    found: dict[str, dict[str, engines.Logs]] = {}
    for kind, names in engines.fold_names(cases).items():
        found[kind] = {
            name: fit_factors([case for case, each in zip(cases, names, strict=True) if each != name], engines.SPREADS)
            for name in sorted(set(names))
        }
    engines.write_held_out(engine, found)
    engines.write_factors(engine, cases, fit_factors(cases, engines.SPREADS), found, CONSTANTS)


def _held_out(cases: list[Case], kind: str, fitted: Fitted) -> dict[str, Fitted]:
    """Return the constants without each fold, begun from the constants of all rows."""
    names = folds(cases, kind)
    found: dict[str, Fitted] = {}
    for name in sorted(set(names)):
        kept = [case for case, each in zip(cases, names, strict=True) if each != name]
        start = without(fitted, {case.family for case in kept})
        found[name] = fit(kept, start)
    return found


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(fit_engines() if sys.argv[1:] == ["--engines"] else main())
