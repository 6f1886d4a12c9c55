"""The series of all InferenceDeployments and of the live loop, made from the last pass each time Prometheus asks.

A gauge of ``prometheus_client`` keeps about 1 KiB for each combination of labels, and a pass would have to fill
it again for all objects. So a pass only hands over its reports and figures. They never change, so the thread of a
scrape can read them at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from plimsoll.domain.decisions.terms import KV_CACHE
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.placement.demands.pools import PlannedPool
from plimsoll.rebalance.figures import LiveFigures
from plimsoll.rebalance.law.learning import CapacityReading
from plimsoll.status.record.report import Report
from plimsoll.status.severity import Judged

T = TypeVar("T")

Values = Mapping[tuple[str, ...], float]
"""The values of one object in one series, each by the labels that follow its namespace and name."""

_COMPONENTS = {KV_CACHE: "kv"}
"""The values of the label ``component`` that differ from a term's key."""


@dataclass(frozen=True, slots=True)
class ObjectMetric(Generic[T]):
    """One metric of all objects: its name, its help text, the labels after namespace and name, and its values."""

    name: str
    text: str
    labels: tuple[str, ...]
    values: Callable[[T], Values]

    def of(self, objects: Mapping[ObjectKey, T]) -> GaugeMetricFamily:
        """Return the metric with the samples of all objects."""
        family = GaugeMetricFamily(self.name, self.text, labels=("namespace", "name", *self.labels))
        for key, each in objects.items():
            for labels, value in self.values(each).items():
                family.add_metric((key.namespace, key.name, *labels), float(value))
        return family


class ObjectSeries(Collector, Generic[T]):
    """The metrics of ``objects``. A scrape reads ``objects`` once: it sees one pass."""

    def __init__(self, series: Sequence[ObjectMetric[T]]) -> None:
        self.objects: Mapping[ObjectKey, T] = MappingProxyType({})
        self._series = series

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics without samples. The registry refuses a second metric of the same name."""
        return (series.of({}) for series in self._series)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics with their samples."""
        objects = self.objects
        return (series.of(objects) for series in self._series)


def _memory(report: Report) -> Values:
    if report.decision is None or report.decision.choice is None:
        return {}
    figures = report.decision.choice.estimate
    terms = ((_COMPONENTS.get(term.name, term.name.key), term.size_bytes) for term in figures.terms)
    return {(component,): size for component, size in (*terms, ("margin", figures.margin_bytes))}


def _replicas(report: Report) -> Values:
    """Return the replicas by GPU type: several pools may have the same one."""
    found: Counter[tuple[str, ...]] = Counter()
    for pool in _pools(report):
        found[pool.gpu_type,] += pool.replicas
    return found


def _missing(report: Report) -> Values:
    return {} if report.decision is None else {(): report.decision.missing}


def _rejections(report: Report) -> Values:
    rejections = () if report.decision is None else report.decision.rejections
    return Counter((rejection.reason.value,) for rejection in rejections)


def _problem(report: Report) -> Values:
    return {} if report.problem is None else {(report.problem.reason.value,): 1}


def _waiting(report: Report) -> Values:
    """Return 1 while a change of the live loop waits for approval, and 0 while none does; nothing without the loop."""
    live = report.rebalancing
    return {} if live is None else {(): live.proposal is not None and not live.approved}


def _predicted(report: Report) -> Values:
    return _by_pool(report, report.predicted_tokens)


def _reported(report: Report) -> Values:
    return _by_pool(report, report.reported_tokens)


def _error(report: Report) -> Values:
    def error(pool: PlannedPool) -> float | None:
        predicted, reported = report.predicted_tokens(pool), report.reported_tokens(pool)
        if predicted is None or reported is None:
            return None
        permille = CapacityReading(predicted, reported).error_permille
        return None if permille is None else permille / 1000

    return _by_pool(report, error)


def _by_pool(report: Report, figure: Callable[[PlannedPool], float | None]) -> Values:
    found = ((pool.name, figure(pool)) for pool in _pools(report))
    return {(pool,): value for pool, value in found if value is not None}


def _pools(report: Report) -> Sequence[PlannedPool]:
    return () if report.decision is None else report.decision.pools


OF_REPORTS: tuple[ObjectMetric[Report], ...] = (
    ObjectMetric("plimsoll_estimated_gpu_memory_bytes", "Estimated memory of one GPU.", ("component",), _memory),
    ObjectMetric("plimsoll_planned_replicas", "Replicas planned.", ("gpu_type",), _replicas),
    ObjectMetric("plimsoll_unplaced_replicas", "Replicas without a place.", (), _missing),
    ObjectMetric("plimsoll_placement_rejections", "Candidates not taken.", ("reason",), _rejections),
    ObjectMetric("plimsoll_problems", "Objects that cannot be planned.", ("reason",), _problem),
    ObjectMetric("plimsoll_waiting_proposals", "Changes of the live loop that wait for approval.", (), _waiting),
    ObjectMetric(
        "plimsoll_predicted_kv_cache_tokens", "KV tokens of one replica by the estimate.", ("pool",), _predicted
    ),
    ObjectMetric("plimsoll_reported_kv_cache_tokens", "KV tokens of one replica by its engine.", ("pool",), _reported),
    ObjectMetric(
        "plimsoll_estimate_error_ratio",
        "Predicted over reported KV tokens, less one: above 0 too much was promised.",
        ("pool",),
        _error,
    ),
)


