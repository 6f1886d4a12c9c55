"""WVA's saturation analyzer V1: spare KV use and spare queue per replica, one replica at a time.

Source: llm-d/llm-d-workload-variant-autoscaler, internal/saturationv1/analyzer.go (the default before 0.9). A replica
is saturated at a KV use of 0.80 or at 5 waiting requests, as maxima of one minute. Less than 0.10 of KV use or than 3
requests to spare on the mean of the others adds one replica. One is removed where the rest would keep that, and at
least 2 replicas are not saturated. As long as the last number is not reached, or a replica has no metrics, nothing is
decided at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from plimsoll.simulation.peers.hpa import Behavior, Hpa
from plimsoll.simulation.peers.signals import clamped, highest, known
from plimsoll.simulation.peers.view import FleetSizes, Maker, Policy, View
from plimsoll.simulation.peers.wva import README, TICK_SECONDS

KV_THRESHOLD = 0.80
QUEUE_THRESHOLD = 5.0
KV_SPARE = 0.10
QUEUE_SPARE = 3.0
LEAST_UNSATURATED = 2
WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Spare:
    """The room that a replica has left before it is saturated: KV use (0 to 1) and requests."""

    kv: float
    queue: float

    @property
    def is_saturated(self) -> bool:
        """Whether one of them is used up."""
        return self.kv <= 0 or self.queue <= 0

    @property
    def is_enough(self) -> bool:
        """Whether no replica is to be added."""
        return self.kv >= KV_SPARE and self.queue >= QUEUE_SPARE

    def at(self, load: float) -> Spare:
        """Return what is left if the load is multiplied."""
        return Spare(
            KV_THRESHOLD - (KV_THRESHOLD - self.kv) * load, QUEUE_THRESHOLD - (QUEUE_THRESHOLD - self.queue) * load
        )


@dataclass(slots=True)
class WvaV1:
    """One step at a time, each only after the one before is done."""

    hpa: Hpa = field(default_factory=lambda: Hpa(README))
    tick_seconds: float = TICK_SECONDS
    published: int | None = None

    def __call__(self, view: View) -> int:
        """Publish a number, and return what the HPA makes of it."""
        published = view.wanted if self.published is None else self.published
        spares = _spares(view)
        if published == view.wanted == len(spares):
            published = clamped(view.wanted + _change(spares), view)
        self.published = published
        return self.hpa(view.now, view.wanted, published)


def _spares(view: View) -> list[Spare]:
    return [
        Spare(
            KV_THRESHOLD - highest(pod, view.now, WINDOW_SECONDS, lambda sample: sample.kv_usage),
            QUEUE_THRESHOLD - highest(pod, view.now, WINDOW_SECONDS, lambda sample: sample.waiting),
        )
        for pod in known(view)
    ]


def _change(spares: Sequence[Spare]) -> int:
    left = [spare for spare in spares if not spare.is_saturated]
    if not left:
        return 1
    mean = Spare(fmean(spare.kv for spare in left), fmean(spare.queue for spare in left))
    if not mean.is_enough:
        return 1
    count = len(left)
    return -1 if count >= LEAST_UNSATURATED and mean.at(count / (count - 1)).is_enough else 0


def wva_v1(behavior: Behavior = README) -> Maker:
    """Return a maker with the HPA of the README, or with another one."""

    def make(_: FleetSizes) -> Policy:
        return WvaV1(Hpa(behavior))

    return make
