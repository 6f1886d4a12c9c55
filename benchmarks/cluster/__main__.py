"""``python -m benchmarks.cluster``: run the scenarios one after the other and print one table. Takes minutes each."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

from benchmarks.cluster.running import run
from benchmarks.cluster.scenarios import SCENARIOS, Figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 where an object was not served in time."""
    asked = _parser().parse_args(arguments)
    measured: dict[str, Figures] = {}
    for name in asked.scenario or SCENARIOS:
        scenario = SCENARIOS[name]
        scenario = replace(scenario, objects=asked.objects or scenario.objects, nodes=asked.nodes or scenario.nodes)
        measured[name] = run(scenario, lambda words: sys.stderr.write(f"{words}\n"))
    rows = {name: asdict(figures) for name, figures in measured.items()}
    sys.stdout.write(f"{json.dumps(rows, indent=1) if asked.json else table(measured)}\n")
    return 0 if all(figures.serving_seconds is not None for figures in measured.values()) else 1


def table(measured: dict[str, Figures]) -> str:
    """One column per scenario, in Markdown."""
    lines = [f"| | {' | '.join(measured)} |", f"|---|{'---|' * len(measured)}"]
    rows = [asdict(figures) for figures in measured.values()]
    lines += [f"| {key.replace('_', ' ')} | {' | '.join(_shown(row[key]) for row in rows)} |" for key in rows[0]]
    return "\n".join(lines)


def _shown(value: object) -> str:
    if value is None:
        return "not in time"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {number}" for key, number in sorted(value.items()))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("scenario", nargs="*", metavar="SCENARIO", choices=[[], *SCENARIOS], help=", ".join(SCENARIOS))
    parser.add_argument("--objects", type=int, metavar="N", help="instead of the scenario's own number")
    parser.add_argument("--nodes", type=int, metavar="N", help="instead of the scenario's own number")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
