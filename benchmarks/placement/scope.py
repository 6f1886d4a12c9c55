"""How much one run of the benchmark looks at: a quick look by default, everything on request."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.placement.cases import DEMANDS
from benchmarks.placement.fleets import FLEETS
from benchmarks.placement.policies import POLICIES, all_solvers
from benchmarks.placement.prices import PRICE_LISTS
from benchmarks.placement.worlds import ORDERS
from plimsoll.placement.solvers import Solver

PARTS = ("quality", "replay", "speed")


@dataclass(frozen=True, slots=True)
class Scope:
    """Sizes of a run.

    ``speed`` holds nodes, deployments and kinds of each timed world; ``replay`` the nodes and hours of each replay.
    """

    nodes: tuple[int, ...]
    seeds: int
    speed: tuple[tuple[int, int, int], ...]
    replay: tuple[tuple[int, float], ...]


QUICK = Scope(nodes=(50, 250), seeds=1, speed=((250, 200, 40),), replay=((50, 12),))
FULL = Scope(
    nodes=(50, 250, 1250),
    seeds=3,
    speed=((50, 40, 40), (250, 200, 40), (1250, 1000, 40), (1250, 1000, 1000), (5000, 5000, 100)),
    replay=((50, 72), (250, 24)),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of the command.

    ``own`` are the solvers to replay and to time: those of the operator, where no others are asked for.
    """

    scope: Scope
    parts: Sequence[str]
    solvers: Mapping[str, Solver]
    own: Mapping[str, Solver]
    inject: Sequence[str]
    fleets: Sequence[str]
    prices: Sequence[str]
    orders: Sequence[str]
    demands: Sequence[int]
    json: Path | None
    width: int


def asked(arguments: Sequence[str] | None) -> Asked:
    """Read the arguments. Wrong ones end the command with a message."""
    parser = _parser()
    found = parser.parse_args(arguments)
    scope = FULL if found.full else QUICK
    if found.nodes or found.seeds:
        scope = replace(scope, nodes=tuple(found.nodes or scope.nodes), seeds=found.seeds or scope.seeds)
    if found.sizes:
        scope = replace(scope, speed=tuple(found.sizes))
    try:
        known = all_solvers(found.inject)
        solvers = {name: known[name] for name in _known(found.solvers, known, "--solvers")}
        peers = () if found.solvers or found.full else POLICIES
        return Asked(
            scope=scope,
            parts=_known(found.only, PARTS, "--only"),
            solvers=solvers,
            own={name: solver for name, solver in solvers.items() if name not in peers},
            inject=found.inject,
            fleets=_known(found.fleets, FLEETS, "--fleets"),
            prices=_known(found.prices, PRICE_LISTS, "--prices"),
            orders=_known(found.orders, ORDERS, "--orders"),
            demands=found.demands,
            json=found.json,
            width=found.width,
        )
    except ValueError as error:
        parser.error(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement", description=__doc__)
    parser.add_argument("--full", action="store_true", help="all sizes, three seeds, three days: an hour or more")
    parser.add_argument("--only", metavar="PARTS", help=f"of {', '.join(PARTS)}; usually all")
    parser.add_argument("--nodes", type=_numbers, metavar="N,N", help="sizes of the fleets of which quality is judged")
    parser.add_argument(
        "--sizes",
        type=_sizes,
        action="append",
        metavar="NODES,DEPLOYMENTS,KINDS",
        help="a world in which passes are timed; may be repeated",
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="how many worlds of each kind")
    parser.add_argument("--solvers", metavar="NAMES", help=f"of {', '.join(all_solvers())}, and of --inject")
    parser.add_argument("--fleets", metavar="NAMES", help=f"of {', '.join(FLEETS)}")
    parser.add_argument("--prices", metavar="NAMES", help=f"of {', '.join(PRICE_LISTS)}")
    parser.add_argument("--orders", metavar="NAMES", help=f"of {', '.join(ORDERS)}")
    parser.add_argument("--demands", type=_numbers, default=DEMANDS, metavar="N,N", help="per cent of the largest one")
    parser.add_argument(
        "--inject", action="append", default=[], metavar="NAME=MODULE:FACTORY", help="one more solver; may be repeated"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="every figure")
    parser.add_argument("--width", type=int, default=200, metavar="N", help="columns of the terminal, usually 200")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(int(each) for each in text.split(","))
    if min(numbers) < 1:
        raise ValueError(text)
    return numbers


def _sizes(text: str) -> tuple[int, int, int]:
    nodes, deployments, kinds = _numbers(text)
    return nodes, deployments, kinds


def _known(text: str | None, known: Mapping[str, object] | Sequence[str], option: str) -> list[str]:
    """Return the names in a text, or all names where there is none.

    Raises:
        ValueError: a name is unknown.
    """
    names = list(known) if text is None else text.split(",")
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{option}: {', '.join(unknown)} is unknown; give some of {', '.join(known)}")
    return names
