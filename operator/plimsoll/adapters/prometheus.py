"""What did the engines of these pods report, and when? Asked of Prometheus, answered with values and never an error.

The age of a value decides whether it may be decided by, so every sample keeps its true scrape time. A graph query
(``/api/v1/query_range``) would not do: at each step it repeats the last sample for up to the lookback of five minutes
(https://prometheus.io/docs/prometheus/latest/querying/basics/#staleness), with the step's time on it. A range selector
``metric[300s]`` evaluated once returns the raw samples with their own times, and nothing after a staleness marker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_api_client import PrometheusConnect
from urllib3 import Retry

from plimsoll.adapters.bounded_session import BoundedSession
from plimsoll.adapters.engine_series import Series, parse_series, pod_signals
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.rebalance.engine_metrics import ENGINE_METRICS, KV_CACHE_USAGE_BEFORE_0_12
from plimsoll.rebalance.signals import PodSignals, SignalState

MAX_BODY_BYTES = 16 * 1024 * 1024
"""Largest reply that is read. 50 pods with 8 ranks, 7 metrics and 20 scrapes of some 30 bytes make 2 MB."""

PODS_PER_QUERY = 50
"""Names of up to 63 characters: 50 keep the URL below the 8 KiB that common reverse proxies accept."""

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_LABEL_PAIRS = (("namespace", "pod"), ("exported_namespace", "exported_pod"))
"""Labels of a pod's name: the target's, or the engine's own where Prometheus had to rename it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What Prometheus said.

    ``state`` is FRESH when it answered, UNAVAILABLE otherwise, with the reason in ``error``. ``pods`` has an entry for
    each pod with at least one series. ``clock_skew_seconds`` is how far the server's clock was ahead, where that is
    more than the question may have taken; sample times are corrected by it.
    """

    pods: Mapping[str, PodSignals] = field(default_factory=dict)
    state: SignalState = SignalState.FRESH
    error: str = ""
    clock_skew_seconds: float = 0.0


class PrometheusSignals:
    """Reads engine metrics of pods from one Prometheus (or what speaks its query API).

    Safe to share between threads: every reading has its own connection and its own deadline.

    Args:
        url: root of the API, for example ``http://prometheus.monitoring:9090``.
        timeout_seconds: for one whole reading. There are no retries: the next round of the loop is the retry.
        headers: sent with every request, for example ``Authorization``.
        ca_file: bundle to verify the server's certificate with, instead of the system's.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = 5,
        headers: Mapping[str, str] | None = None,
        ca_file: str | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._headers = dict(headers or {})
        self._ca_file = ca_file

    def read(self, namespace: str, pods: Sequence[str], *, window_seconds: int, now: float) -> Reading:
        """Read the last ``window_seconds`` of the pods' samples. Blocks up to the timeout; a bad answer never raises.

        Args:
            namespace: of all the pods.
            pods: their names.
            window_seconds: how far back to read.
            now: the caller's clock, POSIX seconds; sample times in the reading are in this clock.
        """
        asked = sorted({pod for pod in pods if _NAME.fullmatch(pod)})
        session = BoundedSession("Prometheus", timeout_seconds=self._timeout_seconds, max_body_bytes=MAX_BODY_BYTES)
        if self._ca_file is not None:
            session.verify = self._ca_file
        with PrometheusConnect(self._url, headers=self._headers, session=session, retry=Retry(0, read=False)) as client:
            try:
                server_now = _server_time(_ask(client, "time()"))
                skew = server_now - now if abs(server_now - now) > self._timeout_seconds else 0.0
                found = _find(client, namespace, asked, window_seconds=window_seconds, at=now + skew, skew=skew)
            except SourceUnavailable as error:
                return Reading(state=SignalState.UNAVAILABLE, error=str(error))
        return Reading({pod: pod_signals(pod, series) for pod, series in found.items()}, clock_skew_seconds=skew)


def _find(
    client: Any, namespace: str, pods: Sequence[str], *, window_seconds: int, at: float, skew: float
) -> dict[str, list[Series]]:
    """The series of each pod, under the first pair of labels that knows it."""
    found: dict[str, list[Series]] = {}
    for namespace_label, pod_label in _LABEL_PAIRS:
        for some in _portions([pod for pod in pods if pod not in found]):
            query = _selector({namespace_label: namespace}, pod_label, some) + f"[{window_seconds}s]"
            result = _ask(client, query, time=f"{at:.3f}")
            for series in parse_series(result, shift_seconds=-skew):
                pod = series.labels.get(pod_label, "")
                if pod in some:
                    found.setdefault(pod, []).append(series)
    return found


def _ask(client: Any, query: str, **params: str) -> Any:
    """The ``data.result`` of an instant query."""
    try:
        return client.custom_query(query, params=params)
    except (KeyError, TypeError) as error:
        raise SourceUnavailable("Prometheus answered without a result") from error


def _portions(pods: Sequence[str]) -> Iterator[Sequence[str]]:
    return (pods[start : start + PODS_PER_QUERY] for start in range(0, len(pods), PODS_PER_QUERY))


def _selector(equal: Mapping[str, str], pod_label: str, pods: Sequence[str]) -> str:
    """One selector for all metrics, so that a reading is of one moment. Of a pod's name only dots need escaping."""
    metrics = "|".join((*ENGINE_METRICS, KV_CACHE_USAGE_BEFORE_0_12))
    names = "|".join(pod.replace(".", "[.]") for pod in pods)
    matchers = [f'__name__=~"{metrics}"', *(f'{label}="{value}"' for label, value in equal.items())]
    return "{" + ",".join([*matchers, f'{pod_label}=~"{names}"']) + "}"


def _server_time(result: Any) -> float:
    """The server's clock, from the reply to ``time()``: a scalar, a pair of evaluation time and value."""
    try:
        return float(result[1])
    except (IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SourceUnavailable("Prometheus answered with another shape than a scalar") from error
