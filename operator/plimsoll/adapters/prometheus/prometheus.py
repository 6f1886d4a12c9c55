"""Read from Prometheus what the engines of pods reported, and when. A failure is part of the result, never an error.

Old values must not decide anything, so every sample keeps its true scrape time. A graph query
(``/api/v1/query_range``) cannot be used: at each step it repeats the last sample for up to the lookback of five minutes
(https://prometheus.io/docs/prometheus/latest/querying/basics/#staleness), with the time of the step. A range selector
``metric[300s]`` evaluated once returns the raw samples with their own times, and nothing after a staleness marker.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import local
from typing import Any, NamedTuple

import requests
from prometheus_api_client import PrometheusConnect

from plimsoll.adapters.prometheus.access import (
    LABEL_PAIRS,
    NO_PROOF,
    LabelPair,
    PrometheusAccess,
    Proof,
    matchers_within,
    names_only,
    other_namespaces,
    places_of,
)
from plimsoll.adapters.prometheus.bounded_session import (
    QueryAdapter,
    QueryRefused,
    ReplyTooLarge,
    TooSlow,
    session_with,
    unreachable,
)
from plimsoll.adapters.prometheus.engine_series import (
    Series,
    bucket_names,
    parse_series,
    pod_signals,
    read_names,
)
from plimsoll.adapters.prometheus.questions import (
    GPU_NAMES,
    USUAL_METRICS,
    WINDOW_SECONDS,
    GatewayMetrics,
    Pods,
    activity_of,
    any_of,
    gateway_queue,
    past_points_of,
    pods_of,
    query_of,
    samples_by_pod,
    selector_of,
)
from plimsoll.adapters.prometheus.readings import Asked
from plimsoll.domain.errors import InvalidInput, SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.metrics import EngineMetrics, count_of
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.metrics import GpuActivity, PodSignals, SignalState
from plimsoll.rebalance.signals.reading import PastReading, Reading

MAX_BODY_BYTES = 8 * 1024 * 1024
"""Largest reply that is read. 64 pods with 16 series and 47 scrapes of some 30 bytes, which are the 700 s of a first
reading at a scrape of 15 s, are 2 MB with their labels. A reply takes some nine times its length in memory."""

GPU_TIMEOUT_SECONDS = 2.0
"""Time limit for the question about GPUs. It comes after a reading, and both together have 10 s."""

GPU_WINDOW_SECONDS = 90
"""How far back the newest sample of a GPU may be: three scrapes of 30 s."""

PAST_TIMEOUT_SECONDS = 3.0
"""The same for the question about days before, for which no reading waits. The server gets it, too, and can stop."""

MOST_KEYS = 64
"""Pods in one query: some 1,000 series, of which the shortest limit of a managed service that is known takes 10,000
(https://grafana.com/docs/mimir/latest/references/http-api/, ``max_fetched_series_per_query``). It is halved where a
server refuses so many."""

FEWEST_KEYS = 8
"""No refusal makes queries smaller than this for good: 5,000 pods then take 625 queries."""

SMALLER_SECONDS = 600.0
"""How long fewer pods are asked about together. Then the server may take more."""

LONGEST_MATCHERS = 4000
"""Characters of the names in one query. With those of the metrics, the URL is below 8 KiB, which common reverse
proxies take."""

SKEW_SECONDS = 60.0
"""How long the difference of the clocks is believed. Clocks drift by milliseconds meanwhile."""

CLOCK_STEP_SECONDS = 1.0
"""A step of our own clock that makes what is known of the server's void."""

AWAY_SECONDS = 2.0
"""For so long no other reading asks a server that did not say what time it is."""

NO_SERIES = '{__name__=~"plimsoll_none|plimsoll_nothing"}'
"""A query with a regular expression for the name, which finds nothing."""

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of series: the names of the metrics, and the label with the name of the object that they are about.

    An empty ``label`` is that of the pod. ``metrics`` are None for series that are no engine's. Of ``others``, a page
    speaks for the pods of other namespaces.
    """

    names: tuple[str, ...]
    label: str = ""
    metrics: EngineMetrics | None = None
    others: bool = False


class _Series(NamedTuple):
    """The series of one object, the labels under which it was found, or why nothing is known of it."""

    pair: LabelPair
    series: list[Series]
    error: SourceUnavailable | None = None


class _Kept(NamedTuple):
    proof: Proof
    adapter: QueryAdapter
    client: Any


class PrometheusSignals:
    """Reads engine metrics of pods from one Prometheus, or from a server with the same query API.

    Pods are asked about together, whatever their namespaces are. Queries that the server refuses, or answers with more
    than is read, are asked again in halves, so that one pod's series cost no other pod its reading.

    Safe to share between threads: each has a connection of its own, which stays, and every reading has its own
    deadline.

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
        self._threads = local()
        self._usual: dict[tuple[str, str], LabelPair] = {}  # by kind and namespace
        self._skew: _Skew | None = None
        self._away: tuple[float, str] = (-math.inf, "")
        self._smaller: tuple[float, int] = (-math.inf, MOST_KEYS)

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
        """Read pods of one namespace as :meth:`read_all` does; None are the names of the default engine's metrics."""
        metrics = engine_of().metrics if metrics is None else metrics
        return self.read_all([Asked(namespace, dict.fromkeys(pods, ""), window_seconds)], metrics, now=now)[0]

    def read_all(self, asked: Sequence[Asked], metrics: EngineMetrics, *, now: float) -> list[Reading]:
        """Read the longest of the windows of all pods. Blocks up to the timeout; a bad answer never raises.

        Args:
            asked: the pods of each object.
            metrics: the names that the pods' engine uses.
            now: the caller's clock, POSIX seconds; sample times in the readings are in this clock.
        """
        pods = {ObjectKey(each.namespace, pod) for each in asked for pod in each.pods}
        buckets = bucket_names(metrics) if any(each.buckets for each in asked) else ()
        kind = _Kind((*read_names(metrics), *buckets), metrics=metrics)
        try:
            client = self._client()
            when = self._when(client, now, max((each.window_seconds for each in asked), default=0))
        except (SourceUnavailable, InvalidInput) as error:
            return [Reading(state=SignalState.UNAVAILABLE, error=str(error))] * len(asked)
        found = self._find(client, kind, pods, when)
        return [_reading(each, found, metrics, when.skew, is_shared=len(asked) > 1) for each in asked]

    def gpu_activities(
        self, pods: Mapping[ObjectKey, Collection[str]], *, now: float
    ) -> dict[ObjectKey, GpuActivity | None]:
        """Ask how busy the GPUs of objects' pods are; None if the server does not know it or cannot be asked.

        An exporter reports on the pods of others, so a series of any target counts here. It decides nothing.

        Args:
            pods: the names of the pods of each object.
            now: the caller's clock, POSIX seconds.
        """
        asked = {key: [ObjectKey(key.namespace, pod) for pod in some] for key, some in pods.items()}
        if self._one_by_one:
            return dict.fromkeys(asked)
        try:
            client = self._client(GPU_TIMEOUT_SECONDS)
            when = self._when(client, now, GPU_WINDOW_SECONDS)
        except (SourceUnavailable, InvalidInput):
            return dict.fromkeys(asked)
        found = self._find(client, GPU_KIND, [pod for some in asked.values() for pod in some], when)
        return {
            key: activity_of({pod.name: found[pod].series for pod in some if pod in found})
            for key, some in asked.items()
        }

    def arrivals_before(
        self, namespace: str, deployment: str, metrics: EngineMetrics, *, until: float, seconds: float
    ) -> PastReading:
        """Ask for the requests that began a second, in steps, as :meth:`rates_before` does."""
        counter = count_of(metrics.first_token_seconds)
        return self.rates_before(counter, namespace, deployment, metrics, until=until, seconds=seconds)

    def rates_before(
        self,
        counter: str,
        namespace: str,
        deployment: str,
        metrics: EngineMetrics,
        *,
        until: float,
        seconds: float,
        limit_seconds: float | None = None,
    ) -> PastReading:
        """Ask by how much a counter of the engines grew a second, in steps, by one query.

        Args:
            counter: the name of the counter.
            namespace: the namespace of the pods.
            deployment: the name of the InferenceDeployment whose pods they are, or were.
            metrics: the names that their engine uses.
            until: the end, POSIX seconds by the server's clock; so are the times of the points, each the end of a step.
            seconds: how far back from there.
            limit_seconds: the longest time for the answer; that of the reader if it is less. None: a few seconds.
        """
        label = metrics.model_label
        if not (counter and label and _NAME.fullmatch(deployment)):
            return PastReading(error="the engine's metrics do not say whose requests they count")
        own, model, names = sorted(metrics.labels), f'{label}="{deployment}"', pods_of(deployment)
        pods = [
            Pods(f'{within_namespace},{of_pod}=~"{names}",{model}', (of_pod, *own))
            for within_namespace, of_pod in places_of(namespace, self._label_pairs)
        ]
        try:
            most = PAST_TIMEOUT_SECONDS if limit_seconds is None else limit_seconds
            query, limit = query_of(counter, pods, seconds), f"{most:g}s"
            client = self._client(most)
            return PastReading(past_points_of(_ask(client, query, time=f"{until:.3f}", timeout=limit)))
        except (SourceUnavailable, InvalidInput) as error:
            return PastReading(error=str(error))

    def longest_startup(self, namespace: str, deployment: str, *, until: float, seconds: float) -> float | None:
        """Return the longest start-up that the operator's own metrics show in so many seconds; None: they show none."""
        series = f'plimsoll_live_startup_seconds{{namespace="{namespace}",name="{deployment}"}}'
        query = f"max(max_over_time({series}[{math.ceil(seconds)}s]))"
        if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(deployment)):
            return None
        try:
            found = _ask(self._client(PAST_TIMEOUT_SECONDS), query, time=f"{until:.3f}")
            value = float(found[0]["value"][1])
        except (SourceUnavailable, InvalidInput, IndexError, KeyError, TypeError, ValueError):
            return None
        return value if 0 < value < math.inf else None

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
            client = self._client(PAST_TIMEOUT_SECONDS)
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
        """Read the queue of one InferencePool's gateway as :meth:`read_queues` does, over a time in seconds."""
        return self.read_queues([ObjectKey(namespace, pool)], now=now, window_seconds=window_seconds)[
            ObjectKey(namespace, pool)
        ]

    def read_queues(
        self, pools: Collection[ObjectKey], *, now: float, window_seconds: int = WINDOW_SECONDS
    ) -> dict[ObjectKey, GatewayQueue]:
        """Read the queues of InferencePools' gateways. Blocks up to the timeout; a bad answer never raises.

        Only series of a pool's own namespace count, so that nobody else can write a queue for it
        (:mod:`plimsoll.adapters.prometheus.access`).

        Args:
            pools: the pools; the endpoint picker of each is in its namespace.
            now: the caller's clock, POSIX seconds.
            window_seconds: how far back to read.
        """
        try:
            client = self._client()
            when = self._when(client, now, window_seconds)
        except (SourceUnavailable, InvalidInput) as error:
            return dict.fromkeys(pools, GatewayQueue(SignalState.UNAVAILABLE, error=str(error)))
        found = self._find(client, _Kind(self._gateway.names, self._gateway.pool_label), pools, when)
        return {pool: self._queue(pool, found.get(pool), now) for pool in pools}

    def _queue(self, pool: ObjectKey, found: _Series | None, now: float) -> GatewayQueue:
        if found is None:
            return GatewayQueue(error=self._gateway.missing(pool.name))
        if found.error is not None:
            return GatewayQueue(SignalState.UNAVAILABLE, error=str(found.error))
        return gateway_queue(found.series, self._gateway, pool.name, found.pair[1], now)

    def _when(self, client: Any, now: float, window_seconds: int) -> _When:
        """Return the window that ends now. A difference of the clocks that a request may take counts as none.

        Raises:
            SourceUnavailable: the server does not say its time, or did not a moment ago.
        """
        clock = time.monotonic()
        if clock < self._away[0]:
            raise SourceUnavailable(self._away[1])
        known = self._skew
        if known is None or clock >= known.until or abs(now - clock - known.ahead) > CLOCK_STEP_SECONDS:
            try:
                skew = _server_time(_ask(client, "time()")) - now
            except SourceUnavailable as error:
                self._away = time.monotonic() + AWAY_SECONDS, str(error)
                raise
            skew = skew if abs(skew) > self._timeout_seconds else 0.0
            known = self._skew = _Skew(skew, clock + SKEW_SECONDS, now - clock)
        return _When(now + known.seconds, window_seconds, known.seconds)

    def _client(self, most_seconds: float = math.inf) -> Any:
        """Return this thread's client for another reading, with its own deadline and the proof of today.

        Raises:
            InvalidInput: a file of the proof cannot be used.
        """
        proof, timeout = self._access.proof(), min(self._timeout_seconds, most_seconds)
        kept: _Kept | None = getattr(self._threads, "kept", None)
        if kept is None or kept.proof != proof:
            adapter = QueryAdapter("Prometheus", timeout_seconds=timeout, max_body_bytes=MAX_BODY_BYTES)
            session = session_with(adapter)
            if proof.ca_file is not None:
                session.verify = proof.ca_file
            session.cert = proof.certificate
            client = PrometheusConnect(self._url, headers=dict(proof.headers), session=session)
            session.mount(self._url, adapter)  # instead of the client's own, which has no limits and tries again
            kept = self._threads.kept = _Kept(proof, adapter, client)
        kept.adapter.begin(timeout)
        return kept.client

    def _find(self, client: Any, kind: _Kind, keys: Collection[ObjectKey], when: _When) -> dict[ObjectKey, _Series]:
        """Return the series of each object, from the first pair of labels that finds it; no entry if none does.

        The pair that the last objects of a namespace were found under is tried first.
        """
        found: dict[ObjectKey, _Series] = {}
        asked = sorted(key for key in set(keys) if _NAME.fullmatch(key.name) and _NAME.fullmatch(key.namespace))
        usual = {key: self._usual.get((kind.names[0], key.namespace), self._label_pairs[0]) for key in asked}
        for is_usual in (True, False):
            for pair in self._label_pairs:
                left = [key for key in asked if key not in found and (usual[key] == pair) is is_usual]
                for some in self._portions(left):
                    read = self._read(client, kind, pair, some, when)
                    found |= read
                    self._usual |= {(kind.names[0], key.namespace): pair for key in read if read[key].error is None}
        return found

    @property
    def _most_keys(self) -> int:
        until, smaller = self._smaller
        return smaller if time.monotonic() < until else MOST_KEYS

    def _portions(self, keys: Sequence[ObjectKey]) -> Iterator[list[ObjectKey]]:
        """Divide objects in order, so that each part has few enough, and few enough characters."""
        most, portion, length = self._most_keys, list[ObjectKey](), 0
        for key in keys:
            own = len(key.name) + (len(key.namespace) if not portion or portion[-1].namespace != key.namespace else 0)
            if portion and (len(portion) >= most or length + own > LONGEST_MATCHERS):
                yield portion
                portion, length = [], 0
            portion.append(key)
            length += own
        if portion:
            yield portion

    def _read(
        self, client: Any, kind: _Kind, pair: LabelPair, keys: Sequence[ObjectKey], when: _When
    ) -> dict[ObjectKey, _Series]:
        """Read some objects by one query; each half of them by its own if the server refuses it or sends too much."""
        found: dict[ObjectKey, _Series] = {key: _Series(pair, []) for key in keys}
        lists: dict[tuple[str, str], list[Series]] = {key: each.series for key, each in found.items()}
        others = [] if kind.others else other_namespaces(pair, self._label_pairs)
        within, of_name = pair[0], kind.label or pair[1]
        try:
            for series in self._series(client, kind, pair, keys, when):
                labels = series.labels
                namespace = labels.get(within, "")
                own = lists.get((namespace, labels.get(of_name, "")))
                if own is not None and names_only(namespace, labels, others):
                    own.append(series)
        except (QueryRefused, ReplyTooLarge) as error:
            if len(keys) == 1:
                return {keys[0]: _Series(pair, [], error)}
            middle = len(keys) // 2
            found = self._read(client, kind, pair, keys[:middle], when)
            found |= self._read(client, kind, pair, keys[middle:], when)
            if isinstance(error, QueryRefused) and not any(each.error for each in found.values()):
                self._smaller = time.monotonic() + SMALLER_SECONDS, min(self._most_keys, max(FEWEST_KEYS, middle))
        except SourceUnavailable as error:
            self._skew = None  # the next reading asks first whether the server is there
            return dict.fromkeys(keys, _Series(pair, [], error))
        return {key: each for key, each in found.items() if each.series or each.error}

    def _series(
        self, client: Any, kind: _Kind, pair: LabelPair, keys: Sequence[ObjectKey], when: _When
    ) -> list[Series]:
        """Return all series of the objects by one query, or by one for each name if the server takes only such.

        Some managed services take no regular expression for the name of a metric. That is remembered. Others refuse a
        query for what it finds, e.g. too many samples: that about fewer objects, or about one name, may still work.
        """
        pairs = [pair] if kind.others else self._label_pairs
        within = matchers_within(sorted({key.namespace for key in keys}), pair, pairs)
        names = "|".join(dict.fromkeys(key.name.replace(".", "[.]") for key in keys))
        matchers = f'{within},{kind.label or pair[1]}=~"{names}"'
        if self._one_by_one:
            return _by_name(client, kind, matchers, when)
        try:
            return _query(client, any_of(kind.names, matchers), kind.metrics, when)
        except QueryRefused as refusal:
            by_name = _takes_no_pattern(client)
            if len(keys) > 1 and not by_name:
                raise
            try:
                found = _by_name(client, kind, matchers, when)
            except QueryRefused:
                raise refusal from None
            self._one_by_one = by_name
            return found


