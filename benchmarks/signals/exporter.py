"""The metrics of many engines as one process: ``python -m benchmarks.signals.exporter PORT DEPLOYMENTS PODS``.

``/pages/N`` are the engines of one part, in vLLM's names and labels. What is asked below ``/slow`` goes to the
Prometheus whose address is in ``UPSTREAM``, half a second late.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

from testbed.engine_counters import Counters
from testbed.engine_metrics import Engine
from testbed.engine_page import exposition

PODS_OF_PAGE = 100
LATE_SECONDS = 0.5
SLOW = "/slow"

PER_SECOND = Counters(
    prompt_tokens=1500.0,
    generation_tokens=400.0,
    first_tokens=1.0,
    first_token_seconds=0.4,
    gaps=399.0,
    gap_seconds=9.0,
    finished=1.0,
    finished_prompt_tokens=1500.0,
    finished_output_tokens=400.0,
    latency_seconds=10.0,
)
"""The load of each engine: a request a second. It is chosen."""


def names_of(deployments: int, pods: int) -> dict[tuple[str, str], list[str]]:
    """Return the pods of each deployment of fifty namespaces, by its namespace and name. Names are as usual."""
    return {
        (f"team-{number % 50}", f"model-{number:04}"): [
            f"model-{number:04}-h100-sxm-80gb-tp2-5f6d8c7b9f-x{pod:04}" for pod in range(pods)
        ]
        for number in range(deployments)
    }


def pages_of(deployments: int, pods: int) -> list[list[tuple[str, str, str]]]:
    """Return the namespace, deployment and pod of the engines of each page, which are scraped at the same moment.

    The pods of one deployment are on different pages, as in a cluster they are scraped at different moments.
    """
    known = [(*key, pod) for key, some in names_of(deployments, pods).items() for pod in some]
    pages = -(-len(known) // PODS_OF_PAGE)
    return [known[number::pages] for number in range(pages)]


def engines_of(page: list[tuple[str, str, str]], seconds: float) -> Iterator[Engine]:
    """Yield the engines of a page after so many seconds under load."""
    served = Counters(**{name: seconds * getattr(PER_SECOND, name) for name in PER_SECOND.__slots__})
    for namespace, model, pod in page:
        yield Engine(namespace, pod, model, 100_000, usage=0.3, running=10, crowd=served)


def main(port: int, deployments: int, pods: int) -> None:
    """Serve until the process is ended."""
    began, pages = time.time() - 100.0, pages_of(deployments, pods)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.startswith(SLOW):
                time.sleep(LATE_SECONDS)
                with urlopen(os.environ["UPSTREAM"] + self.path.removeprefix(SLOW)) as found:  # noqa: S310 - on loopback
                    self._send(found.read(), "application/json")
                return
            page = pages[int(self.path.rpartition("/")[2])]
            self._send(exposition(engines_of(page, time.time() - began)).encode(), "text/plain; version=0.0.4")

        def _send(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
