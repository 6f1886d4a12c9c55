"""CPU seconds and memory of whole passes with one solver: ``python -m benchmarks.placement.speed NAME ...``.

A fresh process measures one solver, so that nothing is remembered from other runs. It prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from time import process_time

from benchmarks.placement.cluster import Cluster
from benchmarks.placement.fleets import CATALOG
from benchmarks.placement.policies import all_solvers
from benchmarks.placement.worlds import Place, arrivals, fleet_with_prices
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.serving import Request
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import plan
from plimsoll.placement.pools import Decision, Tenant
from plimsoll.placement.solvers.protocol import Solver

WAITING = 300
NEWCOMERS = 10
"""New deployments that are timed one after the other; the slowest pass counts."""

IDLE_PASSES = 3


@dataclass(frozen=True, slots=True)
class Speed:
    """CPU seconds of passes, and the most memory of the process in MiB.

    ``cold`` knows nothing; ``again`` repeats it with the memo; ``idle`` finds that everything runs; ``one_new`` is the
    slowest pass with one new deployment among those that run; ``waiting`` has 300 deployments and full nodes.
    """

    solver: str
    nodes: int
    deployments: int
    kinds: int
    cold: float
    again: float
    idle: float
    one_new: float
    waiting: float
    rss_mib: float

    def figures(self) -> dict[str, object]:
        """Return the figures for a file."""
        return asdict(self)


def in_fresh_process(solver: str, nodes: int, deployments: int, kinds: int, inject: Sequence[str] = ()) -> Speed:
    """Measure a solver in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.placement.speed", solver, str(nodes), str(deployments), str(kinds)]
    command += [f"--inject={each}" for each in inject]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own module
    return Speed(**json.loads(done.stdout))


def measured(name: str, solver: Solver, nodes: int, deployments: int, kinds: int) -> Speed:
    """Measure a solver in this process."""
    place = Place("llm", nodes, kinds=kinds)
    fleet, _ = fleet_with_prices(place, "catalogue")
    requests = arrivals(place, deployments + NEWCOMERS)
    there, new = requests[:deployments], requests[deployments:]
    memo = Memo()
    cold, decisions = _timed(there, _read_anew(fleet), memo, solver)
    again, _ = _timed(there, _read_anew(fleet), memo, solver)
    cluster = Cluster(fleet)
    cluster.carry_out(decisions)
    passes = _passes(cluster, there, memo, solver)
    next(passes)  # the first pass after a change is not idle: it reads every pool for the first time
    idle = median(next(passes) for _ in range(IDLE_PASSES))
    one_new = max(next(_passes(cluster, (*there, request), memo, solver)) for request in new)
    waiting = _waiting(place, memo, solver)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Speed(name, nodes, deployments, kinds, cold, again, idle, one_new, waiting, rss)


def _passes(cluster: Cluster, requests: Sequence[Request], memo: Memo, solver: Solver) -> Iterator[float]:
    while True:
        tenants, fleet = cluster.tenants(requests), cluster.fleet()
        start = process_time()
        plan(tenants, fleet, CATALOG, memo=memo, solver=solver)
        yield process_time() - start


def _waiting(place: Place, memo: Memo, solver: Solver) -> float:
    fleet, _ = fleet_with_prices(place, "catalogue")
    full = fleet.with_nodes(replace(node, held=node.allocatable) for node in fleet.nodes)
    return _timed(arrivals(place, WAITING), full, memo, solver)[0]


def _timed(requests: Sequence[Request], fleet: Fleet, memo: Memo, solver: Solver) -> tuple[float, tuple[Decision, ...]]:
    tenants = [Tenant(request, 1) for request in requests]
    start = process_time()
    decisions = plan(tenants, fleet, CATALOG, memo=memo, solver=solver)
    return process_time() - start, decisions


def _read_anew(fleet: Fleet) -> Fleet:
    """Return equal nodes in new objects, as every pass reads them."""
    return fleet.with_nodes(replace(node) for node in fleet.nodes)


def main() -> int:
    """Print the figures of one solver."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placement.speed", description=__doc__)
    parser.add_argument("solver")
    parser.add_argument("nodes", type=int)
    parser.add_argument("deployments", type=int)
    parser.add_argument("kinds", type=int)
    parser.add_argument("--inject", action="append", default=[], metavar="NAME=MODULE:FACTORY")
    asked = parser.parse_args()
    solver = all_solvers(asked.inject)[asked.solver]
    figures = measured(asked.solver, solver, asked.nodes, asked.deployments, asked.kinds)
    sys.stdout.write(json.dumps(figures.figures()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
