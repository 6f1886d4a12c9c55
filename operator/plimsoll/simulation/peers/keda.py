"""KEDA on one sum over the pods: KV use, waiting requests, or running requests.

Sources: the metrics are those of the Prometheus triggers that production-stack documents (sum of running requests per
replica) and of llm-d's saturation bounds (KV use 0.8, 5 waiting requests). The behavior is that of the KEDA sample of
the llm-d workload variant autoscaler, docs/integrations/keda-integration.md at d44975b: windows of 0 s, 5 pods in 15 s
or 100 % in 30 s, and after 3 failures the larger of 2 replicas and the present number. The slow variants have the
default behavior of Kubernetes instead: a removal waits for 300 s, and 4 pods or 100 % in 15 s are added.

A pod without a recent sample is missing in the sum. An empty sum or one that is no number is a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plimsoll.simulation.peers.hpa import SYNC_SECONDS, Behavior, Hpa, Rules, Step, desired_for
from plimsoll.simulation.peers.signals import FRESH_SECONDS, Read, clamped, serving
from plimsoll.simulation.peers.view import FleetSizes, Maker, Policy, View
from plimsoll.simulation.values import Sample

KV_TARGET = 0.8
"""KV use of a replica, 0 to 1."""

WAITING_TARGET = 5.0
"""Waiting requests of a replica."""

RUNNING_TARGET = 24.0
"""Running requests of a replica."""

FAILURES = 3
"""The failures in a row after which the fallback counts."""

FALLBACK_REPLICAS = 2

_STEPS = Rules(0, (Step(15, pods=5), Step(30, percent=100)))
SAMPLE = Behavior(_STEPS, _STEPS)
"""The behavior of the sample."""

DEFAULT = Behavior(Rules(0, (Step(15, pods=4), Step(15, percent=100))), Rules(300, (Step(15, percent=100),)))
"""The behavior of an HPA that names none."""


@dataclass(slots=True)
class Keda:
    """One trigger of type AverageValue, carried out by an HPA."""

    read: Read
    target: float
    hpa: Hpa
    tick_seconds: float = SYNC_SECONDS
    failures: int = 0

    def __call__(self, view: View) -> int:
        """Return the replicas for the sum, or the fallback after some failures."""
        total = _sum(view, self.read)
        if total is not None:
            self.failures = 0
            proposed = desired_for(total, self.target, view.wanted)
            return self.hpa(view.now, view.wanted, clamped(proposed, view))
        self.failures += 1
        if self.failures < FAILURES:
            return view.wanted
        return self.hpa(view.now, view.wanted, clamped(max(FALLBACK_REPLICAS, view.wanted), view))


def _sum(view: View, read: Read) -> float | None:
    """Return the sum of the newest samples as Prometheus gives it; None where it is empty or no number."""
    if not view.has_metrics:
        return None
    latest = [pod.samples[-1] for pod in serving(view) if pod.samples]
    values = [read(sample) for sample in latest if view.now - sample.at < FRESH_SECONDS]
    total = sum(values)
    return total if values and total == total else None  # noqa: PLR0124 - NaN differs from itself


def keda(read: Callable[[Sample], float], target: float, behavior: Behavior = SAMPLE) -> Maker:
    """Return a maker for one trigger."""

    def make(_: FleetSizes) -> Policy:
        return Keda(read, target, Hpa(behavior))

    return make


def kv_use(sample: Sample) -> float:
    """Read the KV use, 0 to 1."""
    return sample.kv_usage


def waiting(sample: Sample) -> float:
    """Read the waiting requests."""
    return sample.waiting


def running(sample: Sample) -> float:
    """Read the running requests."""
    return sample.running
