"""Read the engines' metrics from the pods themselves, if no Prometheus is configured.

Nothing waits for a pod here. A reading returns what is known, and asks threads for what is due. Pods that answer
quickly have threads that no other pod gets. A pod that does not answer is asked less and less often. Connections are
not kept: a vLLM server closes them after 5 s (``VLLM_HTTP_TIMEOUT_KEEP_ALIVE`` in ``vllm/envs.py``), long before the
next scrape.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from threading import Lock
from typing import NamedTuple
from zlib import crc32

import requests
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from plimsoll.adapters.prometheus.bounded_session import LimitedAdapter, session_with, unreachable
from plimsoll.adapters.prometheus.engine_series import (
    BOUND,
    MOST_SERIES,
    Series,
    bucket_names,
    pod_signals,
    read_names,
)
from plimsoll.adapters.prometheus.readings import Asked
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.requests.workload import ENGINE_PORT
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.rebalance.signals.metrics import PodSignals, SignalState
from plimsoll.rebalance.signals.reading import Reading

SCRAPE_SECONDS = 15.0
"""How often a pod is scraped: Prometheus' common interval, so that the same bounds on age hold."""

EARLY_SECONDS = 1.0
"""How much earlier a scrape may be, because readings do not come at the same distance each time."""

LONGEST_PAUSE_SECONDS = 240.0
"""The longest pause between two scrapes of a pod that does not answer. Each failure doubles the pause."""

REST = 150.0
"""How many times the CPU time of its last scrape a pod is not scraped again: it takes 0.7 % of a core at most. An
engine's page takes some 10 ms, and 5 ms for each further rank: 16 ranks are scraped as often as one."""

SCRAPE_TIMEOUT_SECONDS = 2.0
"""The time limit of one scrape. A page of vLLM takes some 50 ms. With Prometheus' own limit of 10 s, pods that hang
would hold their threads five times as long."""

QUICK_SECONDS = 0.5
"""A scrape that took longer is not quick: ten times the usual."""

MAX_PAGE_BYTES = 2 * 1024 * 1024
"""Largest page that is read. A page of vLLM has some 100 KB for each rank. Times the threads, it bounds the memory."""

QUICK_THREADS = 8
"""Threads for pods whose last scrape was quick: they scrape a thousand pods of 50 ms in 7 s."""

OTHER_THREADS = 24
"""Threads for pods that are new, slow or do not answer. A thousand addresses that swallow every packet hold them for
83 s at first, and later for a third of the time."""

PARTS = 64
"""Into so many parts of the time between two scrapes pods are divided."""

FORGET_SECONDS = 600.0
"""After this time without a question, a pod is forgotten."""


class _Cost(NamedTuple):
    seconds: float
    cpu_seconds: float


class _Target(NamedTuple):
    namespace: str
    pod: str
    address: str


@dataclass(slots=True)
class _Known:
    """The latest about one pod; times are of the monotonic clock. ``error`` is empty after a success."""

    signals: PodSignals | None = None
    error: str = ""
    quick: bool = False
    failures: int = 0
    due: float = 0.0
    asked: float = 0.0
    running: bool = False


