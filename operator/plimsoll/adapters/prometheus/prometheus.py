"""Read from Prometheus what the engines of pods reported, and when. A failure is part of the result, never an error.

Old values must not decide anything, so every sample keeps its true scrape time. A graph query
(``/api/v1/query_range``) cannot be used: at each step it repeats the last sample for up to the lookback of five minutes
(https://prometheus.io/docs/prometheus/latest/querying/basics/#staleness), with the time of the step. A range selector
``metric[300s]`` evaluated once returns the raw samples with their own times, and nothing after a staleness marker.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import requests
from prometheus_api_client import PrometheusConnect

from plimsoll.adapters.prometheus.access import LABEL_PAIRS, NO_PROOF, LabelPair, PrometheusAccess, places_of
from plimsoll.adapters.prometheus.bounded_session import QueryAdapter, QueryRefused, session_with, unreachable
from plimsoll.adapters.prometheus.engine_series import Series, parse_series, pod_signals
from plimsoll.adapters.prometheus.questions import (
    USUAL_METRICS,
    WINDOW_SECONDS,
    GatewayMetrics,
    Pods,
    activity_of,
    activity_query_of,
    any_of,
    gateway_queue,
    past_points_of,
    pods_of,
    query_of,
    samples_by_pod,
    selector_of,
)
from plimsoll.domain.errors import InvalidInput, SourceUnavailable
from plimsoll.engines.metrics import EngineMetrics, count_of
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.metrics import GpuActivity, PodSignals, SignalState
from plimsoll.rebalance.signals.reading import PastReading, Reading

MAX_BODY_BYTES = 8 * 1024 * 1024
"""Largest reply that is read. 12 pods with 8 ranks, 25 series and 47 scrapes of some 30 bytes, which are the 700 s of a
first reading at a scrape of 15 s, are 4 MB with their labels. A reply takes some nine times its length in memory."""

GPU_TIMEOUT_SECONDS = 2.0
"""Time limit for the question about GPUs. It comes after a reading, and both together have 10 s."""

PAST_TIMEOUT_SECONDS = 3.0
"""The same for the question about days before, for which no reading waits. The server gets it, too, and can stop."""

PODS_PER_QUERY = 12
"""Pods in one query, so that a reply stays below :data:`MAX_BODY_BYTES`. With names of up to 63 characters, the URL is
below 4 KiB; common reverse proxies take 8 KiB."""

NO_SERIES = '{__name__=~"plimsoll_none|plimsoll_nothing"}'
"""A query with a regular expression for the name, which finds nothing."""

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")


class PrometheusSignals:
    """Reads engine metrics of pods from one Prometheus, or from a server with the same query API.

    Safe to share between threads: every reading has its own connection and its own deadline.

    Args:
        url: root of the API, for example ``http://prometheus.monitoring:9090``.
        timeout_seconds: time limit for one whole reading. There are no retries: the next round of the loop reads again.
        access: how to prove who asks, and how to verify the server.
        label_pairs: the labels that hold the namespace and the name of a pod, in the order in which they are tried.
        gateway: the names of a gateway's queue.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = 5,
        access: PrometheusAccess = NO_PROOF,
        label_pairs: Sequence[LabelPair] = LABEL_PAIRS,
        gateway: GatewayMetrics = USUAL_METRICS,
    ) -> None:
        self._url = url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._access = access
        self._label_pairs = tuple(label_pairs)
        self._gateway = gateway
        self._one_by_one = False

    @property
    def has_past(self) -> bool:
        """Prometheus keeps samples."""
        return True

    def read(
        self,
        namespace: str,
        pods: Iterable[str],
        *,
        window_seconds: int,
        now: float,
        metrics: EngineMetrics | None = None,
    ) -> Reading:
        """Read the last ``window_seconds`` of the pods' samples. Blocks up to the timeout; a bad answer never raises.

        Args:
            namespace: the namespace of all the pods.
            pods: the names of the pods.
            window_seconds: how far back to read.
            now: the caller's clock, POSIX seconds; sample times in the reading are in this clock.
            metrics: the names that the pods' engine uses; None: those of the default engine.
        """
        metrics = engine_of().metrics if metrics is None else metrics
        asked = sorted({pod for pod in pods if _NAME.fullmatch(pod)})
        try:
            with self._client() as client:
                when = self._when(client, now, window_seconds)
                found = self._find(client, namespace, asked, metrics, when)
        except (SourceUnavailable, InvalidInput) as error:
            return Reading(state=SignalState.UNAVAILABLE, error=str(error))
        signals = {pod: pod_signals(pod, series, metrics) for pod, series in found.items()}
        return Reading({pod: one for pod, one in signals.items() if one.samples}, clock_skew_seconds=when.skew)

    def gpu_activity(self, namespace: str, pods: Collection[str]) -> GpuActivity | None:
        """Ask how busy the pods' GPUs are, by one query; None if the server does not know it or cannot be asked.

        An exporter reports on the pods of others, so a series of any target counts here. It decides nothing.
        """
        some = sorted({pod for pod in pods if _NAME.fullmatch(pod)})[:PODS_PER_QUERY]
        matchers = [
            _matchers(f'{of_namespace}="{namespace}"', of_pod, some) for of_namespace, of_pod in self._label_pairs
        ]
        if not some or self._one_by_one:
            return None
        try:
            with self._client(GPU_TIMEOUT_SECONDS) as client:
                return activity_of(_ask(client, activity_query_of(matchers)))
        except (SourceUnavailable, InvalidInput):
            return None

    def arrivals_before(
        self, namespace: str, deployment: str, metrics: EngineMetrics, *, until: float, seconds: float
    ) -> PastReading:
        """Ask for the requests that began a second, in steps, by one query.

        Args:
            namespace: the namespace of the pods.
            deployment: the name of the InferenceDeployment whose pods they are, or were.
            metrics: the names that their engine uses.
            until: the end, POSIX seconds by the server's clock; so are the times of the points, each the end of a step.
            seconds: how far back from there.
        """
        counter, label = count_of(metrics.first_token_seconds), metrics.model_label
        if not (counter and label and _NAME.fullmatch(deployment)):
            return PastReading(error="the engine's metrics do not say whose requests they count")
        own, model, names = sorted(metrics.labels), f'{label}="{deployment}"', pods_of(deployment)
        pods = [
            Pods(f'{within_namespace},{of_pod}=~"{names}",{model}', (of_pod, *own))
            for within_namespace, of_pod in places_of(namespace, self._label_pairs)
        ]
        try:
            with self._client(PAST_TIMEOUT_SECONDS) as client:
                query, limit = query_of(counter, pods, seconds), f"{PAST_TIMEOUT_SECONDS:g}s"
                return PastReading(past_points_of(_ask(client, query, time=f"{until:.3f}", timeout=limit)))
        except (SourceUnavailable, InvalidInput) as error:
            return PastReading(error=str(error))

    def scrapes_before(
        self, namespace: str, deployment: str, metrics: EngineMetrics, *, until: float, seconds: float
    ) -> dict[str, PodSignals] | None:
        """Ask for all samples that show requests, of pods that serve or are gone; None if nobody can be asked.

        Args:
            namespace: the namespace of the pods.
            deployment: the name of the InferenceDeployment whose pods they are, or were.
            metrics: the names that their engine uses.
            until: the end, POSIX seconds by the server's clock; so are the times of the samples.
            seconds: how far back from there.
        """
        when = _When(until, math.ceil(seconds), 0.0)
        if self._one_by_one or not _NAME.fullmatch(deployment):
            return None
        names = pods_of(deployment)
        try:
            with self._client(PAST_TIMEOUT_SECONDS) as client:
                for within_namespace, of_pod in places_of(namespace, self._label_pairs):
                    matchers = f'{within_namespace},{of_pod}=~"{names}"'
                    found = _query(client, selector_of(metrics, matchers), metrics, when)
                    if found:
                        return samples_by_pod(found, of_pod, metrics)
        except (SourceUnavailable, InvalidInput):
            return None
        return {}

    def read_queue(
        self, namespace: str, pool: str, *, now: float, window_seconds: int = WINDOW_SECONDS
    ) -> GatewayQueue:
        """Read the queue of an InferencePool's gateway. Blocks up to the timeout; a bad answer never raises.

        Only series of the pool's own namespace count, so that nobody else can write a queue for it
        (:mod:`plimsoll.adapters.prometheus.access`).

        Args:
            namespace: the namespace of the pool and of its endpoint picker.
            pool: the name of the InferencePool.
            now: the caller's clock, POSIX seconds.
            window_seconds: how far back to read.
        """
        if not _NAME.fullmatch(pool):
            return GatewayQueue(error=self._gateway.missing(pool))
        try:
            with self._client() as client:
                when = self._when(client, now, window_seconds)
                for within_namespace, pod_label in places_of(namespace, self._label_pairs):
                    matchers = f'{within_namespace},{self._gateway.pool_label}="{pool}"'
                    found = self._series(client, matchers, None, when)
                    if found:
                        return gateway_queue(found, self._gateway, pool, pod_label, now)
        except (SourceUnavailable, InvalidInput) as error:
            return GatewayQueue(SignalState.UNAVAILABLE, error=str(error))
        return GatewayQueue(error=self._gateway.missing(pool))

    def _when(self, client: Any, now: float, window_seconds: int) -> _When:
        """Return the window that ends now. A difference of the clocks that a request may take counts as none."""
        skew = _server_time(_ask(client, "time()")) - now
        skew = skew if abs(skew) > self._timeout_seconds else 0.0
        return _When(now + skew, window_seconds, skew)

    def _client(self, most_seconds: float = math.inf) -> Any:
        """Return a client for one reading, with its own connection, deadline and proof.

        Raises:
            InvalidInput: a file of the proof cannot be used.
        """
        proof = self._access.proof()
        timeout = min(self._timeout_seconds, most_seconds)
        adapter = QueryAdapter("Prometheus", timeout_seconds=timeout, max_body_bytes=MAX_BODY_BYTES)
        session = session_with(adapter)
        if proof.ca_file is not None:
            session.verify = proof.ca_file
        session.cert = proof.certificate
        client = PrometheusConnect(self._url, headers=dict(proof.headers), session=session)
        session.mount(self._url, adapter)  # instead of the client's own, which has no limits and tries again
        return client

    def _find(
        self, client: Any, namespace: str, pods: Sequence[str], metrics: EngineMetrics, when: _When
    ) -> dict[str, list[Series]]:
        """Return the series of each pod, from the first pair of labels that finds the pod."""
        found: dict[str, list[Series]] = {}
        for within_namespace, pod_label in places_of(namespace, self._label_pairs):
            for some in _portions([pod for pod in pods if pod not in found]):
                matchers = _matchers(within_namespace, pod_label, some)
                for series in self._series(client, matchers, metrics, when):
                    pod = series.labels.get(pod_label, "")
                    if pod in some:
                        found.setdefault(pod, []).append(series)
        return found

    def _series(self, client: Any, matchers: str, metrics: EngineMetrics | None, when: _When) -> list[Series]:
        """Return all series that match, by one query, or by one for each name if the server refuses the one.

        Some managed services take no regular expression for the name of a metric. That is remembered. Others refuse a
        query for what it finds, e.g. too many samples of one tenant's pods: the next query may still work.
        ``metrics`` are those of an engine; None: those of a gateway's queue.
        """
        names = self._gateway.names if metrics is None else (*metrics.names, *metrics.former_names)
        if self._one_by_one:
            return _by_name(client, names, matchers, metrics, when)
        try:
            return _query(client, any_of(names, matchers), metrics, when)
        except QueryRefused as refusal:
            try:
                found = _by_name(client, names, matchers, metrics, when)
            except QueryRefused:
                raise refusal from None
            self._one_by_one = _takes_no_pattern(client)
            return found


