"""``python -m benchmarks.placement``: compare solvers with the proven optimum, and print tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.placement.cases import DEMANDS, Case, cases
from benchmarks.placement.fleets import FLEETS
from benchmarks.placement.policies import all_solvers
from benchmarks.placement.prices import PRICE_LISTS
from benchmarks.placement.table import quality_tables
from benchmarks.placement.worlds import ORDERS, Place
from plimsoll.placement.solvers import Solver


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    asked = _parser().parse_args(arguments)
    console = Console(width=asked.width)
    found = _quality(asked)
    for table in quality_tables(found):
        console.print(table)
    if asked.json:
        figures = {"quality": [case.figures() for case in found]}
        asked.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def _quality(asked: argparse.Namespace) -> list[Case]:
    places = [
        Place(fleet, nodes, seed) for fleet in asked.fleets for nodes in asked.nodes for seed in range(asked.seeds)
    ]
    found: list[Case] = []
    for case in cases(places, asked.prices, _solvers(asked), asked.demands, asked.orders):
        found.append(case)
        if len(found) % len(asked.solvers) == 0:
            _say(f"{len(found)} cases: {case.place.fleet}, {case.place.nodes} nodes, {case.prices}, {case.percent} %")
    return found


def _solvers(asked: argparse.Namespace) -> Mapping[str, Solver]:
    everything = all_solvers()
    return {name: everything[name] for name in asked.solvers}


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement", description=__doc__)
    parser.add_argument("--nodes", type=_numbers, default=[50, 250], metavar="N,N", help="sizes of the fleets")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many worlds of each kind")
    parser.add_argument("--fleets", type=_names(FLEETS), default=list(FLEETS), metavar="NAMES", help=", ".join(FLEETS))
    solvers = all_solvers()
    parser.add_argument(
        "--solvers", type=_names(solvers), default=list(solvers), metavar="NAMES", help=", ".join(solvers)
    )
    parser.add_argument("--prices", type=_names(PRICE_LISTS), default=list(PRICE_LISTS), metavar="NAMES")
    parser.add_argument("--orders", type=_names(ORDERS), default=list(ORDERS), metavar="NAMES", help=", ".join(ORDERS))
    parser.add_argument(
        "--demands", type=_numbers, default=list(DEMANDS), metavar="N,N", help="per cent of the largest"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="every figure")
    parser.add_argument("--width", type=int, default=200, metavar="N", help="columns of the terminal")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


class _names:  # noqa: N801 - it is used like a function
    def __init__(self, known: Mapping[str, object]) -> None:
        self.known = known

    def __call__(self, text: str) -> list[str]:
        asked = text.split(",")
        if unknown := [each for each in asked if each not in self.known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is not one of {', '.join(self.known)}")
        return asked


if __name__ == "__main__":
    sys.exit(main())
