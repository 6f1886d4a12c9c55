"""A played router of one deployment: it holds requests while no replica serves, as a picker and Envoys do.

The real ones are run by ``tests/live/test_routing.py``. This one needs no build, and no engine that answers.
"""

from __future__ import annotations

import errno
import json
import random
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Self

from testbed.api_client import ApiClient, absence_is_fine, http_text
from testbed.background import BackgroundLoop
from testbed.engine_pods import PICKER_LABEL
from testbed.engines import PageServer
from testbed.gateway_metrics import exposition

METRICS_PORT = 9090
"""That of the rendered picker, at which the operator asks for the queue."""

_ROUND_SECONDS = 0.2
_PATIENCE_SECONDS = 600.0


class PortTaken(RuntimeError):
    """A port that cannot be another one is taken."""


class PlayedRouter:
    """Serves the API and the picker's metrics at a loopback address, which the picker's pod is given.

    Args:
        client: may list pods and write their statuses.
        namespace: of the deployment.
        name: of the deployment, and of its InferencePool.
        serving: the names of the pods that serve it now.

    Raises:
        PortTaken: another program listens on the picker's port at every address.
    """

    def __init__(self, client: ApiClient, namespace: str, name: str, serving: Callable[[], Sequence[str]]) -> None:
        self._client, self._namespace, self._name, self.serving = client, namespace, name, serving
        self._held, self._lock, self._ended = 0, threading.Lock(), threading.Event()
        self.address = f"127.{random.randint(1, 240)}.{random.randint(0, 255)}.1"  # noqa: S311 -- guards nothing
        handler = _handler(self)
        metrics = _listening(self.address, METRICS_PORT, handler)
        self._api = PageServer((self.address, 0), handler)
        self._servers = [self._api, metrics]
        self._loop = BackgroundLoop("testbed-router", self.show_address, _ROUND_SECONDS)

    @property
    def url(self) -> str:
        """Where completions are asked for."""
        return f"http://{self.address}:{self._api.server_port}/v1/completions"

    def ask(self, question: str) -> str:
        """Send a body there, and return the answer. Raises OSError or ApiError."""
        kind = "application/json"
        return http_text(self.url, method="POST", body=question, content_type=kind, timeout=_PATIENCE_SECONDS)

    def answer(self) -> str:
        """Wait for a replica and answer in its name."""
        self._count(1)
        try:
            while not (serving := self.serving()) and not self._ended.wait(_ROUND_SECONDS):
                pass
        finally:
            self._count(-1)
        return json.dumps(
            {"model": self._name, "servedBy": next(iter(serving), None), "choices": [{"text": "(played)"}]}
        )

    def page(self) -> str:
        """The picker's metrics: the requests that are held now."""
        own = f'inference_pool_ready_pods{{name="{self._name}"}} {len(self.serving())}\n'
        return own + exposition({(self._namespace, self._name): str(self._held)})

    def show_address(self) -> None:
        """Give the picker's pods the address of this router; kwok gives them one that nobody answers at."""
        for pod in self._client.cached_pods(f"{PICKER_LABEL}={self._name}"):
            head, shown = pod["metadata"], pod["status"].get("podIP")
            if head["namespace"] == self._namespace and shown not in (None, self.address):
                path = f"/api/v1/namespaces/{self._namespace}/pods/{head['name']}/status"
                status = {"podIP": self.address, "podIPs": [{"ip": self.address}]}
                with absence_is_fine():
                    self._client.merge_patch(path, {"status": status})

    def end(self) -> None:
        """Hold nobody any longer; what is held is answered by nobody."""
        self._ended.set()

    def _count(self, change: int) -> None:
        with self._lock:
            self._held += change

    def __enter__(self) -> Self:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, name="testbed-router", daemon=True).start()
        self._loop.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.stop()
        self.end()
        for server in self._servers:
            server.shutdown()
            server.server_close()


def _listening(address: str, port: int, handler: type[BaseHTTPRequestHandler]) -> PageServer:
    try:
        return PageServer((address, port), handler)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise PortTaken(
            f"port {port} of {address} is taken, and the played router needs it: end the program that listens on port "
            f"{port} at all addresses"
        ) from error


def _handler(router: PlayedRouter) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(router.page(), "text/plain; version=0.0.4")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._say(router.answer() + "\n", "application/json")

        def _say(self, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
