"""A played endpoint picker: it serves nothing but the metric of the queue that it holds."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

QUEUE_METRICS = ("llm_d_epp_flow_control_queue_size", "inference_extension_flow_control_queue_size")
"""llm-d's picker reports every request under both names."""


def exposition(queues: Mapping[tuple[str, str], str]) -> str:
    """The page in Prometheus' text format. ``queues`` are the values by namespace and InferencePool."""
    lines: list[str] = []
    for name in QUEUE_METRICS:
        lines.append(f"# TYPE {name} gauge")
        for (namespace, pool), value in sorted(queues.items()):
            flow = f'fairness_id="",priority="0",model_name="m",target_model_name="m",inference_pool="{pool}"'
            lines.append(f'{name}{{namespace="{namespace}",pod="{pool}-epp-0",{flow}}} {value}')
    return "\n".join(lines) + "\n"


class PlayedGateway:
    """Serves the queues on loopback, at ``target``."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.target = f"127.0.0.1:{self._server.server_port}"

    def hold(self, namespace: str, pool: str, waiting: float | str) -> None:
        """Show so many waiting requests, or any other text as the value."""
        self._queues = {**self._queues, (namespace, pool): str(waiting)}

    def forget(self, namespace: str, pool: str) -> None:
        """Show no series of a pool, as a picker that has just started."""
        self._queues = {key: value for key, value in self._queues.items() if key != (namespace, pool)}

    def page(self) -> str:
        """The page as it is now."""
        return exposition(self._queues)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="testbed-gateway", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(gateway: PlayedGateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = gateway.page().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
