"""A fixed number of replicas, for comparison: the number that the scenario starts with, or the most that it allows."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.simulation.peers.view import FleetSizes, Maker, Policy, View


@dataclass(slots=True)
class Static:
    """Always the same number."""

    replicas: int
    tick_seconds: float = 5.0

    def __call__(self, view: View) -> int:  # noqa: ARG002 - it looks at nothing
        """Return the number."""
        return self.replicas


def static(replicas: int) -> Maker:
    """Return a maker for a fixed number."""

    def make(_: FleetSizes) -> Policy:
        return Static(replicas)

    return make


def static_start(scenario: FleetSizes) -> Policy:
    """Keep the replicas of the beginning."""
    return Static(scenario.start_replicas)


def static_peak(scenario: FleetSizes) -> Policy:
    """Run the most replicas all the time."""
    return Static(scenario.max_replicas)
