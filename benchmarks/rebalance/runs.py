"""Runs of policies in situations, one after another or in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import product
from typing import cast

from benchmarks.rebalance.bounds import Run, bound_of
from benchmarks.rebalance.scenarios.situation import Situation
from benchmarks.rebalance.scoring import Score, missed, score
from benchmarks.rebalance.values import Maker
from plimsoll.simulation.peers.static import static_start


@dataclass(frozen=True, slots=True)
class Task:
    """One run. The policy is named, so that another process can find it. ``bounds`` asks for that of a missed goal."""

    situation: Situation
    policy: str
    seed: int
    bounds: bool = False


Scored = Callable[[Task], Score]


def tasks(policies: Sequence[str], wanted: Sequence[Situation], seeds: int, *, bounds: bool = False) -> list[Task]:
    """Return all runs, situation by situation."""
    return [
        Task(each, policy, seed, bounds) for each, policy in product(wanted, policies) for seed in each.seeds(seeds)
    ]


def scores(wanted: Sequence[Task], scored: Scored, jobs: int) -> Iterator[Score]:
    """Yield the score of each run, in the order of the tasks. With one job, everything is done in this process."""
    if jobs == 1:
        yield from map(scored, wanted)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(scored, wanted)


def simulated(task: Task) -> Score:
    """Make one run with the simulator and the registered policies, and return its score."""
    run = cast("Run", import_module("benchmarks.rebalance.running").run)
    return scored_with(run, registered(), task)


def scored_with(run: Run, makers: Mapping[str, Maker], task: Task) -> Score:
    """Make one run and return its score. The requests themselves are forgotten.

    Where the situation has a goal, the run that it compares with is made too.
    """
    situation, maker = task.situation, makers[task.policy]
    found = score(run(situation.scenario, maker, task.policy, task.seed), situation)
    goal = situation.goal
    if goal is None:
        return found
    other = run(goal.than, static_start if goal.by_fleet else maker, task.policy, task.seed)
    misses = missed(goal, found, score(other, situation))
    return replace(found, misses=misses, bound=bound_of(run, situation, task.seed) if misses and task.bounds else None)


def registered() -> Mapping[str, Maker]:
    """Return the policies by their names."""
    return cast("Mapping[str, Maker]", import_module("benchmarks.rebalance.policies.registry").POLICIES)
