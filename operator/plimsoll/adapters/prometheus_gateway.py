"""The queue of a gateway's endpoint picker, from the series of Prometheus.

The endpoint picker of llm-d and of the Gateway API inference extension holds requests where the engines are full or
none runs (flow control). Its gauge has a series for each fairness id, priority and model, so their sum is the queue. It
exists from the first request that the picker holds: no series is not an empty queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.adapters.engine_series import points_of
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.gateway_scrapes import Scrapes, queue_of
from plimsoll.rebalance.signals.metrics import SignalState

QUEUE_METRICS = ("llm_d_epp_flow_control_queue_size", "inference_extension_flow_control_queue_size")
"""Requests that wait, as llm-d 0.9 names them, and the older name, under which it reports the same requests again."""

POOL_LABEL = "inference_pool"

WINDOW_SECONDS = 240
"""How far back the queue is read: the usual window of 120 s, and four scrapes of 30 s."""

_OWN_LABELS = frozenset({"__name__", "fairness_id", "priority", "model_name", "target_model_name"})
"""Labels that the picker gives its series itself. Others say where a series was scraped."""


@dataclass(frozen=True, slots=True)
class GatewayMetrics:
    """The metrics of a queue, the best one first, and the label that holds the InferencePool's name."""

    names: tuple[str, ...] = QUEUE_METRICS
    pool_label: str = POOL_LABEL

    def missing(self, pool: str) -> str:
        """Return what is to be looked for, as text for people."""
        return f'Prometheus has no recent series of {" or ".join(self.names)} with {self.pool_label}="{pool}".'


USUAL_METRICS = GatewayMetrics()
"""Those of llm-d's endpoint picker."""


@dataclass(frozen=True, slots=True)
class QueueSeries:
    """One series: its labels, and its raw samples by scrape time in POSIX seconds."""

    labels: Mapping[str, str]
    points: Mapping[float, float]


def parse_queue_series(result: Any, shift_seconds: float) -> list[QueueSeries]:
    """Read the ``data.result`` of a range-vector reply; ``shift_seconds`` is added to every time.

    Raises:
        SourceUnavailable: the reply has another shape.
    """
    try:
        read = [
            QueueSeries(
                {str(label): str(value) for label, value in entry["metric"].items()},
                points_of(entry["values"], shift_seconds),
            )
            for entry in result
        ]
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SourceUnavailable("Prometheus answered with another shape than a range vector") from error
    return [series for series in read if series.points]


def gateway_queue(
    series: Sequence[QueueSeries], metrics: GatewayMetrics, pool: str, pod_label: str, now: float
) -> GatewayQueue:
    """Return the queue. Only the best metric that has recent samples is read: two names report the same requests."""
    found = GatewayQueue(SignalState.MISSING)
    for name in metrics.names:
        some = [each for each in series if each.labels.get("__name__") == name]
        found = queue_of(_processes(some, metrics, pod_label), now)
        if found.state not in (SignalState.MISSING, SignalState.STALE):
            break
    if found.state is SignalState.INVALID:
        return replace(found, error=f"the queue of {pool} is an impossible number in three scrapes in a row.")
    return found if found.is_known else replace(found, error=metrics.missing(pool))


def _processes(series: Sequence[QueueSeries], metrics: GatewayMetrics, pod_label: str) -> list[Scrapes]:
    """Return the queue of each pod of the gateway. A pod that is scraped twice counts once, as it was scraped last."""
    by_pod: dict[str, dict[tuple[tuple[str, str], ...], list[QueueSeries]]] = {}
    for each in series:
        target = _target(each, metrics)
        by_pod.setdefault(each.labels.get(pod_label) or str(target), {}).setdefault(target, []).append(each)
    return [_summed(max(targets.values(), key=_newest)) for targets in by_pod.values()]


def _target(series: QueueSeries, metrics: GatewayMetrics) -> tuple[tuple[str, str], ...]:
    own = _OWN_LABELS | {metrics.pool_label}
    return tuple(sorted((label, value) for label, value in series.labels.items() if label not in own))


def _newest(some: Sequence[QueueSeries]) -> float:
    return max(max(each.points) for each in some)


def _summed(some: Sequence[QueueSeries]) -> Scrapes:
    """Add the series of each scrape. One impossible value stays, so that no other value hides it."""
    scrapes: dict[float, list[float]] = {}
    for each in some:
        for at, value in each.points.items():
            scrapes.setdefault(at, []).append(value)
    return {at: next((value for value in values if not value >= 0), sum(values)) for at, values in scrapes.items()}


def any_of(names: Sequence[str], matchers: str) -> str:
    """Return one selector for all names."""
    return f'{{__name__=~"{"|".join(names)}",{matchers}}}'
