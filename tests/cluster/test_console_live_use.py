"""Live use in the console: the figures are those that the engines played, and without Prometheus they grow old.

:mod:`tests.support.hurried` lets them grow old within seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import requests

from testbed.console_process import ConsoleProcess
from tests.support import hurried
from tests.support.live_loop import CAPACITY, L4_POOL, Bench, bench_of

pytestmark = pytest.mark.cluster

REQUESTS = {"running": 5, "waiting": 3}
TOKENS = int(0.9 * CAPACITY)


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of one person's console, as text."""

    session: requests.Session
    origin: str

    def html(self, path: str = "/pressure") -> str:
        answer = self.session.get(self.origin + path, timeout=60)
        assert answer.status_code == 200
        return answer.text

    def row(self, name: str) -> str:
        """Return the HTML of a deployment's row; empty where there is none."""
        rows = re.findall(r"<tbody>.*?</tbody>", self.html(), re.DOTALL)
        return next((row for row in rows if f"/{name}</a>" in row or f'/{name}"' in row), "")


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with bench_of("live-use") as running:
        for name in ("full", "idle"):
            running.add_nodes(name, L4=1)
            running.deploy(name, {"mode": "Recommend"})
        for name in ("full", "idle"):
            running.wait_settled(name, {L4_POOL: 1})
        running.load("full", kv_tokens=TOKENS, **REQUESTS)
        running.load("idle")
        yield running


@pytest.fixture(scope="module")
def pages(bench: Bench) -> Iterator[Pages]:
    plane, url = bench.view.control_plane, bench.prometheus.url
    with (
        ConsoleProcess(
            plane.admin_kubeconfig,
            plane.directory,
            prometheus_url=url,
            environment=hurried.environment(*hurried.CONSOLE),
            module=hurried.MODULE,
        ) as console,
        requests.Session() as session,
    ):
        assert session.get(console.entry, timeout=60).status_code == 200
        yield Pages(session, console.origin)


def shows(bench: Bench, pages: Pages, name: str, *parts: str, timeout: float = 60.0) -> str:
    """Wait until the row of a deployment has some words, and return all of its words."""
    seen = ""

    def has_all() -> bool:
        nonlocal seen
        seen = words(pages.row(name))
        return all(part in seen for part in parts)

    try:
        bench.view.wait(has_all, f"{name} shows {parts}", timeout)
    except AssertionError as error:
        raise AssertionError(f"{error}; it shows {seen!r}") from error
    return seen


def test_figures_are_those_of_the_engines_and_grow_old_without_prometheus(bench: Bench, pages: Pages) -> None:
    places = bench.view.get("full")["status"]["placement"]["maxNumSeqs"]
    full = (f"{TOKENS:,} of {CAPACITY:,} tokens", "90 %", f"5 of {places:,} requests, waiting 3", "1 of 1 pods report")
    shows(bench, pages, "full", *full, "over 80 %")
    bench.view.wait(lambda: "unknown" not in words(pages.row("full")), "the live loop knows the pod, too", 60.0)
    idle = shows(bench, pages, "idle", f"0 of {CAPACITY:,} tokens", "waiting 0")
    assert "over 80 %" not in idle
    assert pages.html().index("/full") < pages.html().index("/idle"), "the worst comes first"
    bench.view.wait(lambda: "stale-figure" not in pages.html(), "no figure is old", 60.0)

    bench.prometheus.kill()
    bench.view.wait(lambda: "No Prometheus since" in pages.html(), "the console says that Prometheus is gone", 60.0)
    bench.view.wait(lambda: pages.row("full").count("stale-figure") == 2, "both gauges are stale", 60.0)
    bench.view.wait(lambda: "0 of 1 pods report" in words(pages.row("full")), "no pod reports", 60.0)
    dead = words(pages.row("full"))
    assert all(part in dead for part in full[:3]), dead
    assert re.search(r"\d+ (s|min) old", dead), dead
    assert "over 80 %" not in dead, "an old figure is no alarm"

    bench.prometheus.start()
    shows(bench, pages, "full", *full)
    bench.view.wait(lambda: "No Prometheus since" not in pages.html(), "live figures come back", 60.0)


def test_a_prometheus_that_hangs_holds_no_page(bench: Bench, pages: Pages) -> None:
    shows(bench, pages, "full", f"{TOKENS:,} of {CAPACITY:,} tokens")
    bench.prometheus.pause()
    try:
        for path in ("/pressure", "/pressure", "/deployments", "/accuracy"):
            assert pages.html(path)
        bench.view.wait(lambda: "No Prometheus since" in pages.html(), "the console says that nobody answers", 60.0)
    finally:
        bench.prometheus.resume()
    shows(bench, pages, "full", "1 of 1 pods report")
    bench.view.wait(lambda: "No Prometheus since" not in pages.html(), "live figures come back", 60.0)


def test_the_accuracy_page_compares_what_the_engines_reported(bench: Bench, pages: Pages) -> None:
    bench.view.wait(
        lambda: bench.view.pools("full")[0].get("kvTokensReported") == CAPACITY, "the report in the status", 60.0
    )
    (pool,) = bench.view.pools("full")
    predicted = f"{pool['kvTokensPredicted']:,} predicted, {CAPACITY:,} reported"
    bench.view.wait(lambda: predicted in pages.html("/accuracy"), f"{predicted} on the page", 60.0)
    assert "May I trust the figures?" in pages.html("/accuracy")
