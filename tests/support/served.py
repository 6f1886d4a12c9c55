"""A few fixed pages on a loopback port, for tests of what looks at pages."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class FixedPage:
    """The body of an answer, its type and more headers."""

    body: str
    type: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def served(pages: Mapping[str, FixedPage]) -> Iterator[str]:
    """Serve pages by their path, and nothing for other paths but 204; gives the origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            self.send_response(HTTPStatus.NO_CONTENT if page is None else HTTPStatus.OK)
            for name, value in ({} if page is None else {"Content-Type": page.type, **page.headers}).items():
                self.send_header(name, value)
            self.end_headers()
            if page is not None:
                self.wfile.write(page.body.encode())

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="served-pages", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
