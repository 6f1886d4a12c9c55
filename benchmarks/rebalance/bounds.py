"""The bound of a goal: what a law misses that knows the demand of each moment and what a replica carries.

It looks at nothing else (at no backlog, either), foresees nothing, and its replicas start like those of all laws. So a
goal that it misses as well is not reached by better signals alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.rebalance.arrivals import Drawn, Stream
from benchmarks.rebalance.policies.ours import running_of
from benchmarks.rebalance.running import speed_factor
from benchmarks.rebalance.scenarios.situation import Situation
from benchmarks.rebalance.scoring import missed, score
from benchmarks.rebalance.values import Maker, Outcome, Scenario
from plimsoll.rebalance.law.capacity import capacity_of
from plimsoll.rebalance.signals.traffic import Lengths
from plimsoll.simulation.peers.static import static_start
from plimsoll.simulation.peers.view import Policy, View

Run = Callable[[Scenario, Maker, str, int], Outcome]
"""Simulates a scenario with a policy, its name, and a seed."""


@dataclass(slots=True)
class Informed:
    """Orders what the demand of now needs, at once, and gives back the rest.

    A replica carries what the performance model says, with the true ``slowness`` of its steps.
    """

    demand: Drawn
    slowness: float
    tick_seconds: float = 5.0

    def __call__(self, view: View) -> int:
        """Return the replicas for the demand, as far as GPUs are free."""
        parts = (each.demand.rate_at(view.now) / self._carried(each, view) for each in self.demand.streams)
        needed = max(1, math.ceil(sum(parts)))
        return needed if view.free is None else min(needed, len(view.pods) + view.free)

    def _carried(self, stream: Stream, view: View) -> float:
        """Return the requests a second of one kind that a replica carries."""
        model, lengths = running_of(view).model, stream.lengths
        assert model is not None  # noqa: S101 - each engine of a scenario has one
        in_cache = lengths.prompt + lengths.output / 2
        means = Lengths(lengths.prompt, lengths.output, lengths.prompt * lengths.cached, in_cache)
        return capacity_of(replace(model, slowness=self.slowness), means).per_second


def bound_of(run: Run, situation: Situation, seed: int) -> tuple[str, ...] | None:
    """Return what of a situation's goal a law misses that knows the demand.

    None: there is no goal, or the requests are those of a trace, whose demand nobody knows.
    """
    goal = situation.goal
    if goal is None or not isinstance(situation.scenario.arrivals, Drawn):
        return None
    maker = partial(_informed, seed)
    found = score(run(situation.scenario, maker, "informed", seed), situation)
    other = run(goal.than, static_start if goal.by_fleet else maker, "informed", seed)
    return missed(goal, found, score(other, situation))


def _informed(seed: int, scenario: Scenario) -> Policy:
    if not isinstance(scenario.arrivals, Drawn):
        raise TypeError(f"{scenario.name}: its requests are not drawn")
    return Informed(scenario.arrivals, speed_factor(scenario, seed))
