"""``python -m benchmarks.mutants``: change the decision code in many small ways, and count what the tests notice."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutants.areas import AREAS
from benchmarks.mutants.mutant import Mutant, Verdict, equivalents, stale
from benchmarks.mutants.running import NotGreen, Run, copied_tree
from benchmarks.mutants.table import survivors, table

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = 120
"""Mutants of each area in a usual run: three areas take less than an hour on 2 cores."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. The exit status is 2 where nothing could be measured; survivors do not make it fail."""
    asked = _parser().parse_args(arguments)
    found: dict[str, list[tuple[Mutant, Verdict]]] = {}
    try:
        with copied_tree(ROOT):
            for name in asked.only or AREAS:
                found[name] = []
                for result in _run(name, asked).results(_say):
                    found[name].append(result)
    except NotGreen as error:
        _say(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        _say("Interrupted: this is what was found until now.")
    sys.stdout.write(f"{table(found)}\n\nSurvivors:\n{survivors(found) or 'none'}\n")
    for entry in stale(equivalents(), ROOT):
        _say(f"No longer in {entry.file}, remove it from the known equivalents: {entry.before}")
    return 0


def _run(name: str, asked: argparse.Namespace) -> Run:
    modules = tuple(AREAS[name].modules(Path.cwd()))
    if asked.module:
        modules = tuple(module for module in modules if Path(module).stem in asked.module)
    return Run(AREAS[name], modules, None if asked.all else asked.sample, asked.seed, equivalents())


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(AREAS), help="this area; may be repeated")
    parser.add_argument("--module", action="append", metavar="NAME", help="this module of an area; may be repeated")
    parser.add_argument("--sample", type=int, default=SAMPLE, metavar="N", help=f"mutants of an area, usually {SAMPLE}")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="chooses the sample, usually 0")
    parser.add_argument("--all", action="store_true", help="every mutant, which takes hours")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
