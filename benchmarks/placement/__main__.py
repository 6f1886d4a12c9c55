"""``python -m benchmarks.placement``: compare solvers with the proven optimum, and print tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from rich.console import Console

from benchmarks.placement.cases import Case, cases
from benchmarks.placement.replay import Replay, replayed
from benchmarks.placement.scope import Asked, asked
from benchmarks.placement.speed import Speed, in_fresh_process
from benchmarks.placement.table import quality_tables, replay_table, speed_table
from benchmarks.placement.worlds import Place


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    wanted = asked(arguments)
    console = Console(width=wanted.width)
    figures: dict[str, list[dict[str, object]]] = {}
    if "quality" in wanted.parts:
        found = _quality(wanted)
        figures["quality"] = [case.figures() for case in found]
        for table in quality_tables(found):
            console.print(table)
    if "replay" in wanted.parts:
        replays = _replays(wanted)
        figures["replay"] = [replay.figures() for replay in replays]
        console.print(replay_table(replays))
    if "speed" in wanted.parts:
        speeds = _speeds(wanted)
        figures["speed"] = [speed.figures() for speed in speeds]
        console.print(speed_table(speeds))
    if wanted.json:
        wanted.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def _quality(wanted: Asked) -> list[Case]:
    places = [
        Place(fleet, nodes, seed)
        for fleet in wanted.fleets
        for nodes in wanted.scope.nodes
        for seed in range(wanted.scope.seeds)
    ]
    found: list[Case] = []
    for case in cases(places, wanted.prices, wanted.solvers, wanted.demands, wanted.orders):
        found.append(case)
        if len(found) % len(wanted.solvers) == 0:
            _say(f"{case.place.fleet}, {case.place.nodes} nodes, {case.prices}, {case.percent} %, {case.order}")
    return found


def _replays(wanted: Asked) -> list[Replay]:
    found: list[Replay] = []
    for nodes, hours in wanted.scope.replay:
        for name, solver in wanted.own.items():
            for anew in (False, True):
                _say(f"replay of {hours} hours on {nodes} nodes: {name}")
                found.append(replayed(name, solver, Place("llm", nodes), hours, anew=anew))
    return found


def _speeds(wanted: Asked) -> list[Speed]:
    found: list[Speed] = []
    for sizes in wanted.scope.speed:
        nodes, deployments, kinds = sizes
        for name in wanted.own:
            _say(f"speed on {nodes} nodes with {deployments} deployments of {kinds} kinds: {name}")
            found.append(in_fresh_process(name, Place("llm", nodes, kinds=kinds), deployments, wanted.inject))
    return found


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
