"""AIBrix's two autoscalers on KV use: KPA with its panic mode, and APA.

Source: vllm-project/aibrix, pkg/controller/podautoscaler/algorithm/kpa.go and apa.go, and autoscaler.go at 015a2e5 for
replicas that start. A look every 10 s and a target of 0.5 of the KV cache. KPA averages the sum over the pods over 180
s, and over 60 s for the panic mode; a change at most doubles or halves the replicas. APA averages a pod's use over 180
s, lets 10 % pass, and removes only what 300 s of looks agree on. While replicas start, both add less: these count as
unused. And they remove less: these count as used to the target. A pod without a recent sample is missing in the sum,
and without any sample nothing changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from plimsoll.simulation.peers.hpa import Behavior, Hpa, Rules
from plimsoll.simulation.peers.signals import clamped, known, serving, total_of
from plimsoll.simulation.peers.view import FleetSizes, Policy, View

TARGET = 0.5
"""KV use of a replica, 0 to 1."""

STABLE_SECONDS = 180.0
PANIC_SECONDS = 60.0
PANIC_RATIO = 2.0
"""More than this many times the stable value is a panic."""

FLUCTUATION = 0.1
"""The relative difference that APA lets pass."""

LARGEST_FACTOR = 2
"""A change at most multiplies or divides the replicas by this factor."""

APA_BEHAVIOR = Behavior(Rules(0), Rules(300))


@dataclass(slots=True)
class Averages:
    """The looks of the last three minutes: the KV use of all known pods together, and their number."""

    looks: list[tuple[float, float, int]] = field(default_factory=list)

    def add(self, view: View) -> None:
        """Add a look, unless no pod is known."""
        self.looks = [look for look in self.looks if view.now - look[0] < STABLE_SECONDS]
        pods = known(view)
        if pods:
            self.looks.append((view.now, total_of(pods, view.now, lambda sample: sample.kv_usage), len(pods)))

    def mean(self, now: float, seconds: float) -> float | None:
        """Return the mean of the sums in the window; None where there is no look."""
        sums = [total for at, total, _ in self.looks if now - at < seconds]
        return sum(sums) / len(sums) if sums else None

    def mean_per_pod(self) -> float | None:
        """Return the mean of a pod; None where there is no look."""
        pods = sum(count for _, _, count in self.looks)
        return sum(total for _, total, _ in self.looks) / pods if pods else None


@dataclass(slots=True)
class Kpa:
    """Follows the stable value, and in a panic the value of the last minute, which only adds."""

    averages: Averages = field(default_factory=Averages)
    tick_seconds: float = 10.0

    def __call__(self, view: View) -> int:
        """Return the replicas for the averages."""
        self.averages.add(view)
        stable = self.averages.mean(view.now, STABLE_SECONDS)
        panic = self.averages.mean(view.now, PANIC_SECONDS)
        if stable is None or panic is None:
            return view.wanted
        wanted = _within_a_step(math.ceil(stable / TARGET), view.wanted)
        if stable <= 0 or panic / stable > PANIC_RATIO:
            wanted = max(wanted, _within_a_step(math.ceil(panic / TARGET), view.wanted), view.wanted)
        ready = len(serving(view))
        if_unused = math.ceil(panic * ready / view.wanted / TARGET) if view.wanted else 0
        return clamped(_with_starting(wanted, if_unused, math.ceil(panic * ready / TARGET), view), view)


@dataclass(slots=True)
class Apa:
    """Follows the mean KV use of a pod, outside a band of 10 %."""

    averages: Averages = field(default_factory=Averages)
    hpa: Hpa = field(default_factory=lambda: Hpa(APA_BEHAVIOR))
    tick_seconds: float = 10.0

    def __call__(self, view: View) -> int:
        """Return the replicas for the average."""
        self.averages.add(view)
        use = self.averages.mean_per_pod()
        if use is None:
            return view.wanted
        by_ready = math.ceil(use * len(serving(view)) / TARGET)
        wanted = _with_starting(_proportional(use / TARGET, view.wanted), by_ready, by_ready, view)
        return self.hpa(view.now, view.wanted, clamped(wanted, view))


def _within_a_step(wanted: int, replicas: int) -> int:
    """Return the number, at most doubled or halved."""
    return min(max(wanted, replicas // LARGEST_FACTOR), max(1, LARGEST_FACTOR * replicas))


def _proportional(ratio: float, replicas: int) -> int:
    """Return the replicas times the ratio, outside the band."""
    outside = abs(ratio - 1) > FLUCTUATION
    return _within_a_step(math.ceil(replicas * ratio), replicas) if outside else replicas


def _with_starting(wanted: int, if_unused: int, by_ready: int, view: View) -> int:
    """Correct a number for replicas that start.

    Args:
        wanted: the number without the correction.
        if_unused: an addition is at most this number.
        by_ready: a removal keeps these, and all that start.
        view: the replicas.
    """
    starting = view.wanted - len(serving(view))
    if starting <= 0:
        return wanted
    if wanted > view.wanted:
        return min(wanted, max(view.wanted, if_unused))
    return max(wanted, min(view.wanted, by_ready + starting))


def kpa(_: FleetSizes) -> Policy:
    """Make the autoscaler with the panic mode."""
    return Kpa()


def apa(_: FleetSizes) -> Policy:
    """Make the proportional autoscaler."""
    return Apa()