@dataclass(slots=True)
class PodScrape:
    """Scrapes pods on their engine port. It has the interface of every reader of signals, and may be shared by threads.

    A reading holds the latest scrape of each pod and no history: the caller remembers. It is UNAVAILABLE if no pod's
    last scrape succeeded, with the reason of the first pod by name. It is None as long as no scrape has ended.

    Attributes:
        port: where engines serve their metrics.
        scrape_seconds: how often a pod is scraped.
        timeout_seconds: time limit of one scrape.
    """

    port: int = ENGINE_PORT
    scrape_seconds: float = SCRAPE_SECONDS
    timeout_seconds: float = SCRAPE_TIMEOUT_SECONDS
    _known: dict[_Target, _Known] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _quick: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(QUICK_THREADS, "scrape-quick"))
    _others: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(OTHER_THREADS, "scrape"))
    _swept: float = 0.0

    @property
    def has_past(self) -> bool:
        """A page shows the present only."""
        return False

    def read_all(
        self,
        asked: Sequence[Asked],
        metrics: EngineMetrics,
        *,
        now: float,  # noqa: ARG002 - the time of a scrape is its own
    ) -> list[Reading | None]:
        """Return the latest scrape of each pod, and begin those that are due. It never waits."""
        return [self._read(each, metrics) for each in asked]

    def _read(self, asked: Asked, metrics: EngineMetrics) -> Reading | None:
        clock, pods = time.monotonic(), asked.pods
        with self._lock:
            targets = [_Target(asked.namespace, pod, pods[pod]) for pod in sorted(pods)]
            latest = {each.pod: self._look(each, metrics, clock, buckets=asked.buckets) for each in targets}
            self._sweep(clock)
        found = {pod: known.signals for pod, known in latest.items() if known.signals is not None}
        if found or not pods:
            return Reading(found)
        error = next((f"{pod}: {known.error}" for pod, known in latest.items() if known.error), None)
        if error is None:
            return None
        return Reading(state=SignalState.UNAVAILABLE, error=f"No pod's own metrics can be read; {error}")

    def close(self) -> None:
        """End the threads. A scrape that is under way ends at its time limit."""
        for threads in (self._quick, self._others):
            threads.shutdown(wait=False, cancel_futures=True)

    def _look(self, target: _Target, metrics: EngineMetrics, clock: float, *, buckets: bool) -> _Known:
        """Return a copy of what is known about a pod. If a scrape is due, it is begun."""
        known = self._known.setdefault(target, _Known())
        known.asked = clock
        if clock >= known.due and not known.running:
            if not is_usable_address(target.address):
                known.error, known.due = "it has no IP address", clock
            else:
                known.running = True
                (self._quick if known.quick else self._others).submit(self._scrape, target, metrics, buckets)
        return _Known(known.signals, known.error)

    def _scrape(self, target: _Target, metrics: EngineMetrics, buckets: bool) -> None:  # noqa: FBT001 - for a thread
        signals, error, began, worked = None, "", time.monotonic(), time.thread_time()
        try:
            signals = scraped(
                target.pod,
                url_of(target.address, self.port, metrics.path),
                metrics,
                self.timeout_seconds,
                buckets=buckets,
            )
        except SourceUnavailable as failure:
            error = str(failure)
        except Exception as failure:  # noqa: BLE001 - whatever a page leads to, it costs this page only
            error = f"its metrics cannot be read ({type(failure).__name__})"
        cost = _Cost(time.monotonic() - began, time.thread_time() - worked)
        with self._lock:
            self._keep(target, signals, error, cost)

    def _keep(self, target: _Target, signals: PodSignals | None, error: str, cost: _Cost) -> None:
        known = self._known.setdefault(target, _Known())
        is_first = known.signals is None and signals is not None
        known.signals, known.error, known.running = signals, error, False
        known.quick = signals is not None and cost.seconds < QUICK_SECONDS
        known.failures = 0 if signals is not None else min(10, known.failures + 1)
        pause = min(LONGEST_PAUSE_SECONDS, self.scrape_seconds * 2 ** max(0, known.failures - 1))
        if is_first:  # pods that are found together are scraped at times of their own from then on
            pause *= (1 + crc32(repr(target).encode()) % PARTS) / PARTS
        pause = max(pause, REST * cost.cpu_seconds)
        known.due = time.monotonic() - cost.seconds + pause - min(EARLY_SECONDS, pause / 10)

    def _sweep(self, clock: float) -> None:
        """Forget pods that nobody asks for any more."""
        if clock - self._swept < FORGET_SECONDS / 10:
            return
        self._swept = clock
        for target in [each for each, known in self._known.items() if clock - known.asked > FORGET_SECONDS]:
            del self._known[target]


