"""The series of all InferenceDeployments, made from the reports of the last pass each time Prometheus asks.

A gauge of ``prometheus_client`` keeps about 1 KiB for each combination of labels, and a pass would have to fill
it again for all objects. So a pass only hands over its reports. They never change, so the thread of a scrape can read
them at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.terms import KV_CACHE
from plimsoll.placement.pools import PlannedPool
from plimsoll.rebalance.law.learning import CapacityReading
from plimsoll.status.report import Report

Reports = Mapping[ObjectKey, Report]
Values = Mapping[tuple[str, ...], float]
"""The values of one object in one series, each by the labels that follow its namespace and name."""

_COMPONENTS = {KV_CACHE: "kv"}
"""The values of the label ``component`` that differ from a term's key."""


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of all objects: its name, its help text, the labels after namespace and name, and its values."""

    name: str
    text: str
    labels: tuple[str, ...]
    values: Callable[[Report], Values]

    def of(self, reports: Reports) -> GaugeMetricFamily:
        """Return the metric with the samples of all objects."""
        family = GaugeMetricFamily(self.name, self.text, labels=("namespace", "name", *self.labels))
        for key, report in reports.items():
            for labels, value in self.values(report).items():
                family.add_metric((key.namespace, key.name, *labels), float(value))
        return family


class ObjectSeries(Collector):
    """The metrics of all objects as ``reports`` has them. A scrape reads ``reports`` once: it sees one pass."""

    def __init__(self) -> None:
        self.reports: Reports = MappingProxyType({})

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics without samples. The registry refuses a second metric of the same name."""
        return (series.of({}) for series in SERIES)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics with their samples."""
        reports = self.reports
        return (series.of(reports) for series in SERIES)


def _memory(report: Report) -> Values:
    """Return every term of the estimate, and the margin."""
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
    """Return how many candidates were not taken, by reason."""
    rejections = () if report.decision is None else report.decision.rejections
    return Counter((rejection.reason.value,) for rejection in rejections)


def _problem(report: Report) -> Values:
    return {} if report.problem is None else {(report.problem.reason.value,): 1}


def _waiting(report: Report) -> Values:
    """Return 1 while a change of the live loop waits for approval, and 0 while none does; nothing without the loop."""
    live = report.rebalancing
    return {} if live is None else {(): live.proposal is not None and not live.approved}


def _predicted(report: Report) -> Values:
    found = ((pool.name, report.predicted_tokens(pool)) for pool in _pools(report))
    return {(pool,): tokens for pool, tokens in found if tokens is not None}


def _reported(report: Report) -> Values:
    found = ((pool.name, report.view(pool.name).kv_tokens_reported) for pool in _pools(report))
    return {(pool,): tokens for pool, tokens in found if tokens is not None}


def _error(report: Report) -> Values:
    found = ((pool.name, _error_permille(report, pool)) for pool in _pools(report))
    return {(pool,): error / 1000 for pool, error in found if error is not None}


def _error_permille(report: Report, pool: PlannedPool) -> int | None:
    predicted, reported = report.predicted_tokens(pool), report.view(pool.name).kv_tokens_reported
    return None if predicted is None or reported is None else CapacityReading(predicted, reported).error_permille


def _pools(report: Report) -> Sequence[PlannedPool]:
    return () if report.decision is None else report.decision.pools


SERIES = (
    Series("plimsoll_estimated_gpu_memory_bytes", "Estimated memory of one GPU.", ("component",), _memory),
    Series("plimsoll_planned_replicas", "Replicas planned.", ("gpu_type",), _replicas),
    Series("plimsoll_unplaced_replicas", "Replicas without a place.", (), _missing),
    Series("plimsoll_placement_rejections", "Candidates not taken.", ("reason",), _rejections),
    Series("plimsoll_problems", "Objects that cannot be planned.", ("reason",), _problem),
    Series("plimsoll_waiting_proposals", "Changes of the live loop that wait for approval.", (), _waiting),
    Series("plimsoll_predicted_kv_cache_tokens", "KV tokens of one replica by the estimate.", ("pool",), _predicted),
    Series("plimsoll_reported_kv_cache_tokens", "KV tokens of one replica by its engine.", ("pool",), _reported),
    Series(
        "plimsoll_estimate_error_ratio",
        "Predicted over reported KV tokens, less one: above 0 too much was promised.",
        ("pool",),
        _error,
    ),
)
