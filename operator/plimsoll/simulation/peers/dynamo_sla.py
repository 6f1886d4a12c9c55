"""Dynamo's SLA mode: latencies that a model of the engine's pass predicts, with a lower bound from the traffic.

Source: ai-dynamo/dynamo, planner/core/load_scaling.py at 0c6da1e and throughput_scaling.py at 0c9050c. A replica is
added where all engines would miss the first token's goal, or all the goal of the later tokens. One is removed where the
load times N / (N - 1) fits: the queue adds less than 80 % of what the goal leaves to a first token, the KV cache holds
it, and a token takes less than 80 % of its goal. Every 180 s the arrivals give a lower bound: the requests a second
over those that one engine carries within both goals. The forecast repeats the last 180 s (Dynamo's ``constant``
predictor; its default is ARIMA). The goals are the scenario's. Without a model nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from plimsoll.simulation.peers.dynamo import LENGTHS_SECONDS, LOAD_SECONDS, EngineLoad, Guarded, loads_of
from plimsoll.simulation.peers.dynamo_model import Passes, Plane
from plimsoll.simulation.peers.signals import Lengths, arrivals, known, lengths, mean_prompt
from plimsoll.simulation.peers.view import FleetSizes, PodView, Policy, View

SENSITIVITY = 0.8
"""The part of a goal that a removal may use up."""

TRAFFIC_SECONDS = 180.0
"""The time between two looks at the traffic."""


@dataclass(slots=True)
class DynamoSla:
    """The load's steps, and the lower bound that the traffic gives."""

    passes: Passes = field(default_factory=Passes)
    guarded: Guarded = field(default_factory=Guarded)
    tick_seconds: float = LOAD_SECONDS
    looked_at: float = 0.0
    least: int = 1

    def __call__(self, view: View) -> int:
        """Return the present number, one more or less, or the lower bound."""
        pods = known(view)
        self.passes.read(pods, view)
        plane = self.passes.fitted()
        if plane is None:
            return view.wanted
        if pods and view.now - self.looked_at >= TRAFFIC_SECONDS:
            self.looked_at = view.now
            self.least = least_replicas(plane, pods, view) or self.least
        return self.guarded(view, lambda known_pods: self._step(plane, known_pods, view))

    def _step(self, plane: Plane, pods: Sequence[PodView], view: View) -> int:
        loads, prompt = loads_of(pods, view), mean_prompt(pods, view.now, LENGTHS_SECONDS)
        step = step_of(plane, loads, prompt, view)
        return max(view.wanted + step, self.least) - view.wanted


def step_of(plane: Plane, loads: Sequence[EngineLoad], prompt: float, view: View) -> int:
    """Return 1 where all engines miss one goal, -1 where one engine less meets both with room, else 0."""
    step = view.engine.max_batched_tokens
    late = all(plane.ttft(load.queued + prompt, load.in_cache, step) > view.ttft_seconds for load in loads)
    if late or all(plane.token(load.in_cache) > view.tpot_seconds for load in loads):
        return 1
    count = len(loads)
    if count > 1 and all(_fits(plane, load, count / (count - 1), prompt, view) for load in loads):
        return -1
    return 0


def _fits(plane: Plane, load: EngineLoad, factor: float, prompt: float, view: View) -> bool:
    """Whether an engine would meet both goals with room if its load grew by the factor."""
    step, in_cache, queued = view.engine.max_batched_tokens, load.in_cache * factor, load.queued * factor
    own = plane.ttft(prompt, in_cache, step)
    by_queue, room = plane.ttft(queued + prompt, in_cache, step) - own, (view.ttft_seconds - own) * SENSITIVITY
    demanded = in_cache + queued
    if room <= 0 or by_queue >= room or demanded >= view.engine.kv_tokens:
        return False
    return plane.token(demanded) < view.tpot_seconds * SENSITIVITY


def least_replicas(plane: Plane, pods: Sequence[PodView], view: View) -> int | None:
    """Return the replicas for the traffic of the last look; None where no request has finished since."""
    mean = lengths(pods, view.now, TRAFFIC_SECONDS)
    if mean is None or mean.prompt <= 0 or mean.output <= 0:
        return None
    each = requests_per_second(plane, mean, view)
    return max(1, math.ceil(sum(arrivals(pod, view.now, TRAFFIC_SECONDS) for pod in pods) / each))


def requests_per_second(plane: Plane, mean: Lengths, view: View) -> float:
    """Return what one engine carries within both goals: the best of all batches; that of one request if none does."""
    best = 0.0
    for batch in range(1, _largest_batch(mean, view) + 1):
        in_cache, prompt = batch * mean.in_cache, min(batch * mean.prompt / mean.output, view.engine.max_batched_tokens)
        seconds = plane.seconds(prompt, in_cache)
        first = plane.ttft(prompt + mean.prompt, in_cache, view.engine.max_batched_tokens)
        if batch > 1 and (seconds > view.tpot_seconds or first > view.ttft_seconds):
            break
        best = batch / (mean.output * seconds)
    return best


def _largest_batch(mean: Lengths, view: View) -> int:
    """Return the requests that the KV cache, the engine and the balance of prompts and outputs allow."""
    engine = view.engine
    by_cache = engine.kv_tokens / mean.in_cache
    by_balance = mean.output * engine.max_batched_tokens / (mean.prompt + mean.output)
    return max(1, math.floor(min(by_cache, engine.max_num_seqs, by_balance)))


def dynamo_sla(_: FleetSizes) -> Policy:
    """Make the policy."""
    return DynamoSla()
