"""The endpoint picker's saturation with KEDA: the baseline of llm-d's own benchmark.

Source: llm-d workload variant autoscaler, docs/benchmark.md. The larger need of two averages counts: KV use 0.70, and 2
waiting requests a replica. A look every 15 s, one pod more in 180 s, one pod less in 300 s with a window of 300 s.
Without any known pod nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.simulation.peers.hpa import SYNC_SECONDS, Behavior, Hpa, Rules, Step, desired_for
from plimsoll.simulation.peers.signals import clamped, known, serving, total_of
from plimsoll.simulation.peers.view import FleetSizes, Policy, View

KV_TARGET = 0.70
"""Mean KV use, 0 to 1."""

QUEUE_TARGET = 2.0
"""Mean waiting requests of a replica."""

BEHAVIOR = Behavior(Rules(0, (Step(180, pods=1),)), Rules(300, (Step(300, pods=1),)))


@dataclass(slots=True)
class EppKeda:
    """Two averages over the pods, carried out by an HPA."""

    hpa: Hpa
    tick_seconds: float = SYNC_SECONDS

    def __call__(self, view: View) -> int:
        """Return the replicas for the larger of both needs."""
        pods = known(view)
        if not pods:
            return view.wanted
        # The picker gives averages over the pods that it knows; the others are taken to be like them.
        everybody = len(serving(view)) / len(pods)
        kv = total_of(pods, view.now, lambda sample: sample.kv_usage) * everybody
        queue = total_of(pods, view.now, lambda sample: sample.waiting) * everybody
        needs = desired_for(kv, KV_TARGET, view.wanted), desired_for(queue, QUEUE_TARGET, view.wanted)
        return self.hpa(view.now, view.wanted, clamped(max(needs), view))


def epp_keda(_: FleetSizes) -> Policy:
    """Make the policy."""
    return EppKeda(Hpa(BEHAVIOR))
