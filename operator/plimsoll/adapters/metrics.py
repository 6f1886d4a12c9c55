"""Metrics of the operator itself and of its decisions, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial, wraps
from threading import RLock
from typing import Concatenate, ParamSpec

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Metric, start_http_server

from plimsoll import __version__
from plimsoll.adapters.series import OF_FIGURES, OF_REPORTS, OF_STATES, ObjectSeries
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.prices.remarks import PriceRemark
from plimsoll.placement.fleet_record import FleetRecord
from plimsoll.rebalance.figures import LiveFigures
from plimsoll.status.record.report import Report
from plimsoll.status.severity import Judged


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
        self._late = Gauge(
            "plimsoll_signals_late_seconds",
            "How long the load of a deployment has been due to be read; the longest.",
            registry=self.registry,
        )
        self._gpus = self._gauge("plimsoll_fleet_gpus", "GPUs of the fleet.", ("gpu_type", "state"))
        self._nodes = self._gauge("plimsoll_fleet_ignored_nodes", "GPU nodes left out.", ("reason",))
        self._doubts = self._gauge(
            "plimsoll_price_doubts", "Prices of the fleet that may be wrong.", ("gpu_type", "capacity_type", "reason")
        )
        self._objects = ObjectSeries(OF_REPORTS)
        self.registry.register(self._objects)
        self._states = ObjectSeries(OF_STATES)
        self.registry.register(self._states)
        self._live = ObjectSeries(OF_FIGURES)
        self.registry.register(self._live)
        self._bill = self._gauge(
            "plimsoll_fleet_bill_dollars_per_hour", "Price of all replicas, before and after the last plan.", ("plan",)
        )
        self._changes = self._gauge(
            "plimsoll_fleet_replicas", "Replicas of all objects that have no place, or that the plan moves.", ("state",)
        )
        self._placed = self._gauge(
            "plimsoll_decision_bill_dollars_per_hour",
            "Cost of the replicas that were placed last: prices, and charges by which options are compared.",
            ("solver",),
        )
        self._bound = self._gauge(
            "plimsoll_decision_bound_dollars_per_hour", "Proven least cost of the same replicas.", ("solver",)
        )
        self._gap = self._gauge(
            "plimsoll_decision_gap_ratio", "Part of that price that a better plan might save at most.", ("solver",)
        )
        self._seniority = self._gauge(
            "plimsoll_decision_seniority_replicas",
            "Replicas by which fewer would wait if age did not count within a priority.",
            ("solver",),
        )
        self._solving = Histogram("plimsoll_solve_duration_seconds", "Plans for all objects.", registry=self.registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def watch_process(
        self,
        kinds: Sequence[str],
        *,
        age_of: Callable[[str], float],
        silent_of: Callable[[str], float],
        is_leading: Callable[[], bool],
        late_of: Callable[[], float],
    ) -> None:
        """Show the age of data, the silence of watches, late signals and whether this process leads, at each scrape."""
        self._late.set_function(late_of)
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

    def pass_timed(self) -> AbstractContextManager[object]:
        """Time one pass."""
        return self._passes.time()

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
        for node in fleet.unhealthy:
            self._gpus.labels(node.gpu.name, "unhealthy").inc(node.unhealthy)
        for ignored in fleet.ignored:
            self._nodes.labels(ignored.reason.value).inc()

    @_at_once
    def show_prices(self, remarks: Iterable[PriceRemark]) -> None:
        """Show which prices of the fleet are doubtful, and why."""
        self._doubts.clear()
        for remark in remarks:
            self._doubts.labels(remark.gpu_type, remark.capacity.value, remark.doubt.value).set(1)

    def show_cases(self, reports: Mapping[ObjectKey, Report]) -> None:
        """Show every object as its report has it, from the next scrape on. ``reports`` must not change any more."""
        self._objects.objects = reports

    def show_states(self, states: Mapping[ObjectKey, Judged]) -> None:
        """Show the state of every object from the next scrape on. ``states`` must not change any more."""
        self._states.objects = states

    def show_live(self, figures: Mapping[ObjectKey, LiveFigures]) -> None:
        """Show the live loop's figures from the next scrape on. ``figures`` must not change any more."""
        self._live.objects = figures

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
        for gauge, value in (
            *((self._placed, found.bill), (self._bound, found.bound), (self._gap, found.gap)),
            (self._seniority, found.seniority_price),
        ):
            gauge.clear()
            if value is not None:
                gauge.labels(found.solver).set(value)
