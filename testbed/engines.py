"""An exporter that plays the engines: one metrics page for every ready engine pod, under the tests' control."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from typing_extensions import override

from testbed.api_client import ApiClient
from testbed.background import BackgroundLoop
from testbed.engine_metrics import Demand, Engine, spread
from testbed.engine_page import exposition
from testbed.engine_pods import is_ready, played_engine
from testbed.engine_queue import Stream
from testbed.kwok_config import DEPLOYMENT_LABEL
from testbed.ports import PortReservation

_ROUND_SECONDS = 0.5
_STALL_SECONDS = 3600.0


class Fault(StrEnum):
    """What is wrong with the metrics page, if anything."""

    NONE = "none"
    NAN = "nan"
    GARBAGE = "garbage"
    STALL = "stall"


class Engines:
    """Every ready pod with the label ``plimsoll.dev/deployment``, idle until told otherwise.

    Deployments are named ``namespace/name``, where ``name`` is the label's value.

    Args:
        client: may list pods.
        capacity_of: KV tokens of a pod's engine; None leaves it to the pod's annotation. Asked once for each pod.
    """

    def __init__(
        self, client: ApiClient, *, capacity_of: Callable[[dict[str, Any]], int | None] = lambda _: None
    ) -> None:
        self._client = client
        self._capacity_of = capacity_of
        self._lock = threading.Lock()
        self._engines: dict[str, dict[str, Engine]] = {}
        self._demands: dict[str, Demand] = {}
        self._dropped: set[str] = set()
        self._slower: dict[str, float] = {}
        self._fault = Fault.NONE
        self._healed = threading.Event()
        self._moved = time.monotonic()
        self._loop = BackgroundLoop("testbed-engines", self.refresh, _ROUND_SECONDS)
        self._reservation = PortReservation()
        self._server: ThreadingHTTPServer | None = None
        self.target = ""
        """``host:port`` to scrape, once started."""

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Begin to watch pods and to serve their metrics."""
        port = self._reservation.take()
        self._server = PageServer(("127.0.0.1", port), _handler(self._answer))
        self.target = f"127.0.0.1:{port}"
        threading.Thread(target=self._server.serve_forever, name="testbed-exporter", daemon=True).start()
        self._loop.start()
        return self

    def stop(self) -> None:
        """End both, and let go of requests that were stalled; may be called twice."""
        self._loop.stop()
        self._healed.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        self._reservation.release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- load ---------------------------------------------------------------------------------------------------------

    def load(
        self,
        deployment: str,
        *,
        kv_usage: float | None = None,
        kv_tokens: float | None = None,
        running: int | None = None,
        waiting: int | None = None,
    ) -> None:
        """Set the demand of a deployment; it stays the same, however many replicas share it.

        Args:
            deployment: ``namespace/name``.
            kv_usage: the demand as a share (may exceed 1) of the KV cache of the replicas that are ready *now*.
            kv_tokens: or as tokens of KV cache.
            running: requests in execution, over all replicas; derived from the tokens if left out.
            waiting: requests in queues, over all replicas; derived from what does not fit if left out.

        Raises:
            ValueError: both of ``kv_usage`` and ``kv_tokens`` are given, or ``kv_usage`` without a ready replica.
        """
        if kv_usage is not None and kv_tokens is not None:
            raise ValueError("kv_usage and kv_tokens: both are given; give one of them")
        if kv_usage is not None:
            self.refresh()
        with self._lock:
            if kv_usage is not None:
                capacity = sum(engine.capacity_tokens for engine in self._engines.get(deployment, {}).values())
                if not capacity:
                    raise ValueError(f"kv_usage: {deployment} has no ready replica to measure it by; give kv_tokens")
                kv_tokens = kv_usage * capacity
            self._demands[deployment] = Demand(kv_tokens or 0.0, running, waiting)

    def stream(self, deployment: str, stream: Stream) -> None:
        """Let requests come to a deployment one after another, from now on and in place of what was there.

        The rate stays the same, however many replicas share it. Requests of an earlier stream stay in queues and
        batches until they are done.
        """
        with self._lock:
            self._advance()
            self._demands[deployment] = Demand(stream=stream)

    def idle(self, deployment: str) -> None:
        """Take every request away from a deployment."""
        self.load(deployment)

    def resize(self, deployment: str, capacity_tokens: int) -> None:
        """Let the engines that are ready now have another KV cache, as after a restart in place."""
        self.refresh()
        with self._lock:
            for name, engine in self._engines.get(deployment, {}).items():
                self._engines[deployment][name] = replace(engine, capacity_tokens=capacity_tokens)

    def ready(self, deployment: str) -> list[str]:
        """Names of the deployment's pods that are played now."""
        with self._lock:
            return sorted(self._engines.get(deployment, {}))

    # -- faults -------------------------------------------------------------------------------------------------------

    def nan(self) -> None:
        """Every gauge of the load is NaN from now on."""
        self._set_fault(Fault.NAN)

    def garbage(self) -> None:
        """The page is no metrics page from now on."""
        self._set_fault(Fault.GARBAGE)

    def stall(self) -> None:
        """Connections are accepted from now on, and never answered."""
        self._set_fault(Fault.STALL)

    def heal(self) -> None:
        """End every fault, dropped pods included."""
        with self._lock:
            self._dropped.clear()
        self._set_fault(Fault.NONE)

    def reset_counters(self) -> None:
        """Every counter starts at zero again, as after a restart of the engines."""
        with self._lock:
            for engines in self._engines.values():
                for name, engine in engines.items():
                    engines[name] = engine.restarted()

    def drop(self, pod: str) -> None:
        """Leave one pod (by name) out of the page."""
        with self._lock:
            self._dropped.add(pod)

    def slow_down(self, pod: str, factor: float) -> None:
        """Let every token of one pod (by name) take so many times as long from now on, in streams of requests."""
        with self._lock:
            self._advance()
            self._slower[pod] = factor

    def _set_fault(self, fault: Fault) -> None:
        with self._lock:
            self._fault = fault
            stalled, self._healed = self._healed, threading.Event()
        stalled.set()

    # -- playing ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Look which pods are ready now; counters of those that stay go on. Raises OSError or ApiError."""
        pods = [pod for pod in self._client.cached_pods(DEPLOYMENT_LABEL) if is_ready(pod)]
        with self._lock:
            self._advance()
            before, self._engines = self._engines, {}
            for pod in pods:
                key = f"{pod['metadata']['namespace']}/{pod['metadata']['labels'][DEPLOYMENT_LABEL]}"
                name = pod["metadata"]["name"]
                known = before.get(key, {}).get(name)
                self._engines.setdefault(key, {})[name] = known or self._play(pod)

    def _play(self, pod: dict[str, Any]) -> Engine:
        engine, tokens = played_engine(pod), self._capacity_of(pod)
        return engine if tokens is None else replace(engine, capacity_tokens=tokens)

    def page(self) -> str:
        """The metrics page as it is now, without faults of the connection."""
        with self._lock:
            self._advance()
            if self._fault is Fault.GARBAGE:
                return '<html>502 Bad Gateway</html>\nvllm:kv_cache_usage_perc{pod="half'
            shown = [engine for key in sorted(self._engines) for engine in self._playing(key)]
            visible = [engine for engine in shown if engine.pod not in self._dropped]
            return exposition(visible, gauge_override="NaN" if self._fault is Fault.NAN else None)

    def _playing(self, key: str) -> list[Engine]:
        engines = self._engines[key]
        found = spread((engines[name] for name in sorted(engines)), self._demands.get(key, Demand()))
        return [each.slowed(self._slower[each.pod]) if each.pod in self._slower else each for each in found]

    def _advance(self) -> None:
        """Let counters catch up with the clock; called with the lock held."""
        now = time.monotonic()
        passed, self._moved = now - self._moved, now
        for key in self._engines:
            self._engines[key] = {engine.pod: engine.after(passed) for engine in self._playing(key)}

    def _answer(self) -> str:
        with self._lock:
            is_stalled, healed = self._fault is Fault.STALL, self._healed
        if is_stalled:
            healed.wait(_STALL_SECONDS)
        return self.page()


class PageServer(ThreadingHTTPServer):
    """A server of pages for readers that may hang up at any time."""

    daemon_threads = True

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: readers hang up on answers that are late, and no traceback is due for that."""


def _handler(answer: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = answer().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        @override
        def log_message(self, format: str, *arguments: Any) -> None:
            """A scrape a second is not worth a line."""

    return Handler
