"""Arrivals and departures over hours: how many running replicas a solver moves, and what staying costs.

The times are those of pods in a real cluster. Some deployments stay all the time, so that the demand is about 80 % of
the largest one. Each solver runs twice: as the operator calls it, with what runs kept; and with everything solved anew
at every change, which is the cheapest plan and the most moves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

from benchmarks.placement.bound.instance import instance_of, replicas_of
from benchmarks.placement.bound.optimum import optimum
from benchmarks.placement.cluster import Cluster
from benchmarks.placement.worlds import Place, World, world_of
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.demand import demand_of
from plimsoll.placement.demands.pools import Tenant
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers.protocol import Solver

LIVES = Path(__file__).with_name("data") / "openb-2023-lives.json"
NODES_PER_COPY = 50
"""The trace has enough pods for a fleet of this size; a larger fleet gets several copies, shifted in time."""

PERCENT = 80


@dataclass(frozen=True, slots=True)
class Stay:
    """One deployment, and the hours at which it arrives and departs."""

    request: Request
    arrives: float
    departs: float


@dataclass(frozen=True, slots=True)
class Replay:
    """The figures of one solver over the whole time; means are weighted by time.

    ``above`` is US dollars above the optimum for the same replicas, in per cent. ``stranded`` are replicas without a
    place that the optimum places, in per cent of all.
    """

    solver: str
    nodes: int
    hours: float
    passes: int
    anew: bool
    moves_per_hour: float
    above: float
    stranded: float

    def figures(self) -> dict[str, object]:
        """Return the replay for a file."""
        return asdict(self)


def replayed(name: str, solver: Solver, place: Place, hours: float, *, anew: bool) -> Replay:
    """Play all changes through one solver."""
    world = world_of(place, 100, "catalogue")
    stays = list(_stays(world, place, hours))
    times = sorted({time for stay in stays for time in (stay.arrives, stay.departs) if time < hours})
    cluster, memo = Cluster(world.fleet), Memo()
    moves, above, stranded = 0, 0.0, 0.0
    for now, until in zip(times, [*times[1:], hours], strict=True):
        there = [stay.request for stay in stays if stay.arrives <= now < stay.departs]
        for stay in stays:
            if stay.departs == now:
                cluster.remove(stay.request.key)
        moves += _pass(cluster, there, memo, solver, anew=anew)
        more, missing = _against_bound(cluster, there, world)
        above += more * (until - now)
        stranded += missing * (until - now)
    return Replay(name, place.nodes, hours, len(times), anew, moves / hours, above / hours, stranded / hours)


def _stays(world: World, place: Place, hours: float) -> Iterator[Stay]:
    """Yield the deployments: copies of the trace's lives, and others that stay, in the order of arrival."""
    traced = json.loads(LIVES.read_text(encoding="utf-8"))
    rng = Random(f"replay/{place}")  # noqa: S311 - a reproducible draw
    lives: list[tuple[float, float]] = []
    for _ in range(max(1, place.nodes // NODES_PER_COPY)):
        shift = rng.uniform(0, traced["hours"] - hours)
        moved = ((max(0.0, arrives - shift), departs - shift) for arrives, departs in traced["lives"])
        lives += [(arrives, departs) for arrives, departs in moved if departs > 0 and arrives < hours]
    at_first = sum(arrives == 0 for arrives, _ in lives)
    residents = max(0, round(len(world.tenants) * PERCENT / 100) - at_first)
    lives += [(0.0, 2 * hours)] * residents
    requests = _repeated([tenant.request for tenant in world.tenants], len(lives))
    for number, ((arrives, departs), request) in enumerate(zip(sorted(lives), requests, strict=True)):
        key = ObjectKey(request.key.namespace, f"r{number:05d}")
        yield Stay(replace(request, key=key, created=f"{number:06d}"), arrives, departs)


def _repeated(requests: Sequence[Request], count: int) -> Iterator[Request]:
    return (requests[number % len(requests)] for number in range(count))


def _pass(cluster: Cluster, there: Sequence[Request], memo: Memo, solver: Solver, *, anew: bool) -> int:
    if anew:
        decisions = plan([Tenant(request, 1) for request in there], cluster.empty, memo=memo, solver=solver)
    else:
        decisions = plan(cluster.tenants(there), cluster.fleet(), memo=memo, solver=solver)
    return cluster.carry_out(decisions, repack=anew)


def _against_bound(cluster: Cluster, there: Sequence[Request], world: World) -> tuple[float, float]:
    """Return the dollars above the optimum and the replicas without a place beyond the optimum's, in per cent."""
    demands = [demand_of(Tenant(request, 1), world.fleet, world.memo) for request in there]
    wanted = instance_of(demands, world.stock)
    running = {request.key: cluster.replicas(request.key) for request in there}
    best = optimum(wanted)
    missing = sum(request.replicas for request in there) - sum(running.values()) - best.unplaced
    placed = replicas_of((demand, running[demand.request.key]) for demand in demands)
    doubts = cluster.doubts()
    same = placed == wanted.replicas and doubts == best.doubts
    least = best.dollars if same else optimum(wanted.with_replicas(placed), most_doubts=doubts).dollars
    above = 100 * (cluster.dollars() / least - 1) if least else 0.0
    return above, 100 * missing / max(1, sum(request.replicas for request in there))
