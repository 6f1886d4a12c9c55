"""A Prometheus on loopback that answers what a test tells it to, in the shapes of the real query API."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

Query = dict[str, str]
Answer = Callable[[BaseHTTPRequestHandler, Query], None]


@dataclass
class FakePrometheus:
    """``clock`` answers ``time()``, ``answer`` everything else; ``queries`` and ``headers`` remember what was asked.

    ``steps`` says whether a query may also be evaluated step by step.
    """

    clock: float
    answer: Answer
    url: str = ""
    queries: list[Query] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    released: Event = field(default_factory=Event)
    steps: bool = False

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        address = urlsplit(request.path)
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        self.headers.append(dict(request.headers.items()))
        assert address.path == "/api/v1/query" or self.steps, "range selectors are evaluated once, not step by step"
        if query["query"] == "time()":
            send_json(request, success({"resultType": "scalar", "result": [self.clock, str(self.clock)]}))
            return
        self.queries.append(query)
        self.answer(request, query)


def success(data: Any) -> Any:
    return {"status": "success", "data": data}


def matrix(*series: Any) -> Any:
    return success({"resultType": "matrix", "result": list(series)})


def send_bytes(request: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, **headers: str) -> None:
    request.send_response(status)
    request.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    request.wfile.write(body)


def send_json(request: BaseHTTPRequestHandler, reply: Any, *, status: int = 200) -> None:
    send_bytes(request, json.dumps(reply).encode(), status=status, Content_Type="application/json")


def selected(query: str, series: Iterable[Any]) -> list[Any]:
    """The series that the one selector of a query matches. As in Prometheus, a missing label is an empty one."""
    name, matchers = re.findall(r"([a-zA-Z_:]*)\{(.*?)\}", query)[0]
    wanted = re.findall(r'(\w+)(=~|=)"([^"]*)"', matchers) + ([("__name__", "=", name)] if name else [])
    return [one for one in series if all(_matches(one["metric"].get(label, ""), *how) for label, *how in wanted)]


def _matches(value: str, how: str, text: str) -> bool:
    return value == text if how == "=" else re.fullmatch(text, value) is not None


@contextmanager
def serving(clock: float, answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[FakePrometheus]:
    fake = FakePrometheus(clock, answer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                fake.respond(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        fake.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