OF_STATES: tuple[ObjectMetric[Judged], ...] = (
    ObjectMetric(
        "plimsoll_deployment_state",
        "1 for the state of an object, with its severity.",
        ("state", "severity"),
        lambda each: {(each.state.value, each.severity.name.lower()): 1},
    ),
    ObjectMetric(
        "plimsoll_deployment_acknowledged_until_seconds",
        "Until when somebody has acknowledged the state of an object, as a time: its alert rests.",
        ("finding", "by"),
        lambda each: {} if each.known is None else {(each.known.finding, each.known.by): each.known.until},
    ),
)


def _live(name: str, text: str, value: Callable[[LiveFigures], float | None]) -> ObjectMetric[LiveFigures]:
    """Return a metric of the live loop with one value for each object; None leaves the object out."""

    def values(figures: LiveFigures) -> Values:
        found = value(figures)
        return {} if found is None else {(): found}

    return ObjectMetric(name, text, (), values)


def _percentile(name: str, text: str, figure: str) -> ObjectMetric[LiveFigures]:
    """Return a metric of a promised percentile, which is its label; no value for objects that promise none."""

    def values(figures: LiveFigures) -> Values:
        found = figures.ttft_percentile if figure == "ttft" else figures.token_percentile
        return {} if found is None else {(str(figures.percentile),): found}

    return ObjectMetric(name, text, ("percentile",), values)


OF_FIGURES: tuple[ObjectMetric[LiveFigures], ...] = (
    _live("plimsoll_live_arrivals_per_second", "Requests that arrive.", lambda each: each.arrivals),
    _live(
        "plimsoll_live_expected_arrivals_per_second",
        "Requests that are expected when a new replica serves, where these are more than now.",
        lambda each: each.expected,
    ),
    _live(
        "plimsoll_live_replica_capacity_per_second",
        "Requests that one replica carries with its promises kept, as learned.",
        lambda each: each.capacity,
    ),
    _live(
        "plimsoll_live_pressure_ratio",
        "Replicas that the load needs over those that are wanted: above 1 there are too few.",
        lambda each: each.pressure,
    ),
    _live("plimsoll_live_needed_replicas", "Replicas that the load needs.", lambda each: each.needed),
    _live("plimsoll_live_target_replicas", "Replicas that are wanted.", lambda each: each.target),
    _live(
        "plimsoll_live_waiting_requests", "Requests in the queues of engines and gateway.", lambda each: each.waiting
    ),
    _live("plimsoll_live_gateway_waiting_requests", "Requests in the gateway's queue.", lambda each: each.at_gateway),
    _live("plimsoll_live_running_requests", "Requests in the engines' batches.", lambda each: each.running),
    _live(
        "plimsoll_live_preempted_ratio",
        "Requests that lost their blocks over those that got a first token, over the window.",
        lambda each: each.preempted_share,
    ),
    _live(
        "plimsoll_live_kv_cache_use_ratio",
        "KV cache in use, 0 to 1, without prefixes that are kept and that no request uses.",
        lambda each: each.kv_use,
    ),
    _live(
        "plimsoll_live_kv_cache_used_tokens", "KV tokens in use in the pods that report.", lambda each: each.used_tokens
    ),
    _live("plimsoll_live_kv_cache_tokens", "KV cache that these pods have.", lambda each: each.held_tokens),
    _live(
        "plimsoll_live_batch_slots",
        "Requests that these pods run at the same time at most.",
        lambda each: each.slots,
    ),
    _live("plimsoll_live_ttft_seconds", "Mean time to the first token.", lambda each: each.ttft_seconds),
    _live("plimsoll_live_token_seconds", "Mean time between two tokens.", lambda each: each.token_seconds),
    _percentile("plimsoll_live_ttft_percentile_seconds", "Promised percentile of the time to the first token.", "ttft"),
    _percentile(
        "plimsoll_live_token_percentile_seconds", "Promised percentile of the time between two tokens.", "token"
    ),
    _live(
        "plimsoll_live_token_time_ratio",
        "Measured time per token over the performance model's, as learned.",
        lambda each: each.slowness,
    ),
    _live(
        "plimsoll_live_startup_seconds",
        "Longest start-up of a replica that was seen.",
        lambda each: each.startup_seconds,
    ),
    ObjectMetric(
        "plimsoll_live_decision",
        "1 for the last decision of the live loop.",
        ("decision", "reason", "diagnosis"),
        lambda each: {(each.decision, each.reason, each.diagnosis): 1},
    ),
)