def scraped(pod: str, url: str, metrics: EngineMetrics, timeout_seconds: float, *, buckets: bool = False) -> PodSignals:
    """Scrape one page. The sample's time is the moment before the request, so that it is never too young.

    ``buckets``: the buckets of the histograms of times are read, too.

    Raises:
        SourceUnavailable: the page cannot be had in time, or it is none. The text goes on after "the pod: ".
    """
    adapter = LimitedAdapter("it", timeout_seconds=timeout_seconds, max_body_bytes=MAX_PAGE_BYTES)
    headers = {"Accept": "text/plain"}
    at = time.time()
    try:
        with session_with(adapter, proxies=False) as session:
            response = session.get(url, headers=headers, allow_redirects=False)
    except requests.RequestException as error:
        raise unreachable("it", error) from error
    if response.status_code != HTTPStatus.OK:
        raise SourceUnavailable(f"it answered HTTP {response.status_code}")
    page = response.content.decode(errors="replace")
    found = pod_signals(pod, read_page(page, at, metrics, buckets=buckets), metrics)
    if not found.samples:
        raise SourceUnavailable("its metrics are of another engine")
    return found


def url_of(address: str, port: int, path: str) -> str:
    """Return the URL of a page that a pod serves. Raises ValueError: it is no IP address."""
    read = ip_address(address)
    host = f"[{read}]" if isinstance(read, IPv6Address) else str(read)
    return f"http://{host}:{port}{path}"


def is_usable_address(address: str) -> bool:
    """Whether an address can be a pod's. A link-local one may be the cloud's metadata server, which is no pod."""
    try:
        read = ip_address(address)
    except ValueError:
        return False
    return not (read.is_link_local or read.is_multicast or read.is_unspecified)


MOST_CHARACTERS = 512 * 1024
"""Characters of all series that are read. Those of 64 ranks have some 240,000. The parser takes 0.3 s for the most."""

LONGEST_SERIES = 8192
"""Characters of a series with its labels. vLLM's longest, which says how the KV cache is configured, has some 1000. The
parser's time grows with the square of a line's length: one of a megabyte takes it seven seconds."""


def read_page(text: str, at: float, metrics: EngineMetrics, *, buckets: bool = False) -> list[Series]:
    """Return the known series of a page in Prometheus' text format, each with one point at the time of the scrape.

    Labels that are not the engine's own are left out: nothing else sets any.

    Raises:
        SourceUnavailable: a line of a known series cannot be read or is too long, or there are too many of them.
    """
    more = bucket_names(metrics) if buckets else ()
    wanted = "|".join(re.escape(name) for name in (*read_names(metrics), *more))
    lines = re.findall(rf"^(?:{wanted})[ \t{{].*$", text, re.MULTILINE)
    if len(lines) > MOST_SERIES:
        raise SourceUnavailable(f"its metrics have more than {MOST_SERIES} series")
    if sum(map(len, lines)) > MOST_CHARACTERS:
        raise SourceUnavailable(f"its metrics have series of more than {MOST_CHARACTERS} characters")
    if max(map(len, lines), default=0) > LONGEST_SERIES:
        raise SourceUnavailable(f"its metrics have a series of more than {LONGEST_SERIES} characters")
    try:
        found = [_series(sample, at, metrics) for sample in _samples(lines)]
    except Exception as error:  # the parser names no error: a hostile line raises whatever it leads to
        raise SourceUnavailable("its metrics are not in Prometheus' text format") from error
    return found


def _samples(lines: list[str]) -> Iterator[Sample]:
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        yield from family.samples


def _series(sample: Sample, at: float, metrics: EngineMetrics) -> Series:
    kept = sample.labels
    if metrics.former_names.get(sample.name, sample.name) not in metrics.of_sizes:
        own = metrics.labels | {BOUND}
        kept = {name: value for name, value in sample.labels.items() if name in own}
    return Series.of({**kept, "__name__": sample.name}, {at: sample.value}, metrics)
