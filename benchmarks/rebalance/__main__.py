"""``python -m benchmarks.rebalance``: let policies scale simulated replicas, and print what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.rebalance.asked import Asked, asked
from benchmarks.rebalance.hindsight import HINDSIGHTS, Run
from benchmarks.rebalance.means import means
from benchmarks.rebalance.runs import Scored, registered, scored_with, scores, simulated, tasks
from benchmarks.rebalance.scenarios.known import situations
from benchmarks.rebalance.scenarios.situation import Group
from benchmarks.rebalance.scoring import Score
from benchmarks.rebalance.table import situations_table, tables
from benchmarks.rebalance.values import Maker


def main(
    arguments: Sequence[str] | None = None, run: Run | None = None, policies: Mapping[str, Maker] | None = None
) -> int:
    """Run the command. A test may bring a simulator and policies of its own."""
    makers = registered() if policies is None else policies
    wanted = asked(arguments, makers, situations(), HINDSIGHTS)
    console = Console(width=wanted.width)
    if wanted.only_list:
        console.print(situations_table(wanted.situations))
        return 0
    for each in wanted.situations:
        if each.group is Group.OWN:
            sys.stderr.write(f"{each.tests}\n")
    found = _scores(wanted, simulated if run is None else partial(scored_with, run, makers))
    for table in tables(means(found)):
        console.print(table)
    if wanted.json:
        _write(wanted.json, found)
    return 0


def _scores(wanted: Asked, scored: Scored) -> list[Score]:
    found: list[Score] = []
    runs = tasks(wanted.policies, wanted.situations, wanted.seeds)
    for each in scores(runs, scored, wanted.jobs):
        found.append(each)
        sys.stderr.write(f"{len(found)} of {len(runs)}: {each.scenario}, {each.policy}, seed {each.seed}\n")
        sys.stderr.flush()
    return found


def _write(path: Path, found: Sequence[Score]) -> None:
    figures = {"means": [each.figures() for each in means(found)], "runs": [each.figures() for each in found]}
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