GPU_KIND = _Kind(GPU_NAMES, others=True)


class _When(NamedTuple):
    """The end of a window in the server's clock, its length, and how far that clock is ahead; all in seconds."""

    at: float
    window_seconds: int
    skew: float


class _Skew(NamedTuple):
    """How far the server's clock is ahead, until when that counts, and how far our clock is ahead of the monotonic."""

    seconds: float
    until: float
    ahead: float


def _reading(
    asked: Asked, found: Mapping[ObjectKey, _Series], metrics: EngineMetrics, skew: float, *, is_shared: bool
) -> Reading:
    """Return the reading of one object. If one of its pods could not be read, nothing is known of it."""
    mine = {pod: found[key] for pod in asked.pods if (key := ObjectKey(asked.namespace, pod)) in found}
    error = next((each.error for each in mine.values() if each.error is not None), None)
    if error is not None:
        is_shared = is_shared and isinstance(error, TooSlow)
        return Reading(state=SignalState.UNAVAILABLE, error=str(error), is_shared=is_shared)
    signals = {pod: pod_signals(pod, each.series, metrics) for pod, each in mine.items()}
    return Reading(
        {pod: one for pod, one in signals.items() if one.samples},
        clock_skew_seconds=skew,
        series=sum(len(each.series) for each in mine.values()),
    )


def _takes_no_pattern(client: Any) -> bool:
    """Whether the server refuses a regular expression for the name of a metric even if it finds nothing."""
    try:
        _ask(client, NO_SERIES)
    except QueryRefused:
        return True
    except SourceUnavailable:  # the next refusal asks again
        return False
    return False


def _by_name(client: Any, kind: _Kind, matchers: str, when: _When) -> list[Series]:
    """Ask for each name alone. Of an engine, those come first without which a pod counts as not found."""
    first, metrics = list(kind.names), kind.metrics
    if metrics is not None:
        first = [metrics.kv_usage, *(old for old, name in metrics.former_names.items() if name == metrics.kv_usage)]
    found = [one for name in first for one in _query(client, f"{name}{{{matchers}}}", metrics, when)]
    if not found:
        return []
    others = [name for name in kind.names if name not in first]
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


def _server_time(result: Any) -> float:
    """Return the server's clock from the reply to ``time()``: a scalar, a pair of evaluation time and value."""
    try:
        return float(result[1])
    except (IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SourceUnavailable("Prometheus answered with another shape than a scalar") from error
