"""Metrics of the operator itself and of its decisions, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from threading import RLock
from typing import Concatenate, ParamSpec

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Metric, start_http_server

from plimsoll import __version__
from plimsoll.domain.fleet import Fleet
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.outcomes import MemoryEstimate
from plimsoll.domain.terms import KV_CACHE
from plimsoll.facts.prices.remarks import PriceRemark
from plimsoll.placement.fleet_record import FleetRecord
from plimsoll.placement.pools import Decision
from plimsoll.rebalance.learning import CapacityReading
from plimsoll.render.report import Report

_OBJECT = ("namespace", "name")

_COMPONENTS = {KV_CACHE: "kv"}
"""The values of the label ``component`` that differ from a term's key."""


class WholeRegistry(CollectorRegistry):
    """A registry that is never read while a set of series is being replaced: a scrape sees all of it or none."""

    def __init__(self) -> None:
        super().__init__()
        self.changing = RLock()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics as they are at one moment."""
        with self.changing:
            return iter(list(super().collect()))


Given = ParamSpec("Given")


def _at_once(change: Callable[Concatenate[Metrics, Given], None]) -> Callable[Concatenate[Metrics, Given], None]:
    """Let no scrape see the series that ``change`` replaces while it is at work."""

    @wraps(change)
    def changed(metrics: Metrics, /, *args: Given.args, **options: Given.kwargs) -> None:
        with metrics.registry.changing:
            change(metrics, *args, **options)

    return changed


class Metrics:
    """All series, in a separate registry, so that two operators in one process do not conflict."""

    def __init__(self) -> None:
        self.registry = WholeRegistry()
        Info("plimsoll_build", "Version of the operator.", registry=self.registry).info({"version": __version__})
        self._passes = Histogram("plimsoll_pass_duration_seconds", "Planning passes.", registry=self.registry)
        self._failed = Counter("plimsoll_pass_failures", "Planning passes that raised.", registry=self.registry)
        self._writes = Counter("plimsoll_write_failures", "Objects that could not be written.", registry=self.registry)
        self._faults = Counter(
            "plimsoll_object_faults",
            "Exceptions of single objects, by the step that raised.",
            ("step",),
            registry=self.registry,
        )
        self._leading = Gauge("plimsoll_leader", "1 where this process holds the lease.", registry=self.registry)
        self._age = self._gauge("plimsoll_data_age_seconds", "Time since a kind was listed.", ("kind",))
        self._deaf = self._gauge(
            "plimsoll_watch_silent_seconds", "How long a watch has owed a change that a list knows of.", ("kind",)
        )
        self._gpus = self._gauge("plimsoll_fleet_gpus", "GPUs of the fleet.", ("gpu_type", "state"))
        self._nodes = self._gauge("plimsoll_fleet_ignored_nodes", "GPU nodes left out.", ("reason",))
        self._doubts = self._gauge(
            "plimsoll_price_doubts", "Prices of the fleet that may be wrong.", ("gpu_type", "capacity_type", "reason")
        )
        self._estimate = self._gauge(
            "plimsoll_estimated_gpu_memory_bytes", "Estimated memory of one GPU.", (*_OBJECT, "component")
        )
        self._replicas = self._gauge("plimsoll_planned_replicas", "Replicas planned.", (*_OBJECT, "gpu_type"))
        self._missing = self._gauge("plimsoll_unplaced_replicas", "Replicas without a place.", _OBJECT)
        self._rejections = self._gauge("plimsoll_placement_rejections", "Candidates not taken.", (*_OBJECT, "reason"))
        self._problems = self._gauge("plimsoll_problems", "Objects that cannot be planned.", (*_OBJECT, "reason"))
        self._bill = self._gauge(
            "plimsoll_fleet_bill_dollars_per_hour", "Price of all replicas, before and after the last plan.", ("plan",)
        )
        self._changes = self._gauge(
            "plimsoll_fleet_replicas", "Replicas of all objects that have no place, or that the plan moves.", ("state",)
        )
        self._placed = self._gauge(
            "plimsoll_decision_bill_dollars_per_hour", "Price of the replicas that were placed last.", ("solver",)
        )
        self._bound = self._gauge(
            "plimsoll_decision_bound_dollars_per_hour", "Proven least price of the same replicas.", ("solver",)
        )
        self._gap = self._gauge(
            "plimsoll_decision_gap_ratio", "Part of that price that a better plan might save at most.", ("solver",)
        )
        self._solving = Histogram("plimsoll_solve_duration_seconds", "Plans for all objects.", registry=self.registry)
        self._predicted = self._gauge(
            "plimsoll_predicted_kv_cache_tokens", "KV tokens of one replica by the estimate.", (*_OBJECT, "pool")
        )
        self._reported = self._gauge(
            "plimsoll_reported_kv_cache_tokens", "KV tokens of one replica by its engine.", (*_OBJECT, "pool")
        )
        self._error = self._gauge(
            "plimsoll_estimate_error_ratio",
            "Predicted over reported KV tokens, less one: above 0 too much was promised.",
            (*_OBJECT, "pool"),
        )

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def watch_process(
        self,
        kinds: Sequence[str],
        *,
        age_of: Callable[[str], float],
        silent_of: Callable[[str], float],
        is_leading: Callable[[], bool],
    ) -> None:
        """Show the age of the data, the silence of watches and whether this process leads, computed at each scrape."""
        self._leading.set_function(lambda: float(is_leading()))
        for kind in kinds:
            self._age.labels(kind).set_function(partial(age_of, kind))
            self._deaf.labels(kind).set_function(partial(silent_of, kind))

    def fault(self, step: str) -> None:
        """Count an exception of one object."""
        self._faults.labels(step).inc()

    def serve(self, port: int) -> None:
        """Serve ``/metrics`` from a separate thread."""
        start_http_server(port, registry=self.registry)

    @contextmanager
    def pass_timed(self) -> Iterator[None]:
        """Time one pass."""
        with self._passes.time():
            yield

    def pass_failed(self) -> None:
        """Count a pass that raised."""
        self._failed.inc()

    def write_failed(self) -> None:
        """Count an object that could not be written."""
        self._writes.inc()

    @_at_once
    def show_fleet(self, fleet: Fleet) -> None:
        """Show GPUs by type and state, and ignored nodes by reason."""
        self._gpus.clear()
        self._nodes.clear()
        for node in fleet.nodes:
            self._gpus.labels(node.gpu.name, "held").inc(min(node.held, node.allocatable))
            self._gpus.labels(node.gpu.name, "free").inc(node.free)
        for ignored in fleet.ignored:
            self._nodes.labels(ignored.reason.value).inc()

    @_at_once
    def show_prices(self, remarks: Iterable[PriceRemark]) -> None:
        """Show which prices of the fleet are doubtful, and why."""
        self._doubts.clear()
        for remark in remarks:
            self._doubts.labels(remark.gpu_type, remark.capacity.value, remark.doubt.value).set(1)

    @_at_once
    def show_cases(self, reports: Mapping[ObjectKey, Report]) -> None:
        """Show the state of every object; remove the series of objects that are gone."""
        for gauge in (self._estimate, self._replicas, self._missing, self._rejections, self._problems):
            gauge.clear()
        for key, report in reports.items():
            if report.problem is not None:
                self._problems.labels(key.namespace, key.name, report.problem.reason).set(1)
            if report.decision is not None:
                self._show_decision(key, report.decision)

    @_at_once
    def show_learning(self, reports: Mapping[ObjectKey, Report]) -> None:
        """Show predicted and reported KV tokens, and the error of the prediction."""
        for gauge in (self._predicted, self._reported, self._error):
            gauge.clear()
        for key, report in reports.items():
            for pool in report.decision.pools if report.decision else ():
                labels = (key.namespace, key.name, pool.name)
                predicted, reported = report.predicted_tokens(pool), report.view(pool.name).kv_tokens_reported
                if predicted is not None:
                    self._predicted.labels(*labels).set(predicted)
                if reported is not None:
                    self._reported.labels(*labels).set(reported)
                error = _error_permille(predicted, reported)
                if error is not None:
                    self._error.labels(*labels).set(error / 1000)

    def show_solving(self, record: FleetRecord) -> None:
        """Count the time that a plan took."""
        self._solving.observe(record.seconds)

    @_at_once
    def show_record(self, record: FleetRecord) -> None:
        """Show what the plan costs. How good a placement was stays until replicas are placed again."""
        self._bill.labels("before").set(float(record.bill_before))
        self._bill.labels("after").set(float(record.bill_after))
        self._changes.labels("unplaced").set(record.unplaced)
        self._changes.labels("moved").set(record.moved)
        found = record.appraisal
        if found is None:
            return
        for gauge, value in ((self._placed, found.bill), (self._bound, found.bound), (self._gap, found.gap)):
            gauge.clear()
            if value is not None:
                gauge.labels(found.solver).set(value)

    def _show_decision(self, key: ObjectKey, decision: Decision) -> None:
        place = (key.namespace, key.name)
        self._missing.labels(*place).set(decision.missing)
        for pool in decision.pools:
            self._replicas.labels(*place, pool.gpu_type).inc(pool.replicas)
        for rejection in decision.rejections:
            self._rejections.labels(*place, rejection.reason.value).inc()
        if decision.choice is not None:
            for component, size in _components(decision.choice.estimate):
                self._estimate.labels(*place, component).set(size)


def _components(figures: MemoryEstimate) -> tuple[tuple[str, int], ...]:
    """Return every term of the estimate, and the margin."""
    terms = ((_COMPONENTS.get(term.name, term.name.key), term.size_bytes) for term in figures.terms)
    return (*terms, ("margin", figures.margin_bytes))


def _error_permille(predicted: int | None, reported: int | None) -> int | None:
    return None if predicted is None or reported is None else CapacityReading(predicted, reported).error_permille
