"""How long no request has come when a process of the operator begins, from a source that keeps samples.

It is asked once for each object, at its first reading. From then on the process sees for itself. A status could say the
same, and anybody who may write statuses could scale a deployment to zero with it. Samples are evidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from plimsoll.app.live.wanted import WantedSamples
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.engines.registry import ENGINES
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.idle import LONGEST_HOLE_SECONDS, Quiet
from plimsoll.rebalance.signals.look_back import quiet_before
from plimsoll.rebalance.signals.metrics import PodSignals

LONGEST_SECONDS = 86_400.0
"""How far back is read at most. A day of one engine's samples with scrapes of 15 s is about a megabyte."""

REVERSAL_SHARE = 1.5
"""A reversal makes the idle time half as long again, and a second one stops removals."""


def look_back_seconds(idle_seconds: float) -> int:
    """Return how far back to read if no request may have come for so long."""
    return math.ceil(min(LONGEST_SECONDS, REVERSAL_SHARE * idle_seconds + LONGEST_HOLE_SECONDS))


@runtime_checkable
class QuietReader(Protocol):
    """A source that keeps samples. A failure is no answer."""

    def scrapes_before(
        self, namespace: str, deployment: str, metrics: EngineMetrics, *, until: float, seconds: float
    ) -> Mapping[str, PodSignals] | None:
        """Return the samples of all pods of the InferenceDeployment, also of pods that are gone, up to ``until``."""
        ...

    def read_queue(self, namespace: str, pool: str, *, now: float, window_seconds: int) -> GatewayQueue:
        """Read the queue of an InferencePool's gateway over a time."""
        ...


@dataclass(slots=True)
class QuietWatch:
    """The answers by object. Each object is asked about by one thread at a time."""

    known: dict[ObjectKey, Quiet | None] = field(default_factory=dict)

    def before(self, reader: object, key: ObjectKey, what: WantedSamples, now: float, skew: float) -> Quiet | None:
        """Return when a request came last before this process began; None if nothing shows it.

        Args:
            reader: the source of signals.
            key: the object.
            what: what is read of it. Its pods are those that are ready.
            now: POSIX seconds.
            skew: how far the source's clock is ahead, in seconds.
        """
        if what.idle_seconds is None or not what.pods or not isinstance(reader, QuietReader):
            return None
        if key not in self.known:
            self.known[key] = None  # a question that fails is not asked again
            self.known[key] = _asked(reader, key, what, look_back_seconds(what.idle_seconds), now, skew)
        return self.known[key]


def _asked(
    reader: QuietReader, key: ObjectKey, what: WantedSamples, seconds: int, now: float, skew: float
) -> Quiet | None:
    """Ask about the pods of every engine: the object may have had another one a short while ago."""
    found = dict[str, PodSignals]()
    for engine in ENGINES.values():
        some = reader.scrapes_before(key.namespace, key.name, engine.metrics, until=now + skew, seconds=seconds)
        if some is None:
            return None
        found |= some
    if not found:
        return None
    queue = None
    if what.inference_pool:
        queue = reader.read_queue(key.namespace, what.inference_pool, now=now, window_seconds=seconds)
    return quiet_before({pod: _shifted(each, skew) for pod, each in found.items()}, what.pods, queue, now)


def _shifted(signals: PodSignals, skew: float) -> PodSignals:
    """Return the samples with times of our own clock."""
    samples = tuple(replace(each, at=each.at - skew) for each in signals.samples) if skew else signals.samples
    return replace(signals, samples=samples)
