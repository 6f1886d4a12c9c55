"""The console's own questions to Prometheus, all of them about pods that the person may list.

Prometheus knows no rights. So each query is built here and names the namespaces of these pods, and answers about other
pods of these namespaces are left out. Nothing of a browser's request gets into a query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import requests

from plimsoll.adapters.prometheus.access import (
    LABEL_PAIRS,
    NO_PROOF,
    LabelPair,
    PrometheusAccess,
    is_believed,
    other_namespaces,
)
from plimsoll.adapters.prometheus.bounded_session import QueryAdapter, ReplyTooLarge, session_with, unreachable
from plimsoll.adapters.prometheus.engine_series import Series, parse_series, pod_signals
from plimsoll.console.views.fleet import FleetTotals, GpuTotal
from plimsoll.console.views.load.live_use import STALE_SECONDS, MapSpan, PastUse, PodPast
from plimsoll.console.views.paging import is_key
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.engines.registry import ENGINES
from plimsoll.rebalance.signals.metrics import PodSignals

MAX_BODY_BYTES = 16 * 1024 * 1024
"""Largest reply that is read. 5,000 pods with 8 samples and 400 bytes of labels each are 3 MB."""

LONGEST_MATCHERS = 2000
"""Characters of the matchers of one query, of which a query for the past has two. Common proxies take URLs of 8 kB, and
a GET needs the right to read only."""

FLEET_GPUS = "plimsoll_fleet_gpus"
"""The operator's gauge of GPUs, with the labels ``gpu_type`` and ``state`` (free or held)."""

TOTALS_SECONDS = 600
"""The span of samples in which the last totals are looked for."""

MOST_NAMED_PODS = 50
"""Pods that a question for the last samples names. For more of them it names their namespaces only."""


