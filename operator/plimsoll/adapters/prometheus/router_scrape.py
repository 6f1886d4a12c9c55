"""Read the queues of our own routers from their pickers, each second: a request that waits there starts a replica.

Nothing else waits for a picker that does not answer: each has its own connection and time limit, and is asked again
when its last question has ended.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Lock

import requests

from plimsoll.adapters.prometheus.bounded_session import LimitedAdapter, session_with, unreachable
from plimsoll.adapters.prometheus.pod_scrape import is_usable_address, url_of
from plimsoll.adapters.prometheus.questions import QUEUE_METRICS
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.gateway_scrapes import queue_of
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.render.router_config import PICKER_METRICS_PORT

TIMEOUT_SECONDS = 2.0
"""The time limit of one scrape. A picker answers within milliseconds."""

PAUSE_SECONDS = 1.0
"""The least time between two scrapes of the picker of a deployment that sleeps: a request wakes it so much later."""

AWAKE_SECONDS = 15.0
"""The same of one whose engines serve: as often as they are scraped."""

EACH_SECONDS = 0.005
"""By so much each of those that sleep makes the pause longer. A scrape takes some 2 ms of CPU."""

THREADS = 8
"""Pickers that are asked at the same time."""

KEPT_SECONDS = 150.0
"""How long a scrape is kept: the usual window of 120 s, and half a minute."""

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""The largest page that is read. A picker's page has some 60 KB, and more with each model name that clients send."""

LONGEST_LINE = 4096
"""Characters of a line of the queue that is read."""

_OWN_SERIES = re.compile(r"^inference_(?:pool_ready_pods|extension_info)[ {]", re.MULTILINE)
_QUEUE = re.compile(rf"^(?:{'|'.join(map(re.escape, QUEUE_METRICS))})\{{(.{{0,{LONGEST_LINE}}})\}} (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RouterPods:
    """The IP addresses of a router's pods by name, empty for one that has none yet, and whether no engine serves."""

    addresses: Mapping[str, str]
    is_asleep: bool = False


@dataclass(slots=True)
class _Picker:
    """The scrapes of one picker by their times (POSIX seconds), and when the last one began (monotonic clock)."""

    scrapes: dict[float, float] = field(default_factory=dict)
    error: str = ""
    began: float = -math.inf
    running: bool = False


@dataclass(slots=True)
class RouterScrape:
    """The queues of routers, by deployment and pod. Threads may share it.

    Attributes:
        port: where pickers serve their metrics.
    """

    port: int = PICKER_METRICS_PORT
    _pickers: dict[tuple[ObjectKey, str, str], _Picker] = field(default_factory=dict)
    _pauses: Mapping[ObjectKey, float] = field(default_factory=dict)
    _has_news: bool = False
    _lock: Lock = field(default_factory=Lock)
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "routers"))

    def begin(self, routers: Mapping[ObjectKey, RouterPods]) -> bool:
        """Begin the scrapes that are due, and forget all other pickers.

        Args:
            routers: the router of each deployment.

        Returns:
            Whether some queue has begun or ended since the last call.
        """
        wanted = {
            (key, pod, address) for key, pods in routers.items() for pod, address in pods.addresses.items() if address
        }
        often = max(PAUSE_SECONDS, EACH_SECONDS * sum(pods.is_asleep for pods in routers.values()))
        clock = time.monotonic()
        with self._lock:
            news, self._has_news = self._has_news, False
            self._pauses = {key: often if pods.is_asleep else AWAKE_SECONDS for key, pods in routers.items()}
            for gone in self._pickers.keys() - wanted:
                del self._pickers[gone]
            for target in wanted:
                picker = self._pickers.setdefault(target, _Picker())
                if not picker.running and clock >= picker.began + self._pauses[target[0]]:
                    picker.running, picker.began = True, clock
                    self._threads.submit(self._scrape, target)
        return news

    def queue(self, key: ObjectKey, now: float) -> GatewayQueue:
        """Return the queue of a deployment's router; MISSING with the reason if no picker has answered lately."""
        with self._lock:
            found = [(dict(each.scrapes), each.error) for (owner, *_), each in self._pickers.items() if owner == key]
        queue = queue_of([scrapes for scrapes, _ in found], now)
        if queue.is_known:
            return queue
        error = next((error for _, error in found if error), "no pod of the router has answered yet.")
        return GatewayQueue(SignalState.MISSING, queue.lines, f"The router's queue cannot be read: {error}")

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _scrape(self, target: tuple[ObjectKey, str, str]) -> None:
        _, pod, address = target
        at, waiting, error = time.time(), None, ""
        try:
            waiting = queue_on(_page(address, self.port))
        except SourceUnavailable as failure:
            error = f"{pod}: {failure}"
        except Exception as failure:  # noqa: BLE001 - whatever a page leads to, it costs this page only
            error = f"{pod}: its metrics cannot be read ({type(failure).__name__})"
        with self._lock:
            picker = self._pickers.get(target)
            if picker is None:
                return
            picker.running, picker.error = False, error
            if waiting is not None:
                before = picker.scrapes[max(picker.scrapes)] if picker.scrapes else 0.0
                self._has_news = self._has_news or (waiting > 0) is not (before > 0)
                kept = {each: count for each, count in picker.scrapes.items() if each >= at - KEPT_SECONDS}
                picker.scrapes = {**kept, at: waiting}


def queue_on(page: str) -> float:
    """Return the requests that a picker holds, by its page in Prometheus' text format.

    A picker has no series of its queue until its first request: with its other series there, the queue is empty. One
    that reports its queue under two names reports the same requests twice.

    Raises:
        SourceUnavailable: the page is not that of a picker.
    """
    by_name: dict[str, float] = {}
    for line in _QUEUE.finditer(page):
        name = line[0].partition("{")[0]
        by_name[name] = by_name.get(name, 0.0) + float(line[2])
    if by_name:
        return next(by_name[name] for name in QUEUE_METRICS if name in by_name)
    if _OWN_SERIES.search(page) is None:
        raise SourceUnavailable("its metrics are not those of an endpoint picker")
    return 0.0


def _page(address: str, port: int) -> str:
    if not is_usable_address(address):
        raise SourceUnavailable("it has no IP address that a pod can have")
    adapter = LimitedAdapter("it", timeout_seconds=TIMEOUT_SECONDS, max_body_bytes=MAX_PAGE_BYTES)
    try:
        with session_with(adapter, proxies=False) as session:
            response = session.get(
                url_of(address, port, "/metrics"), headers={"Accept": "text/plain"}, allow_redirects=False
            )
    except requests.RequestException as error:
        raise unreachable("it", error) from error
    if response.status_code != HTTPStatus.OK:
        raise SourceUnavailable(f"it answered HTTP {response.status_code}")
    return response.content.decode(errors="replace")
