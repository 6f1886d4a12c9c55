"""Small scenarios for the simulator of replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from benchmarks.rebalance.running import run
from benchmarks.rebalance.step_seconds import times_of
from benchmarks.rebalance.values import EngineSpec, Outcome, Scenario
from plimsoll.simulation.engine import SimulatedEngine
from plimsoll.simulation.peers.view import Policy, View
from plimsoll.simulation.values import Arrival, SimulatedRequest

SPEC = EngineSpec("meta-llama/Llama-3.1-8B-Instruct", "h100-sxm-80gb", 1, 400_000, 256, 8192, hourly_price=6.88)
"""An 8B model on one H100: a prompt of 1,000 tokens takes about 30 ms, a token about 8 ms."""


def engine(kv_tokens: int = 400_000, max_num_seqs: int = 256, max_batched_tokens: int = 8192) -> SimulatedEngine:
    """An idle engine."""
    spec = replace(SPEC, kv_tokens=kv_tokens, max_num_seqs=max_num_seqs, max_batched_tokens=max_batched_tokens)
    return SimulatedEngine(spec, times_of(SPEC))


def serve(
    served: SimulatedEngine, *arrivals: Arrival, watch: Callable[[SimulatedEngine], None] = lambda _: None
) -> list[SimulatedRequest]:
    """Serve requests that all come at the time 0. ``watch`` sees the engine before the end of each plan."""
    requests = [SimulatedRequest(arrival) for arrival in arrivals]
    for request in requests:
        served.add(request, 0.0)
    served.begin(0.0)
    while served.plan is not None:
        watch(served)
        now = served.plan.ends_at
        served.end()
        assert served.used_blocks <= served.total_blocks
        served.begin(now)
    return requests


def poisson(rate: float, prompt: int, output: int, seconds: float) -> Callable[[int], Sequence[Arrival]]:
    """Random arrivals with lengths between half of the mean and one and a half."""

    def arrivals(seed: int) -> list[Arrival]:
        rng, at, found = Random(seed), 0.0, []  # noqa: S311 - a simulation
        while (at := at + rng.expovariate(rate)) < seconds:
            asked, answer = (rng.randint(mean // 2, mean * 3 // 2) for mean in (prompt, output))
            found.append(Arrival(at, asked, answer))
        return found

    return arrivals


@dataclass(slots=True)
class Scripted:
    """A policy that follows a plan of times and numbers, and keeps what it sees."""

    plan: dict[float, int] = field(default_factory=dict)
    tick_seconds: float = 5.0
    views: list[View] = field(default_factory=list)

    def __call__(self, view: View) -> int:
        """Return the last number whose time has come, or keep what there is."""
        self.views.append(view)
        due = [number for at, number in self.plan.items() if at <= view.now]
        return due[-1] if due else view.wanted


def scenario(*arrivals: Arrival, seconds: float = 300.0) -> Scenario:
    """A scenario of given requests on one replica, whose speed is that of the performance model."""
    return Scenario("test", SPEC, seconds, lambda _: arrivals, speed_error=0.0)


def outcome(asked: Scenario, policy: Policy, seed: int = 1) -> Outcome:
    """Run a scenario under a policy that was made before."""
    return run(asked, lambda _: policy, "scripted", seed)