class PrometheusLive:
    """Reads the load of many pods by one query for each metric. Safe to share between threads.

    Args:
        url: root of the API.
        access: how to prove who asks.
        label_pairs: the labels of a pod's namespace and name, in the order in which they are tried.
        timeout_seconds: the time limit of one whole reading.
        engines: the names of the metrics of each engine that a pod may run; None for all that are known.
    """

    def __init__(
        self,
        url: str,
        *,
        access: PrometheusAccess = NO_PROOF,
        label_pairs: Sequence[LabelPair] = LABEL_PAIRS,
        timeout_seconds: float = 5.0,
        engines: Sequence[EngineMetrics] | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._access = access
        self._label_pairs = tuple(label_pairs)
        self._timeout_seconds = timeout_seconds
        self._engines = [each.metrics for each in ENGINES.values()] if engines is None else list(engines)

    def last(self, pods: Collection[ObjectKey], *, now: float, window_seconds: int) -> dict[ObjectKey, PodSignals]:
        """Return the samples of the last ``window_seconds``, by pod, with times in the caller's clock ``now``.

        Raises:
            SourceUnavailable: Prometheus did not answer in time, or not as it should.
            InvalidInput: a file of the proof cannot be used.
        """
        is_shared = len({pod.namespace for pod in pods}) > 1
        with self._asking(now) as (ask, skew):
            found: dict[ObjectKey, PodSignals] = {}
            for metrics in self._engines:
                read = partial(self._of_engine, ask, metrics, window_seconds, skew, is_shared=is_shared)
                for pod, series in read([pod for pod in pods if pod not in found]).items():
                    found[pod] = pod_signals(pod.name, series, metrics)
        return found

    def _of_engine(
        self,
        ask: _Question,
        metrics: EngineMetrics,
        window_seconds: int,
        skew: float,
        pods: Sequence[ObjectKey],
        *,
        is_shared: bool,
    ) -> dict[ObjectKey, list[Series]]:
        """Return the series of the pods of one engine. Pods of several tenants are ``is_shared``."""
        found: dict[ObjectKey, list[Series]] = {}
        for pair in self._label_pairs:
            missing = [pod for pod in pods if pod not in found]
            read = partial(self._series, ask, _Source(pair, metrics), window_seconds, skew)
            for pod, series in self._in_parts(missing, read) if is_shared else read(missing):
                found.setdefault(pod, []).append(series)
        return found

    def over_time(self, pods: Collection[ObjectKey], *, now: float, span: MapSpan) -> PastUse:
        """Return the highest values of each column of a map, by pod. A column without samples has no value.

        Raises:
            SourceUnavailable: Prometheus did not answer in time, or not as it should.
            InvalidInput: a file of the proof cannot be used.
        """
        with self._asking(now) as (ask, skew):
            found: dict[ObjectKey, PodPast] = {}
            for source in (_Source(pair, metrics) for metrics in self._engines for pair in self._label_pairs):
                missing = [pod for pod in pods if pod not in found]
                found.update(self._past(ask, source, missing, _Columns(now, skew, span)))
        return PastUse(now, span, found)

    def totals(self, *, now: float) -> FleetTotals | None:
        """Return the GPUs of the fleet by type, as the operator's metrics have them; None if it reports none.

        Raises:
            SourceUnavailable: Prometheus did not answer in time, or not as it should.
            InvalidInput: a file of the proof cannot be used.
        """
        with self._asking(now) as (ask, skew):
            return _totals(ask.instant(f"{FLEET_GPUS}[{TOTALS_SECONDS}s]"), skew)

    @contextmanager
    def _asking(self, now: float) -> Iterator[tuple[_Question, float]]:
        """Open the connection of one reading, and ask how far the server's clock is ahead of ``now``, in seconds."""
        with self._session() as session:
            ask = _Question(session, self._url)
            yield ask, ask.skew(now, self._timeout_seconds)

    def _session(self) -> requests.Session:
        proof = self._access.proof()
        adapter = QueryAdapter("Prometheus", timeout_seconds=self._timeout_seconds, max_body_bytes=MAX_BODY_BYTES)
        session = session_with(adapter)
        session.headers.update(proof.headers)
        session.cert = proof.certificate
        if proof.ca_file is not None:
            session.verify = proof.ca_file
        return session

    @staticmethod
    def _in_parts(
        pods: Sequence[ObjectKey], read: Callable[[Sequence[ObjectKey]], Iterable[tuple[ObjectKey, Series]]]
    ) -> Iterator[tuple[ObjectKey, Series]]:
        """Read the series of pods; if they are too large, of each namespace alone: one tenant's are the reason."""
        try:
            yield from list(read(pods))
        except ReplyTooLarge:
            for namespace in sorted({pod.namespace for pod in pods}):
                with suppress(ReplyTooLarge):
                    yield from list(read([pod for pod in pods if pod.namespace == namespace]))

    def _series(
        self, ask: _Question, source: _Source, window_seconds: int, skew: float, pods: Sequence[ObjectKey]
    ) -> Iterator[tuple[ObjectKey, Series]]:
        """Yield the series of the pods under one pair of labels, and first those that say whether there are any."""
        wanted, (pair, names) = set(pods), source
        for matchers in matchers_of(pair, pods, by_name=len(pods) <= MOST_NAMED_PODS):

            def mine(name: str, matchers: str = matchers) -> list[tuple[ObjectKey, Series]]:
                result = ask.instant(f"{name}{{{matchers}}}[{window_seconds}s]")
                series = parse_series(result, names, shift_seconds=-skew)
                return [(pod, one) for one in series if (pod := self._pod(one.labels, pair)) in wanted]

            first = [found for name in _spellings(names, names.kv_usage) for found in mine(name)]
            if first:
                gauges = (names.running, names.waiting, names.preemptions, names.capacity)
                others = (*gauges, names.prefix_queried, names.prefix_hit)
                yield from first
                yield from (found for name in others if name for found in mine(name))

    def _past(
        self, ask: _Question, source: _Source, pods: Sequence[ObjectKey], columns: _Columns
    ) -> dict[ObjectKey, PodPast]:
        wanted, found, metrics = set(pods), dict[ObjectKey, PodPast](), source.metrics
        for matchers in matchers_of(source.pair, pods, by_name=True):
            kv = self._columns(ask, source, columns, self._peaks("max", metrics.kv_usage, matchers, source, columns))
            if not kv.keys() & wanted:
                continue
            running, waiting = (
                self._columns(ask, source, columns, self._peaks("sum", name, matchers, source, columns))
                for name in (metrics.running, metrics.waiting)
            )
            lost = self._growth(ask, source, matchers, columns)
            for pod in kv.keys() & wanted:
                found[pod] = PodPast(kv[pod], running.get(pod, {}), waiting.get(pod, {}), lost.get(pod))
        return found

    def _peaks(self, over_ranks: str, name: str, matchers: str, source: _Source, columns: _Columns) -> str:
        """Return the query for the highest value of each column: of each rank once, then of the pod.

        The function over a range sees real samples only. A plain selector would repeat the last one for five minutes.
        """
        pod, rank = self._pod_labels(source.pair), source.metrics.rank_label
        step, names = columns.span.step, _spellings(source.metrics, name)
        peaks = " or ".join(f"max_over_time({each}{{{matchers}}}[{step}s])" for each in names)
        return f"{over_ranks} by ({pod}) (max by ({pod},{rank}) ({peaks}))"

    def _columns(
        self, ask: _Question, source: _Source, columns: _Columns, query: str
    ) -> dict[ObjectKey, Mapping[float, float]]:
        end = columns.now + columns.skew  # of the last column, in the server's clock
        result = ask.range(query, end - columns.span.seconds + columns.span.step, end, columns.span.step)
        series = parse_series(result, source.metrics, shift_seconds=-columns.skew)
        return {pod: one.points for one in series if (pod := self._pod(one.labels, source.pair)) is not None}

    def _growth(self, ask: _Question, source: _Source, matchers: str, columns: _Columns) -> dict[ObjectKey, float]:
        """Return how many requests of each pod lost their KV cache in the time of the map."""
        pod, rank = self._pod_labels(source.pair), source.metrics.rank_label
        grown = f"increase({source.metrics.preemptions}{{{matchers}}}[{columns.span.seconds}s])"
        result = ask.instant(f"sum by ({pod}) (max by ({pod},{rank}) ({grown}))")
        known = [(self._pod(labels, source.pair), value) for labels, value in _values(result) if 0 <= value < math.inf]
        return {pod: value for pod, value in known if pod is not None}

    def _pod_labels(self, pair: LabelPair) -> str:
        """Return the labels of a pod in a sum: its own, and those that may name a second namespace."""
        return ",".join((*pair, *other_namespaces(pair, self._label_pairs)))

    def _pod(self, labels: Mapping[str, str], pair: LabelPair) -> ObjectKey | None:
        """Return the pod that a series is about; None if its labels name a second namespace."""
        if not is_believed(labels, pair, self._label_pairs):
            return None
        return ObjectKey(labels.get(pair[0], ""), labels.get(pair[1], ""))


class _Source(NamedTuple):
    """Where series are looked for: the labels that name a pod, and the names of an engine's metrics."""

    pair: LabelPair
    metrics: EngineMetrics


def _spellings(metrics: EngineMetrics, name: str) -> tuple[str, ...]:
    """Return the current name of a metric and its older ones."""
    return (name, *(old for old, current in metrics.former_names.items() if current == name))


class _Columns(NamedTuple):
    now: float
    skew: float
    span: MapSpan


class _Question(NamedTuple):
    session: requests.Session
    url: str

    def skew(self, now: float, tolerated: float) -> float:
        """Return how far the server's clock is ahead, in seconds; 0 for what the network's delay may be."""
        try:
            ahead = float(self.instant("time()")[1]) - now
        except (IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise SourceUnavailable("Prometheus answered with another shape than a scalar") from error
        if not math.isfinite(ahead):
            raise SourceUnavailable("Prometheus does not know the time")
        return ahead if abs(ahead) > tolerated else 0.0

    def instant(self, query: str) -> Any:
        """Return the ``data.result`` of a query for one moment, which is now by the server's clock."""
        return self._ask("query", {"query": query})

    def range(self, query: str, start: float, end: float, step: int) -> Any:
        """Return the ``data.result`` of a query for many moments."""
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": str(step)}
        return self._ask("query_range", {"query": query, **times})

    def _ask(self, path: str, form: dict[str, str]) -> Any:
        try:
            response = self.session.get(f"{self.url}/api/v1/{path}", params=form)
            return response.json()["data"]["result"]
        except (KeyError, TypeError) as error:
            raise SourceUnavailable("Prometheus answered without a result") from error
        except requests.RequestException as error:
            raise unreachable("Prometheus", error) from error


def matchers_of(pair: LabelPair, pods: Sequence[ObjectKey], *, by_name: bool) -> Iterator[str]:
    """Yield the matchers of the pods' namespaces, and of their names if so asked, each short enough for a URL.

    A name that Kubernetes would not take is left out, so no name can end the quoted text and change the query.
    """
    of_namespace, of_pod = pair
    some = sorted(pod for pod in pods if is_key(pod))
    if not by_name:
        for namespaces in _portions([ObjectKey(space, "") for space in sorted({pod.namespace for pod in some})]):
            yield f'{of_namespace}=~"{_namespaces(namespaces)}",{of_pod}!=""'
        return
    for portion in _portions(some):
        names = _alternatives(pod.name for pod in portion)
        yield f'{of_namespace}=~"{_namespaces(portion)}",{of_pod}=~"{names}"'


def _portions(pods: Sequence[ObjectKey]) -> Iterator[list[ObjectKey]]:
    """Divide pods so that the names of each portion stay below :data:`LONGEST_MATCHERS` characters."""
    portion: list[ObjectKey] = []
    length = 0
    for pod in pods:
        own = len(pod.namespace) + len(pod.name) + 2
        if portion and length + own > LONGEST_MATCHERS:
            yield portion
            portion, length = [], 0
        portion.append(pod)
        length += own
    if portion:
        yield portion


def _namespaces(pods: Iterable[ObjectKey]) -> str:
    return _alternatives(sorted({pod.namespace for pod in pods}))


def _alternatives(names: Iterable[str]) -> str:
    """Return a regular expression for names. Of their characters only dots need an escape."""
    return "|".join(name.replace(".", "[.]") for name in names)


def _totals(result: Any, skew: float) -> FleetTotals | None:
    """Return the totals of the series that report still: those whose last sample is the newest, or nearly.

    Of several operators only the one that writes reports GPUs. After a change of hands, samples of both are there.

    Raises:
        SourceUnavailable: the reply is no list.
    """
    if not isinstance(result, list):
        raise SourceUnavailable("Prometheus answered with another shape than a matrix")
    last = [sample for each in result if (sample := _last_gpus(each)) is not None]
    newest = max((each.at for each in last), default=0.0)
    fresh = [each for each in last if newest - each.at <= STALE_SECONDS]
    if not fresh:
        return None
    found: dict[str, dict[str, int]] = {}
    for each in fresh:
        states = found.setdefault(each.gpu_type, {})
        states[each.state] = max(states.get(each.state, 0), each.gpus)
    types = tuple(GpuTotal(name, states.get("free", 0), states.get("held", 0)) for name, states in found.items())
    return FleetTotals(min(each.at for each in fresh) - skew, types)


class _LastGpus(NamedTuple):
    gpu_type: str
    state: str
    at: float
    gpus: int


def _last_gpus(series: Any) -> _LastGpus | None:
    """Return the last sample of a series; None if a label or a number cannot be used. It costs itself alone."""
    try:
        labels, (at, value) = series["metric"], series["values"][-1]
        return _LastGpus(str(labels["gpu_type"]), str(labels["state"]), float(at), int(float(value)))
    except (IndexError, KeyError, OverflowError, TypeError, ValueError):
        return None


def _values(result: Any) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield labels and value of each entry of an instant vector.

    Raises:
        SourceUnavailable: the reply has another shape.
    """
    try:
        yield from [
            ({str(label): str(value) for label, value in entry["metric"].items()}, float(entry["value"][1]))
            for entry in result
        ]
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SourceUnavailable("Prometheus answered with another shape than a vector") from error