class _When(NamedTuple):
    """The end of a window in the server's clock, its length, and how far that clock is ahead; all in seconds."""

    at: float
    window_seconds: int
    skew: float


def _takes_no_pattern(client: Any) -> bool:
    """Whether the server refuses a regular expression for the name of a metric even if it finds nothing."""
    try:
        _ask(client, NO_SERIES)
    except QueryRefused:
        return True
    except SourceUnavailable:  # the next refusal asks again
        return False
    return False


def _by_name(
    client: Any, names: Sequence[str], matchers: str, metrics: EngineMetrics | None, when: _When
) -> list[Series]:
    """Ask for each name alone. Of an engine, those come first without which a pod counts as not found."""
    first = list(names)
    if metrics is not None:
        first = [metrics.kv_usage, *(old for old, name in metrics.former_names.items() if name == metrics.kv_usage)]
    found = [one for name in first for one in _query(client, f"{name}{{{matchers}}}", metrics, when)]
    if not found:
        return []
    others = [name for name in names if name not in first]
    return [*found, *(one for name in others for one in _query(client, f"{name}{{{matchers}}}", metrics, when))]


def _query(client: Any, selector: str, metrics: EngineMetrics | None, when: _When) -> list[Series]:
    result = _ask(client, f"{selector}[{when.window_seconds}s]", time=f"{when.at:.3f}")
    return parse_series(result, metrics, shift_seconds=-when.skew)


def _ask(client: Any, query: str, **params: str) -> Any:
    try:
        return client.custom_query(query, params=params)
    except (KeyError, TypeError) as error:
        raise SourceUnavailable("Prometheus answered without a result") from error
    except requests.RequestException as error:
        raise unreachable("Prometheus", error) from error


def _portions(pods: Sequence[str]) -> Iterator[Sequence[str]]:
    return (pods[start : start + PODS_PER_QUERY] for start in range(0, len(pods), PODS_PER_QUERY))


def _matchers(within_namespace: str, pod_label: str, pods: Sequence[str]) -> str:
    """Return the matchers of the pods. Only dots in pod names need escapes."""
    names = "|".join(pod.replace(".", "[.]") for pod in pods)
    return f'{within_namespace},{pod_label}=~"{names}"'


def _server_time(result: Any) -> float:
    """Return the server's clock from the reply to ``time()``: a scalar, a pair of evaluation time and value."""
    try:
        return float(result[1])
    except (IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SourceUnavailable("Prometheus answered with another shape than a scalar") from error
