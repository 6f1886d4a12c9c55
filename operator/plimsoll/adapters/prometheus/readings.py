"""The interface of everything that can read live signals.

Leave impossible numbers out of samples, so that one of them costs one figure and not the pod's whole window.

An engine that reports one NaN between good values is still an engine whose load is known. An engine that reports
nothing else is not: its last numbers stay as they are, and the judge of the window reports them as invalid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Protocol, runtime_checkable

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.load import ERRORS_IN_A_ROW
from plimsoll.rebalance.signals.metrics import LARGEST_COUNT, NUMBERS, SIZES, EngineSample
from plimsoll.rebalance.signals.reading import PastReading, Reading


@dataclass(frozen=True, slots=True)
class Asked:
    """Pods of one object that are read together, and how far back, in seconds.

    ``pods`` holds the IP address of each pod by its name; empty if it has none yet. ``buckets``: the buckets of the
    histograms of times are read, too. vLLM has 43 of them, nearly twice as many series as all others.
    """

    namespace: str
    pods: Mapping[str, str]
    window_seconds: int
    buckets: bool = False


class SignalReader(Protocol):
    """A source of live signals. It is shared between threads, and a failure is part of its result, never an error."""

    @property
    def has_past(self) -> bool:
        """Whether the source keeps samples: then only what is new is read of pods that were read before."""
        ...

    def read_all(self, asked: Sequence[Asked], metrics: EngineMetrics, *, now: float) -> Sequence[Reading | None]:
        """Read the newest samples of the pods, or as many of them as the source has. Return a reading for each.

        None means that nothing is known yet, good or bad.

        Args:
            asked: the pods and the windows. What is asked together should be of about the same length.
            metrics: the names that the pods' engine uses.
            now: the caller's clock, POSIX seconds; sample times in the readings are in this clock.
        """
        ...


@runtime_checkable
class QueueReader(Protocol):
    """A source of gateways' queues. It is shared between threads, and a failure is part of its result."""

    def read_queues(self, pools: Collection[ObjectKey], *, now: float) -> Mapping[ObjectKey, GatewayQueue]:
        """Read the queues of InferencePools' gateways, by namespace and name of the pool.

        Args:
            pools: the InferencePools.
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


_NEEDED = ("kv_usage", "waiting")
"""The figures that every decision needs. Only they tell an engine with wrong numbers from one without numbers."""

_OTHERS = tuple(name for name in NUMBERS if name not in _NEEDED)


def is_share(value: float) -> bool:
    """Whether a number can be a share of a whole. NaN cannot."""
    return 0 <= value <= 1


def is_count(value: float) -> bool:
    """Whether a number can be a number of requests."""
    return 0 <= value <= LARGEST_COUNT


def without_lone_errors(samples: Iterable[EngineSample]) -> tuple[EngineSample, ...]:
    """Return the samples in the order of their times, without impossible numbers: each becomes None.

    Figures that every decision needs stay as they are if :func:`settled` leaves them.
    """
    return settled(sorted((_without(sample, _OTHERS) for sample in samples), key=attrgetter("at")))


def settled(ordered: Sequence[EngineSample]) -> tuple[EngineSample, ...]:
    """Return ordered samples without impossible figures of the kind that every decision needs.

    If each of the newest :data:`ERRORS_IN_A_ROW` samples (or of all, if there are fewer) has such a figure, all stay
    as they are.
    """
    if all(not sample.is_possible and _impossible(sample, _NEEDED) for sample in ordered[-ERRORS_IN_A_ROW:]):
        return tuple(ordered)
    return tuple([_without(sample, _NEEDED) for sample in ordered])


def _without(sample: EngineSample, names: Sequence[str]) -> EngineSample:
    if sample.is_possible:
        return sample
    unknown: dict[str, Any] = dict.fromkeys(_impossible(sample, names))
    return replace(sample, **unknown) if unknown else sample


def _impossible(sample: EngineSample, names: Sequence[str]) -> list[str]:
    return [name for name in names if not _can_be(name, getattr(sample, name))]


def _can_be(name: str, value: Any) -> bool:
    if value is None:
        return True
    if name == "kv_usage":
        return is_share(value)
    return 0 <= value <= LARGEST_COUNT and (name not in SIZES or value > 0)
