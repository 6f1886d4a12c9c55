"""CPU seconds and memory of whole passes with one solver. The garbage collector waits for the end of a pass.

``python -m benchmarks.placement.speed`` is a fresh process for one solver, so that nothing is remembered from other
runs. It reads a task as JSON and prints the figures as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from time import process_time
from typing import NamedTuple

from benchmarks.memory import peak_mib
from benchmarks.placement.cluster import Cluster
from benchmarks.placement.fleets import CATALOG
from benchmarks.placement.kinds import request_for
from benchmarks.placement.policies import all_solvers
from benchmarks.placement.worlds import Place, arrivals, fleet_with_prices
from plimsoll.adapters.garbage import collecting_later
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.placement.demands.pools import Decision, Tenant
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import plan
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
    ``rss_before_mib`` is the memory before the first pass: Python, the libraries, the catalogue and the fleet.
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
    rss_before_mib: float

    def figures(self) -> dict[str, object]:
        """Return the figures for a file."""
        return asdict(self)


def in_fresh_process(solver: str, place: Place, deployments: int, inject: Sequence[str] = ()) -> Speed:
    """Measure a solver in a process of its own. The deployments are drawn in this one, since that takes memory."""
    drawn = arrivals(place, max(deployments + NEWCOMERS, WAITING))
    task = {
        "solver": solver,
        "inject": list(inject),
        "place": asdict(place),
        "deployments": deployments,
        "drawn": [_Drawn.of(request) for request in drawn],
    }
    command = [sys.executable, "-m", "benchmarks.placement.speed"]
    done = subprocess.run(command, input=json.dumps(task), check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own module
    return Speed(**json.loads(done.stdout))


class _Drawn(NamedTuple):
    """A deployment in a task."""

    model: str
    context_tokens: int
    concurrency: int
    allow: Sequence[str]
    replicas: int

    @staticmethod
    def of(request: Request) -> _Drawn:
        shape, allow = request.shape, request.constraints.allow
        return _Drawn(request.model.name, shape.context_tokens, shape.concurrency, allow, request.replicas)

    def request(self, number: int) -> Request:
        kind = request_for(self.model, ServingShape(self.context_tokens, self.concurrency), tuple(self.allow))
        return replace(
            kind, key=ObjectKey("default", f"d{number:05d}"), replicas=self.replicas, created=f"{number:06d}"
        )


def measured(name: str, solver: Solver, place: Place, deployments: int, requests: Sequence[Request]) -> Speed:
    """Measure a solver in this process."""
    fleet, _ = fleet_with_prices(place, "catalogue")
    there, new = requests[:deployments], requests[deployments : deployments + NEWCOMERS]
    before = peak_mib()
    memo = Memo()
    cold, decisions = _timed(there, _read_anew(fleet), memo, solver)
    again, _ = _timed(there, _read_anew(fleet), memo, solver)
    cluster = Cluster(fleet)
    cluster.carry_out(decisions)
    passes = _passes(cluster, there, memo, solver)
    next(passes)  # the first pass after a change is not idle: it reads every pool for the first time
    idle = median(next(passes) for _ in range(IDLE_PASSES))
    one_new = max(next(_passes(cluster, (*there, request), memo, solver)) for request in new)
    full = fleet.with_nodes(replace(node, held=node.allocatable) for node in fleet.nodes)
    waiting, _ = _timed(requests[:WAITING], full, memo, solver)
    return Speed(
        solver=name,
        nodes=place.nodes,
        deployments=deployments,
        kinds=place.kinds,
        cold=cold,
        again=again,
        idle=idle,
        one_new=one_new,
        waiting=waiting,
        rss_mib=peak_mib(),
        rss_before_mib=before,
    )


def _passes(cluster: Cluster, requests: Sequence[Request], memo: Memo, solver: Solver) -> Iterator[float]:
    while True:
        tenants, fleet = cluster.tenants(requests), cluster.fleet()
        start = process_time()
        with collecting_later():
            plan(tenants, fleet, CATALOG, memo=memo, solver=solver)
        yield process_time() - start


def _timed(requests: Sequence[Request], fleet: Fleet, memo: Memo, solver: Solver) -> tuple[float, tuple[Decision, ...]]:
    tenants = [Tenant(request, 1) for request in requests]
    start = process_time()
    with collecting_later():
        decisions = plan(tenants, fleet, CATALOG, memo=memo, solver=solver)
    return process_time() - start, decisions


def _read_anew(fleet: Fleet) -> Fleet:
    """Return equal nodes in new objects, as every pass reads them."""
    return fleet.with_nodes(replace(node) for node in fleet.nodes)


def main() -> int:
    """Read a task, and print the figures of its solver."""
    task = json.load(sys.stdin)
    solver = all_solvers(task["inject"])[task["solver"]]
    requests = [_Drawn(*drawn).request(number) for number, drawn in enumerate(task["drawn"])]
    figures = measured(task["solver"], solver, Place(**task["place"]), task["deployments"], requests)
    sys.stdout.write(json.dumps(figures.figures()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
