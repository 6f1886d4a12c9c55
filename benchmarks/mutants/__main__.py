"""``python -m benchmarks.mutants``: change the decision code in many small ways, and count what the tests notice."""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutants.areas import AREAS
from benchmarks.mutants.changed import Lines, base_of, changed_since, seed_of
from benchmarks.mutants.mutant import Mutant, Verdict, equivalents, stale
from benchmarks.mutants.running import NotGreen, Run, copied_tree
from benchmarks.mutants.table import survivors, table

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = 50
"""Mutants of each area in a usual run: four areas take less than an hour on 2 cores."""

GATE_SECONDS = 120.0
"""The time for changed lines in ``make check``. The areas with changed lines share it."""

GATE_SAMPLE = 6
"""Mutants of an area's changed lines for which tests are looked up in that time: more would have no time left."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. The exit status is 2 where nothing could be measured.

    It is 1 where a mutant of a changed line survives. Other survivors do not make the command fail.
    """
    asked = _parser().parse_args(arguments)
    if asked.changed is None:
        asked.seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
        return _run(asked, None, math.inf)
    base = asked.changed or base_of(ROOT)
    if base is None:
        _say("Mutants of changed lines: nothing to compare with, this clone has no earlier commit.")
        return 0
    changed = changed_since(ROOT, base)
    asked.seed = seed_of(changed) if asked.seed is None else asked.seed
    return _run(asked, changed, asked.seconds)


def _run(asked: argparse.Namespace, changed: Lines | None, seconds: float) -> int:
    end, found = time.monotonic() + seconds, dict[str, list[tuple[Mutant, Verdict]]]()
    names = [name for name in asked.only or AREAS if any(_modules(name, asked, changed))]
    if not names:
        _say("Mutants of changed lines: no line of the decision code has changed.")
        return 0
    _say(f"Mutants with --seed {asked.seed}, in {' and '.join(names)}")
    random.Random(asked.seed).shuffle(names)  # noqa: S311 - a sample, no secret
    try:
        with copied_tree(ROOT):
            for done, name in enumerate(names):
                found[name] = []
                run = Run(
                    AREAS[name],
                    _modules(name, asked, changed),
                    _sample(asked, changed),
                    asked.seed,
                    equivalents(),
                    changed,
                    late=asked.late,
                )
                share = (end - time.monotonic()) / (len(names) - done)
                for result in run.results(_say, max(0.0, share)):
                    found[name].append(result)
    except NotGreen as error:
        _say(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        _say("Interrupted: this is what was found until now.")
    alive = survivors(found)
    sys.stdout.write(f"{table(found)}\n\nSurvivors:\n{alive or 'none'}\n")
    for entry in stale(equivalents(), ROOT):
        _say(f"No longer in {entry.file}, remove it from the known equivalents: {entry.before}")
    return 1 if alive and changed is not None else 0


def _sample(asked: argparse.Namespace, changed: Lines | None) -> int | None:
    """Return how many mutants of an area to choose; None for all."""
    if asked.all:
        return None
    if asked.sample is not None:
        return int(asked.sample)
    return SAMPLE if changed is None else math.ceil(GATE_SAMPLE * max(1.0, asked.seconds / GATE_SECONDS))


def _modules(name: str, asked: argparse.Namespace, changed: Lines | None) -> tuple[str, ...]:
    return tuple(
        module
        for module in AREAS[name].modules(ROOT)
        if (not asked.module or Path(module).stem in asked.module) and (changed is None or module in changed)
    )


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(AREAS), help="this area; may be repeated")
    parser.add_argument("--module", action="append", metavar="NAME", help="this module of an area; may be repeated")
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help=f"mutants of an area, usually {SAMPLE}; with --changed {GATE_SAMPLE} in {GATE_SECONDS:.0f} seconds",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="chooses the sample; usually another each time, and with --changed the same for the same lines",
    )
    parser.add_argument(
        "--no-late",
        dest="late",
        action="store_false",
        help="leave the tests out that take long: what only they notice counts as survived",
    )
    parser.add_argument("--all", action="store_true", help="every mutant, which takes hours")
    parser.add_argument(
        "--changed",
        nargs="?",
        const="",
        metavar="COMMIT",
        help="lines that differ from COMMIT; usually from where main was left, or from a day before its newest commit",
    )
    parser.add_argument(
        "--seconds", type=float, default=GATE_SECONDS, metavar="N", help=f"with --changed, usually {GATE_SECONDS:.0f}"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
