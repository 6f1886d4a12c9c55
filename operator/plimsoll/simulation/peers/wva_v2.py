"""WVA's saturation analyzer V2: tokens that are demanded against tokens that a replica is known to carry.

Source: llm-d/llm-d-workload-variant-autoscaler, internal/saturation_v2/analyzer.go, engine_v2.go and
cost_aware_optimizer.go (the default since 0.9), here for one variant. The demand of a replica is its largest KV use of
one minute in tokens, and for each waiting request the mean prompt and output of 5 minutes. Its capacity is the smaller
of 80 % of the KV cache, and of what it carried when 5 or more requests waited: the mean of the last 10 such figures,
kept for 24 h and by the mean output (below 100 tokens, below 500, or more). Before any of these the capacity is derived
from the lengths and the batch. A replica without metrics is left out; without any, the number is held. Requests wait in
the engines here, so the queue in front of them is empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean, median

from plimsoll.simulation.peers.hpa import Behavior, Hpa
from plimsoll.simulation.peers.signals import Lengths, highest, known, lengths
from plimsoll.simulation.peers.view import FleetSizes, Maker, PodView, Policy, View
from plimsoll.simulation.peers.wva import README, Analysis, Wva, analysis_of
from plimsoll.simulation.values import EngineLimits

KV_THRESHOLD = 0.80
QUEUE_THRESHOLD = 5.0
PEAK_SECONDS = 60.0
LENGTHS_SECONDS = 300.0
REMEMBERED = 10
MEMORY_SECONDS = 86_400.0
SHORT_OUTPUT, MEDIUM_OUTPUT = 100, 500
"""Tokens. They divide the outputs into three buckets."""


@dataclass(slots=True)
class Saturation:
    """The analyzer. ``carried`` are times and tokens of saturated replicas by bucket."""

    carried: dict[int, list[tuple[float, float]]] = field(default_factory=dict)

    def __call__(self, view: View) -> Analysis | None:
        """Compare the demand with the median capacity of the known replicas; None where none is known."""
        pods = known(view)
        if not pods:
            return None
        mean = lengths(pods, view.now, LENGTHS_SECONDS) or Lengths(0, 0)
        loads = [_load(pod, view) for pod in pods]
        capacities = [self._capacity(used, queue, mean, view) for used, queue in loads]
        demand = sum(used + queue * (mean.prompt + mean.output) for used, queue in loads)
        return analysis_of(demand, max(1.0, median(capacities)), view)

    def _capacity(self, used: float, queue: float, mean: Lengths, view: View) -> float:
        by_memory = KV_THRESHOLD * view.engine.kv_tokens
        return min(by_memory, self._carried(used, queue, mean, view) or _derived(mean, view.engine) or by_memory)

    def _carried(self, used: float, queue: float, mean: Lengths, view: View) -> float | None:
        """Return what a saturated replica carries now, or carried before; None where none was saturated."""
        kept = [each for each in self.carried.get(_bucket(mean), ()) if view.now - each[0] < MEMORY_SECONDS]
        saturated = queue >= QUEUE_THRESHOLD and used > 0
        if saturated:
            kept.append((view.now, used))
        self.carried[_bucket(mean)] = kept[-REMEMBERED:]
        if saturated:
            return used
        return fmean(tokens for _, tokens in kept) if kept else None


def _load(pod: PodView, view: View) -> tuple[float, float]:
    """Return the tokens in use and the waiting requests, both at their highest of one minute."""
    used = highest(pod, view.now, PEAK_SECONDS, lambda sample: sample.kv_usage) * view.engine.kv_tokens
    return round(used), highest(pod, view.now, PEAK_SECONDS, lambda sample: sample.waiting)


def _bucket(mean: Lengths) -> int:
    return (mean.output >= SHORT_OUTPUT) + (mean.output >= MEDIUM_OUTPUT)


def _derived(mean: Lengths, engine: EngineLimits) -> float:
    """Return the tokens of as many requests as prompts and outputs leave in balance; 0 where lengths are unknown."""
    whole = mean.prompt + mean.output
    requests = min(engine.max_batched_tokens * mean.output / whole, engine.max_num_seqs) if whole else 0.0
    return requests * mean.in_cache


def wva_v2(behavior: Behavior = README) -> Maker:
    """Return a maker with the HPA of the README, or with another one."""

    def make(_: FleetSizes) -> Policy:
        return Wva([Saturation()], Hpa(behavior))

    return make
