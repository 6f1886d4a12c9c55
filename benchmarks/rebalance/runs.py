"""Runs of policies in situations, one after another or in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import product
from typing import cast

from benchmarks.rebalance.hindsight import HINDSIGHTS, Run
from benchmarks.rebalance.scenarios.situation import Situation
from benchmarks.rebalance.scoring import Score, missed, score
from benchmarks.rebalance.values import Maker, Outcome, Scenario
from plimsoll.simulation.peers.static import static_start


@dataclass(frozen=True, slots=True)
class Task:
    """One run. The policy is named, so that another process can find it; so is what is chosen in hindsight."""

    situation: Situation
    policy: str
    seed: int


Scored = Callable[[Task], Score]


def tasks(policies: Sequence[str], wanted: Sequence[Situation], seeds: int) -> list[Task]:
    """Return all runs, situation by situation."""
    return [Task(each, policy, seed) for each, policy in product(wanted, policies) for seed in each.seeds(seeds)]


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
    situation = task.situation
    made = _run_of(run, makers, task.policy)
    found = score(made(situation.scenario, task.policy, task.seed), situation)
    goal = situation.goal
    if goal is None:
        return found
    compared = partial(_with, run, static_start) if goal.by_fleet else made
    return replace(found, misses=missed(goal, found, score(compared(goal.than, task.policy, task.seed), situation)))


def _run_of(run: Run, makers: Mapping[str, Maker], policy: str) -> Callable[[Scenario, str, int], Outcome]:
    return partial(HINDSIGHTS[policy], run) if policy in HINDSIGHTS else partial(_with, run, makers[policy])


def _with(run: Run, maker: Maker, scenario: Scenario, policy: str, seed: int) -> Outcome:
    return run(scenario, maker, policy, seed)


def registered() -> Mapping[str, Maker]:
    """Return the policies by their names."""
    return cast("Mapping[str, Maker]", import_module("benchmarks.rebalance.policies.registry").POLICIES)
