"""The interface of everything that can read live signals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from plimsoll.engines.metrics import EngineMetrics
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.reading import PastReading, Reading


class SignalReader(Protocol):
    """A source of live signals. It is shared between threads, and a failure is part of its result, never an error."""

    @property
    def has_past(self) -> bool:
        """Whether the source keeps samples: then only what is new is read of pods that were read before."""
        ...

    def read(
        self, namespace: str, pods: Mapping[str, str], *, window_seconds: int, now: float, metrics: EngineMetrics
    ) -> Reading | None:
        """Read the newest ``window_seconds`` of the pods' samples, or as much of them as the source has.

        None means that nothing is known yet, good or bad.

        Args:
            namespace: the namespace of all the pods.
            pods: the IP address of each pod by its name; empty where it has none yet.
            window_seconds: how far back to read.
            now: the caller's clock, POSIX seconds; sample times in the reading are in this clock.
            metrics: the names that the pods' engine uses.
        """
        ...


@runtime_checkable
class QueueReader(Protocol):
    """A source of gateways' queues. It is shared between threads, and a failure is part of its result."""

    def read_queue(self, namespace: str, pool: str, *, now: float) -> GatewayQueue:
        """Read the queue of an InferencePool's gateway.

        Args:
            namespace: the namespace of the pool.
            pool: the name of the InferencePool.
            now: the caller's clock, POSIX seconds.
        """
        ...


@runtime_checkable
class PastReader(Protocol):
    """A source that keeps samples for days. It is shared between threads, and a failure is part of its result."""

    def arrivals_before(
        self, namespace: str, deployment: str, metrics: EngineMetrics, *, until: float, seconds: float
    ) -> PastReading:
        """Return the requests a second in each step of the time that ends at ``until``, POSIX seconds.

        They are those of all pods that the deployment ever had, on whatever GPUs.

        Args:
            namespace: the namespace of the pods.
            deployment: the name of the InferenceDeployment.
            metrics: the names that its engine uses.
            until: the end, by the source's clock.
            seconds: how far back from there.
        """
        ...
