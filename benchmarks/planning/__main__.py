"""Time passes over 1,250 nodes and print a table: ``python -m benchmarks.planning``.

Every figure is CPU time of this process, so that other work on the machine adds little to it. The fleet is read anew
for each pass, as the operator reads it: nodes that have not changed are the same objects, and two lines show passes
in which all are new ones. The memo goes from pass to pass. Python's garbage collector waits for the end
of a pass, as in the operator; a full collection is timed by itself.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from statistics import median
from time import process_time

from benchmarks.memory import peak_mib
from benchmarks.planning.worlds import (
    CATALOG,
    NODES,
    World,
    empty_fleet,
    full,
    half_with_totals,
    newcomers,
    running,
    too_large,
)
from plimsoll.adapters.garbage import collecting_later
from plimsoll.adapters.highs import fleetwide
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.placement.demands.pools import Decision, Tenant
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import plan

SOLVER = fleetwide()
"""The operator's solver; it remembers its last pass, as in the operator."""

TIMES = 5
"""Passes of which the median is printed; a cold pass is made once."""

NEWCOMERS = 10
"""New deployments that come one after the other; the median and the slowest pass are printed."""


def main() -> int:
    """Run every scenario."""
    print(f"{NODES} nodes of five kinds; CPU seconds of one pass")  # noqa: T201 - what the command is for
    for name, seconds in scenarios():
        print(f"{seconds:9.3f}  {name}", flush=True)  # noqa: T201 - same
    print(f"{peak_mib():9.0f}  MiB: the most memory of all of this")  # noqa: T201 - same
    return 0


def scenarios() -> Iterator[tuple[str, float]]:
    """The name and the seconds of each."""
    empty = empty_fleet()
    for alike in (True, False):
        loads = "20 different requests" if alike else "each with a load of its own"
        yield from _thousand(World(empty, newcomers(1000, alike=alike)), loads)
        yield from _waiting(World(full(empty), newcomers(300, alike=alike)), loads)
    yield from _with_totals(empty)
    yield from _mixed(World(empty, (*newcomers(300), *too_large(40))))


def _thousand(new: World, loads: str) -> Iterator[tuple[str, float]]:
    memo = Memo()
    decisions, spent = _pass(new, memo)
    yield f"1,000 new deployments, {loads}", spent
    there = running(new.fleet, decisions)
    yield "  the next pass, when they run", _pass(there.read_anew(), memo)[1]
    first = len(there.tenants)
    for read, nodes in ((there.read_anew, ""), (there.with_new_nodes, ", if all nodes are new objects")):
        yield f"  later, nothing to do{nodes}", median(_pass(read(), memo)[1] for _ in range(TIMES))
        ten = [_with_one_more(read(), each, memo) for each in newcomers(NEWCOMERS, first=first, alike=False)]
        yield f"  later, with one new deployment (median of ten){nodes}", median(ten)
        yield "  the slowest of these ten", max(ten)
        first += NEWCOMERS
    yield "  a full garbage collection, between passes", _collection()


def _with_totals(empty: Fleet) -> Iterator[tuple[str, float]]:
    new = World(empty, half_with_totals(1000))
    yield "1,000 new deployments, 40 different requests, half of them with a total load", _pass(new, Memo())[1]


def _waiting(world: World, loads: str) -> Iterator[tuple[str, float]]:
    memo = Memo()
    yield f"300 deployments wait on full nodes, {loads}", _pass(world, memo)[1]
    yield "  later", _median(lambda: _pass(world.read_anew(), memo)[1])


def _mixed(new: World) -> Iterator[tuple[str, float]]:
    memo = Memo()
    decisions, spent = _pass(new, memo)
    yield "300 new deployments and 40 that fit nowhere", spent
    there = running(new.fleet, decisions)
    yield "  the next pass, when the 300 run", _pass(there.read_anew(), memo)[1]
    yield "  later", _median(lambda: _pass(there.read_anew(), memo)[1])


def _pass(world: World, memo: Memo) -> tuple[tuple[Decision, ...], float]:
    start = process_time()
    with collecting_later():
        decisions = plan(world.tenants, world.fleet, CATALOG, memo=memo, solver=SOLVER)
    return decisions, process_time() - start


def _with_one_more(world: World, new: Tenant, memo: Memo) -> float:
    return _pass(World(world.fleet, (*world.tenants, new)), memo)[1]


def _collection() -> float:
    start = process_time()
    gc.collect()
    return process_time() - start


def _median(spent: Callable[[], float]) -> float:
    return median(spent() for _ in range(TIMES))


if __name__ == "__main__":
    sys.exit(main())
