"""The series of the live loop, made from the figures of the last pass each time Prometheus asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from plimsoll.domain.keys import ObjectKey
from plimsoll.rebalance.figures import LiveFigures

Figures = Mapping[ObjectKey, LiveFigures]


@dataclass(frozen=True, slots=True)
class LiveMetric:
    """One metric: its name, its help text, and its value for one object; None leaves the object out."""

    name: str
    text: str
    value: Callable[[LiveFigures], float | None]

    def of(self, figures: Figures) -> GaugeMetricFamily:
        """Return the metric with the samples of all objects."""
        family = GaugeMetricFamily(self.name, self.text, labels=("namespace", "name"))
        for key, figure in figures.items():
            value = self.value(figure)
            if value is not None:
                family.add_metric((key.namespace, key.name), float(value))
        return family


class LiveSeries(Collector):
    """The live figures of all objects. A scrape reads ``figures`` once: it sees one pass."""

    def __init__(self) -> None:
        self.figures: Figures = MappingProxyType({})

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics without samples. The registry refuses a second metric of the same name."""
        return self._families({})

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics with their samples."""
        return self._families(self.figures)

    @staticmethod
    def _families(figures: Figures) -> Iterator[GaugeMetricFamily]:
        yield from (metric.of(figures) for metric in METRICS)
        decisions = GaugeMetricFamily(
            "plimsoll_live_decision",
            "1 for the last decision of the live loop.",
            labels=("namespace", "name", "decision", "reason", "diagnosis"),
        )
        for key, each in figures.items():
            decisions.add_metric((key.namespace, key.name, each.decision, each.reason, each.diagnosis), 1)
        yield decisions


METRICS = (
    LiveMetric("plimsoll_live_arrivals_per_second", "Requests that arrive.", lambda each: each.arrivals),
    LiveMetric(
        "plimsoll_live_expected_arrivals_per_second",
        "Requests that are expected when a new replica serves, where these are more than now.",
        lambda each: each.expected,
    ),
    LiveMetric(
        "plimsoll_live_replica_capacity_per_second",
        "Requests that one replica carries with its promises kept, as learned.",
        lambda each: each.capacity,
    ),
    LiveMetric(
        "plimsoll_live_pressure_ratio",
        "Replicas that the load needs over those that are wanted: above 1 there are too few.",
        lambda each: each.pressure,
    ),
    LiveMetric("plimsoll_live_needed_replicas", "Replicas that the load needs.", lambda each: each.needed),
    LiveMetric("plimsoll_live_target_replicas", "Replicas that are wanted.", lambda each: each.target),
    LiveMetric(
        "plimsoll_live_waiting_requests", "Requests in the queues of engines and gateway.", lambda each: each.waiting
    ),
    LiveMetric(
        "plimsoll_live_gateway_waiting_requests", "Requests in the gateway's queue.", lambda each: each.at_gateway
    ),
    LiveMetric("plimsoll_live_running_requests", "Requests in the engines' batches.", lambda each: each.running),
    LiveMetric(
        "plimsoll_live_preempted_ratio",
        "Requests that lost their blocks over those that got a first token, over the window.",
        lambda each: each.preempted_share,
    ),
    LiveMetric("plimsoll_live_kv_cache_use_ratio", "KV cache in use, 0 to 1.", lambda each: each.kv_use),
    LiveMetric(
        "plimsoll_live_kv_cache_used_tokens", "KV tokens in use in the pods that report.", lambda each: each.used_tokens
    ),
    LiveMetric("plimsoll_live_kv_cache_tokens", "KV cache that these pods have.", lambda each: each.held_tokens),
    LiveMetric(
        "plimsoll_live_batch_slots",
        "Requests that these pods run at the same time at most.",
        lambda each: each.slots,
    ),
    LiveMetric("plimsoll_live_ttft_seconds", "Mean time to the first token.", lambda each: each.ttft_seconds),
    LiveMetric("plimsoll_live_token_seconds", "Mean time between two tokens.", lambda each: each.token_seconds),
    LiveMetric(
        "plimsoll_live_token_time_ratio",
        "Measured time per token over the performance model's, as learned.",
        lambda each: each.slowness,
    ),
    LiveMetric(
        "plimsoll_live_startup_seconds",
        "Longest start-up of a replica that was seen.",
        lambda each: each.startup_seconds,
    ),
)
