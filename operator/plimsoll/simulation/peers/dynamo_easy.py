"""Dynamo's easy mode: fixed bounds on the KV cache that running and waiting requests need.

Source: ai-dynamo/dynamo, planner/core/load_scaling.py at 0c6da1e. The use of an engine is the tokens in its KV cache
and the waiting prompt tokens, over its capacity. The target "throughput" (the default) adds a replica where any engine
has more than 1.0, and removes one where all have less than 0.6. The target "latency" does so at 0.4 and 0.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from plimsoll.simulation.peers.dynamo import LOAD_SECONDS, Guarded, loads_of
from plimsoll.simulation.peers.view import FleetSizes, PodView, Policy, View


@dataclass(frozen=True, slots=True)
class Bounds:
    """Uses of the KV cache: more than ``up`` on any engine adds, less than ``down`` on all removes."""

    up: float
    down: float


THROUGHPUT = Bounds(up=1.0, down=0.6)
LATENCY = Bounds(up=0.4, down=0.1)


@dataclass(slots=True)
class DynamoEasy:
    """The easy mode with the bounds of one target."""

    bounds: Bounds
    guarded: Guarded = field(default_factory=Guarded)
    tick_seconds: float = LOAD_SECONDS

    def __call__(self, view: View) -> int:
        """Return the present number, or one more or less."""
        return self.guarded(view, lambda pods: self._step(pods, view))

    def _step(self, pods: Sequence[PodView], view: View) -> int:
        uses = [(load.in_cache + load.queued) / view.engine.kv_tokens for load in loads_of(pods, view)]
        if any(use > self.bounds.up for use in uses):
            return 1
        return -1 if all(use < self.bounds.down for use in uses) else 0


def dynamo_throughput(_: FleetSizes) -> Policy:
    """Make the easy mode for throughput."""
    return DynamoEasy(THROUGHPUT)


def dynamo_latency(_: FleetSizes) -> Policy:
    """Make the easy mode for latency."""
    return DynamoEasy(LATENCY)
