"""Seconds from opening the static calculator to its first answer: cold and with a warm cache of the browser.

    python -m benchmarks.static_calculator [TIMES]

It builds the files, serves them on loopback, and opens the page in Chromium. Cold is a new profile each time: nothing
is cached, and WebAssembly is compiled anew. Warm is a new tab of a profile that has opened the page before.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, sync_playwright

from calculator.building import build
from testbed.browser import find_chromium

QUERY = "?model=Qwen/Qwen3-8B&gpu=l4-24gb"
PATIENCE_MS = 120_000


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *words: Any) -> None:  # noqa: A002 - the base class's name
        """Write nothing."""


@contextmanager
def served() -> Iterator[str]:
    """Build and serve the files; the address."""
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            server.server_close()


@contextmanager
def profile() -> Iterator[BrowserContext]:
    """A Chromium with a new profile on disk: contexts without one keep no compiled WebAssembly."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        context = playwright.chromium.launch_persistent_context(
            folder, executable_path=find_chromium(), args=arguments, headless=True
        )
        try:
            yield context
        finally:
            context.close()


def seconds(context: BrowserContext, address: str) -> float:
    """Open the page in a new tab, and return the seconds to its answer."""
    page = context.new_page()
    begun = time.perf_counter()
    page.goto(address + QUERY)
    page.locator("#command").wait_for(timeout=PATIENCE_MS)
    taken = time.perf_counter() - begun
    page.close()
    return taken


def cold(address: str, times: int) -> Iterator[float]:
    """The seconds of first visits."""
    for _ in range(times):
        with profile() as context:
            yield seconds(context, address)


def warm(address: str, times: int) -> Iterator[float]:
    """The seconds of later visits."""
    with profile() as context:
        seconds(context, address)
        for _ in range(times):
            yield seconds(context, address)


def line(name: str, found: Sequence[float]) -> str:
    """The median and the range of some seconds."""
    return f"{name}: median {statistics.median(found):.1f} s of {len(found)} ({min(found):.1f} to {max(found):.1f})"


def main(words: list[str]) -> None:
    """Measure, and print both."""
    times = int(words[0]) if words else 5
    with served() as address:
        for name, visits in (("cold", cold), ("warm", warm)):
            sys.stdout.write(f"{line(name, list(visits(address, times)))}\n")
            sys.stdout.flush()
    load = os.getloadavg()[0]
    sys.stdout.write(f"{os.cpu_count()} cores, load average {load:.1f} at the end\n")


if __name__ == "__main__":
    main(sys.argv[1:])
