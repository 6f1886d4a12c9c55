"""``GET /healthz`` and ``GET /readyz``, served from a separate thread: an event loop that hangs could not answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from plimsoll.app.health import Verdict

Probe = Callable[[], Verdict]


class HealthServer:
    """Serves probes until closed.

    Args:
        port: on every interface, because the kubelet asks from the node.
        probes: the function that answers, by path.
    """

    def __init__(self, port: int, probes: Mapping[str, Probe]) -> None:
        self._server = _Server(("0.0.0.0", port), _handler(probes))  # noqa: S104 - the kubelet asks from the node
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def _answer(probe: Probe) -> Verdict:
    try:
        return probe()
    except Exception as error:  # noqa: BLE001 - a broken probe must answer that it failed
        return Verdict((f"the probe failed: {type(error).__name__}: {error}",))


def _handler(probes: Mapping[str, Probe]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5

        def do_GET(self) -> None:
            probe = probes.get(self.path.split("?", 1)[0])
            verdict = Verdict(("no such probe",)) if probe is None else _answer(probe)
            status = 404 if probe is None else 200 if verdict.is_well else 500
            body = (verdict.text() + "\n").encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
            """Log nothing: a line for every probe would hide the other lines."""

    return Handler
