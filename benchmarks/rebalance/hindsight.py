"""What can be reached in a scenario: the smallest fleet and an oracle, each chosen when all requests are known.

Nobody can run them. They tell what a law loses because it does not know what comes from what nobody can serve:

- The smallest fleet has one number of replicas from the first moment to the last.
- The oracle knows every request, the true speed, and how long a start takes at most. Its replicas start like those of
  all laws. It orders each one so long before it is needed, and gives it back if it is not needed within such a time.
  A replica that should serve by now and does not is replaced.

Of several sizes, each takes the one with the fewest GPU-hours that keeps :data:`KEPT_PERCENT` of the requests; if none
does, the one that keeps the most.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from benchmarks.rebalance.fitting import fitting
from benchmarks.rebalance.policies.ours import running_of
from benchmarks.rebalance.running import speed_factor
from benchmarks.rebalance.scoring import goodput
from benchmarks.rebalance.values import Maker, Outcome, Scenario
from plimsoll.rebalance.law.capacity import ReplicaModel, capacity_of
from plimsoll.rebalance.signals.traffic import Lengths
from plimsoll.simulation.peers.static import static
from plimsoll.simulation.peers.view import Policy, View
from plimsoll.simulation.values import Arrival

Run = Callable[[Scenario, Maker, str, int], Outcome]
"""Simulates a scenario with a policy, its name, and a seed."""

Hindsight = Callable[[Run, Scenario, str, int], Outcome]
"""Returns the best run of a scenario that can be reached in one way, with a name for its policy, and a seed."""

KEPT_PERCENT = 98.5
"""The goodput from which fewer GPU-hours count, and not more requests."""

LOADS = (1.2, 1.0, 0.85, 0.7, 0.55)
"""The oracle's replicas carry so many times what the performance model says that they carry with their promises kept.
Which one is best depends on how unevenly requests come, and on the router."""

STEP_SECONDS = 30.0
"""The oracle knows the requests of each such step. What comes unevenly within one is left to ``LOADS``."""


def smallest_fleet(run: Run, scenario: Scenario, name: str, seed: int) -> Outcome:
    """Return the run of the smallest fleet. Two deployments on the same GPUs have as many replicas each."""

    def of(replicas: int) -> Outcome:
        return run(_starting_with(scenario, replicas), static(replicas), name, seed)

    most = scenario.max_replicas
    if scenario.stock is not None:
        most = min(most, scenario.stock // (1 if scenario.neighbour is None else 2))
    return _best(map(of, range(scenario.min_replicas, max(scenario.min_replicas, most) + 1)), in_order=True)


def oracle(run: Run, scenario: Scenario, name: str, seed: int) -> Outcome:
    """Return the run of the oracle."""
    return _best(run(scenario, partial(_oracle, seed, load), name, seed) for load in LOADS)


HINDSIGHTS: Mapping[str, Hindsight] = {"smallest-fleet": smallest_fleet, "oracle": oracle}


def _best(outcomes: Iterable[Outcome], *, in_order: bool = False) -> Outcome:
    """Return the cheapest outcome with enough goodput, else the one with the most.

    Of outcomes in the order of their GPU-hours, those after the first with enough are not made.
    """
    found: list[Outcome] = []
    for each in outcomes:
        found.append(each)
        if in_order and _kept(each) >= KEPT_PERCENT:
            break
    return max(found, key=lambda each: (min(KEPT_PERCENT, _kept(each)), -_seconds(each)))


def _kept(outcome: Outcome) -> float:
    """Return the goodput of all deployments together, in per cent."""
    each = [outcome] if outcome.neighbour is None else [outcome, outcome.neighbour]
    counts = [(len(one.answered), goodput(one.answered, one.scenario) or 0.0) for one in each]
    return sum(count * kept for count, kept in counts) / max(1, sum(count for count, _ in counts))


def _seconds(outcome: Outcome) -> float:
    return outcome.replica_seconds + (0.0 if outcome.neighbour is None else outcome.neighbour.replica_seconds)


def _starting_with(scenario: Scenario, replicas: int) -> Scenario:
    neighbour = None if scenario.neighbour is None else _starting_with(scenario.neighbour, replicas)
    return replace(scenario, start_replicas=replicas, neighbour=neighbour)


def _oracle(seed: int, load: float, scenario: Scenario) -> Policy:
    return Oracle(scenario, seed, load)


@dataclass(slots=True)
class Oracle:
    """Orders the most that requests need until a new replica serves. ``load`` is one of :data:`LOADS`."""

    scenario: Scenario
    seed: int
    load: float
    tick_seconds: float = 5.0
    _needs: tuple[int, ...] = ()

    def __call__(self, view: View) -> int:
        """Return the replicas that are needed until a start from now has ended, as far as GPUs are free."""
        if not self._needs:
            self._needs = self._needed(running_of(view).model)
        startup = self.scenario.cold_start_seconds * self.scenario.cold_start_spread[1] + self.tick_seconds
        here, until = int(view.now // STEP_SECONDS), int((view.now + startup) // STEP_SECONDS)
        late = sum(pod.ready_since is None and view.now - pod.created_at > startup for pod in view.pods)
        needed = max(self._needs[here : until + 1], default=1) + late
        return needed if view.free is None else min(needed, len(view.pods) + view.free)

    def _needed(self, model: ReplicaModel | None) -> tuple[int, ...]:
        """Return the replicas that each step needs."""
        assert model is not None  # noqa: S101 - each engine of a scenario has one
        true = replace(model, slowness=speed_factor(self.scenario, self.seed))
        steps = defaultdict[int, list[Arrival]](list)
        for each in self.scenario.arrivals(self.seed):
            steps[int(each.at // STEP_SECONDS)].append(fitting(each, self.scenario.engine))
        count = math.ceil(self.scenario.seconds / STEP_SECONDS)
        return tuple(math.ceil(_carried_by(steps[step], true) / self.load) or 1 for step in range(count))


def _carried_by(requests: list[Arrival], model: ReplicaModel) -> float:
    """Return the replicas that carry the requests of a step, as a fraction."""
    if not requests:
        return 0.0
    prompt, output = (fmean(getattr(each, name) for each in requests) for name in ("prompt_tokens", "output_tokens"))
    cached = fmean(each.cached_tokens for each in requests)
    lengths = Lengths(prompt, output, cached, prompt + output / 2)
    return len(requests) / STEP_SECONDS / capacity_of(model, lengths).per_second
