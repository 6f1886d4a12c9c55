"""Days before now, as a Prometheus that ran all the time would have them: one page of samples with their own times."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Protocol, Self

SCRAPE_SECONDS = 60
"""The time between two samples of a series."""


class Lines(Protocol):
    """Samples with their own times."""

    def lines(self) -> Iterator[str]:
        """Yield the samples in Prometheus' text format, with times in milliseconds."""


@dataclass(frozen=True, slots=True)
class PastSeries:
    """A counter with its labels over a time.

    Attributes:
        name: the metric.
        labels: all labels of the series.
        begin: the time of the first sample, POSIX seconds.
        end: no sample is later.
        rate: the growth a second at a moment, POSIX seconds.
        shown: turns a value into the text of its sample.
    """

    name: str
    labels: Mapping[str, str]
    begin: float
    end: float
    rate: Callable[[float], float]
    shown: Callable[[float], str] = str

    def lines(self) -> Iterator[str]:
        """Yield the samples in Prometheus' text format, with times in milliseconds."""
        labels = ",".join(f'{name}="{value}"' for name, value in self.labels.items())
        total, at = 0.0, self.begin
        while at <= self.end:
            yield f"{self.name}{{{labels}}} {self.shown(total)} {round(at * 1000)}"
            total += self.rate(at + SCRAPE_SECONDS / 2) * SCRAPE_SECONDS
            at += SCRAPE_SECONDS


class PlayedPast:
    """Serves the page on loopback until it is closed. Prometheus drops what it has already.

    Args:
        series: the samples of the days before.
        days: the days that they reach back, rounded up.
    """

    def __init__(self, series: Iterable[Lines], days: int) -> None:
        self.days = days
        self._page = "\n".join(line for each in series for line in each.lines()).encode() + b"\n"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._page))

    @property
    def job(self) -> dict[str, Any]:
        """The scrape configuration. The first scrape comes at any time within the interval."""
        target = f"127.0.0.1:{self._server.server_port}"
        times = {"scrape_interval": "5s", "scrape_timeout": "5s"}
        return {"job_name": "past", "honor_labels": True, **times, "static_configs": [{"targets": [target]}]}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="testbed-past", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(page: bytes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
