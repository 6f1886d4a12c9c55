"""The HorizontalPodAutoscaler: from a metric or a proposal to a number of replicas.

Source: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/ (algorithm, tolerance, behavior).
Several peers only publish a number and let an HPA carry it out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

SYNC_SECONDS = 15.0
"""The time between two looks of an HPA: the default of ``--horizontal-pod-autoscaler-sync-period``."""

TOLERANCE = 0.1
"""The relative difference from the target that changes nothing: the default of the controller manager."""


@dataclass(frozen=True, slots=True)
class Step:
    """The most that may change within ``seconds``: a number of pods, and a percentage of the replicas before."""

    seconds: float
    pods: int = 0
    percent: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one direction. Of several steps the largest counts; without steps there is no limit."""

    window_seconds: float = 0.0
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Behavior:
    """The rules for additions and for removals."""

    up: Rules
    down: Rules


def desired_for(total: float, target: float, current: int, tolerance: float = TOLERANCE) -> int:
    """Return the replicas with which each has at most ``target`` of the total (type AverageValue)."""
    if current > 0 and abs(total / (target * current) - 1) <= tolerance:
        return current
    return math.ceil(total / target)


@dataclass(slots=True)
class Hpa:
    """Carries out proposals: stabilises them over a window, and limits the steps."""

    behavior: Behavior
    _proposals: list[tuple[float, int]] = field(default_factory=list)
    _changes: list[tuple[float, int]] = field(default_factory=list)

    def __call__(self, now: float, current: int, proposed: int) -> int:
        """Return the replicas that are wanted from now on. Times are in seconds."""
        stable = self._stabilised(now, current, proposed)
        wanted = self._limited(now, current, stable)
        if wanted != current:
            self._changes.append((now, wanted - current))
        return wanted

    def _stabilised(self, now: float, current: int, proposed: int) -> int:
        """Add only what every proposal of the upper window wants, and remove only what every one of the lower does."""
        up, down = self.behavior.up.window_seconds, self.behavior.down.window_seconds
        before = self._proposals or [(now, current)]  # a new HPA starts from what there is
        self._proposals = [each for each in before if now - each[0] < max(up, down)]
        at_least = min([proposed, *(count for at, count in self._proposals if now - at < up)])
        at_most = max([proposed, *(count for at, count in self._proposals if now - at < down)])
        self._proposals.append((now, proposed))
        return min(max(current, at_least), at_most)

    def _limited(self, now: float, current: int, wanted: int) -> int:
        up, down = self.behavior.up.steps, self.behavior.down.steps
        if wanted > current and up:
            return min(wanted, max([current, *(self._highest(now, current, step) for step in up)]))
        if wanted < current and down:
            return max(wanted, min([current, *(self._lowest(now, current, step) for step in down)]))
        return wanted

    def _highest(self, now: float, current: int, step: Step) -> int:
        before = self._at_start(now, current, step)
        return max(before + step.pods, math.ceil(before * (100 + step.percent) / 100))

    def _lowest(self, now: float, current: int, step: Step) -> int:
        before = self._at_start(now, current, step)
        return min(before - step.pods, math.floor(before * (100 - step.percent) / 100))

    def _at_start(self, now: float, current: int, step: Step) -> int:
        """Return the replicas at the beginning of the step's period."""
        return current - sum(change for at, change in self._changes if now - at < step.seconds)
