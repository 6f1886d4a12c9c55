"""A proxy before the API server that kills its client at a chosen write: applied, and the answer lost."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from typing_extensions import override

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "content-length", "host", "accept-encoding"})
_CHUNK = 65_536


class KillingProxy:
    """Plain HTTP on loopback in, HTTPS to the API server out; watches are streamed through.

    Args:
        server: the API server's base URL.
        authority: PEM text of its CA.
    """

    def __init__(self, server: str, authority: str) -> None:
        self._upstream = urlsplit(server)
        self._tls = ssl.create_default_context(cadata=authority)
        self._lock = threading.Lock()
        self._kill: Callable[[], None] | None = None
        self._http = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self.killed_at: list[str] = []
        """Method and path of every write that was a client's last."""

    def arm(self, kill: Callable[[], None]) -> None:
        """Let ``kill`` end the client when its next write has been applied."""
        with self._lock:
            self._kill = kill

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, name="killing-proxy", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    def forward(self, request: BaseHTTPRequestHandler) -> None:
        """Pass one request on and stream the answer back, or not."""
        length = int(request.headers.get("Content-Length") or 0)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        host, port = self._upstream.hostname or "", self._upstream.port
        upstream = http.client.HTTPSConnection(host, port, context=self._tls)
        try:
            upstream.request(request.command, request.path, request.rfile.read(length) if length else None, headers)
            answer = upstream.getresponse()
            is_decision = request.command in _WRITES and "/leases" not in request.path  # renewals go on at rest, too
            if is_decision and self._end_client(f"{request.command} {request.path}"):
                return
            _pass_back(request, answer)
        finally:
            upstream.close()

    def _end_client(self, what: str) -> bool:
        with self._lock:  # held while the client dies: no second write of its gets through
            if self._kill is None:
                return False
            self._kill()
            self._kill = None
            self.killed_at.append(what)
            return True


def _pass_back(request: BaseHTTPRequestHandler, answer: http.client.HTTPResponse) -> None:
    request.send_response(answer.status)
    for name, value in answer.getheaders():
        if name.lower() not in _HOP_BY_HOP:
            request.send_header(name, value)
    request.send_header("Connection", "close")
    request.end_headers()
    while piece := answer.read1(_CHUNK):
        request.wfile.write(piece)
        request.wfile.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """The client was killed, or the API server was: expected here, and no reason to print a traceback."""


def _handler(proxy: KillingProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.close_connection = True
            proxy.forward(self)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the base class looks for these names

        @override
        def log_message(self, format: str, *arguments: object) -> None:
            """A line for every request would bury the test's own."""

    return Handler
