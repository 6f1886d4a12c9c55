"""``python -m benchmarks.signals``: read thousands of engines from a real Prometheus; a table in some minutes.

CPU is that of this process: the readings, and the turn of each deployment that has a new one. Prometheus and the
engines are other processes. The age of a deployment is that of the newest sample of its oldest pod.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.memory import peak_mib
from benchmarks.rebalance.policies.ours import room_of, running_of, spec_of, surroundings_of
from benchmarks.rebalance.scenarios.known import situations
from benchmarks.signals.exporter import SLOW, names_of, pages_of
from plimsoll.adapters.garbage import collect_seldom, collecting_later
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.app.live.signal_watch import LiveSignals
from plimsoll.app.live.wanted import HISTORY_SECONDS, WantedSamples
from plimsoll.app.settings import Settings
from plimsoll.decision.surroundings import Surroundings
from plimsoll.decision.turns import Standing, take_turn
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.signals.reading import Reading
from plimsoll.rebalance.state.history import ChangeHistory
from plimsoll.rebalance.state.memory import LoopMemory
from plimsoll.simulation.peers.view import PodView, View
from testbed.api_client import http_text
from testbed.binaries import ensure_binaries
from testbed.ports import PortReservation
from testbed.processes import Child
from testbed.prometheus import Prometheus
from testbed.waiting import wait_until

PERIOD = 15
"""Seconds between two scrapes of a pod."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement and its limits: a share of a core, requests a second, and the age of any deployment."""

    name: str
    deployments: int
    pods: int
    is_slow: bool = False
    most_share: float = 1.0
    most_requests: float = 1000.0
    most_age: float = 2 * PERIOD


ROWS = (
    Row("1,000 deployments, 4,000 pods", 1000, 4, most_share=0.15, most_requests=10),
    Row("the same, 0.5 s an answer", 1000, 4, is_slow=True),
    Row("5,000 deployments, 5,000 pods", 5000, 1),
)


SCENARIO = situations()["START600"].scenario
SPEC = spec_of(SCENARIO, {})


def view_of(now: float, pods: tuple[PodView, ...]) -> View:
    """Return what is known of a deployment with these pods."""
    return View(
        now,
        len(pods),
        pods,
        has_metrics=True,
        engine=SCENARIO.engine,
        min_replicas=1,
        max_replicas=8,
        declared_concurrency=1,
        ttft_seconds=SCENARIO.ttft_seconds,
        tpot_seconds=SCENARIO.tpot_seconds,
    )


RUNNING = running_of(view_of(0.0, ()))


@dataclass(slots=True)
class Turns:
    """The turns of all deployments that have a new reading, each as a pass takes it. Its pods were read before."""

    live: LiveSignals
    began: float = field(default_factory=time.time)
    taken: int = 0
    _pods: dict[ObjectKey, tuple[View, Surroundings]] = field(default_factory=dict)
    standings: dict[ObjectKey, Standing] = field(default_factory=dict)
    seen: dict[ObjectKey, Reading] = field(default_factory=dict)

    @collecting_later()
    def take(self) -> None:
        """Take them."""
        now = time.time()
        for key, reading in list(self.live.readings.items()):
            if self.seen.get(key) is reading:
                continue
            if key not in self._pods:
                self._begin(key)
            view, around = self._pods[key]
            self.standings[key] = take_turn(
                SPEC,
                self.standings[key],
                RUNNING,
                around,
                reading,
                room_of(view, view.wanted),
                now=now,
            ).standing
            self.seen[key] = reading
            self.taken += 1

    def _begin(self, key: ObjectKey) -> None:
        pods = tuple(PodView(pod, self.began - 4000, self.began - 3900) for pod in self.live.wanted[key].pods)
        view, memory = view_of(self.began, pods), LoopMemory("pool", startup_seconds=300.0)
        self._pods[key] = view, surroundings_of(view)
        self.standings[key] = Standing(view.wanted, view.wanted, ChangeHistory(), memory=memory)

    async def go_on(self, changed: asyncio.Event) -> None:
        """Take them whenever something has changed, in a thread, until cancelled."""
        while True:
            await changed.wait()
            changed.clear()
            await asyncio.to_thread(self.take)


@dataclass(slots=True)
class Result:
    """The result of one measurement: CPU seconds, requests, and the oldest age, over so many seconds."""

    seconds: float
    cpu_seconds: float
    requests: float
    turns: int
    age: float

    def words(self, row: Row) -> list[str]:
        """Return the cells of a row of the table."""
        share, asked = self.cpu_seconds / self.seconds, self.requests / self.seconds
        cells = (
            f"{share:.1%}",
            f"{asked:.1f}",
            f"{self.turns / self.seconds:.0f}",
            f"{self.age:.0f} s",
            f"{peak_mib():.0f}",
        )
        return [row.name, *cells]

    def missed(self, row: Row) -> list[str]:
        """Return the goals that are missed."""
        figures = {
            "share of a core": (self.cpu_seconds / self.seconds, row.most_share),
            "requests a second": (self.requests / self.seconds, row.most_requests),
            "age in seconds": (self.age, row.most_age),
        }
        return [
            f"{row.name}: {name} {is_now:.2f}, at most {most:g}"
            for name, (is_now, most) in figures.items()
            if is_now > most
        ]


async def measured(row: Row, prometheus: Prometheus, url: str, seconds: float) -> Result:
    """Read all deployments as the operator does, and measure once each has been read."""
    wanted = {
        ObjectKey(*key): WantedSamples(tuple(pods), HISTORY_SECONDS)
        for key, pods in names_of(row.deployments, row.pods).items()
    }
    changed = asyncio.Event()
    live = LiveSignals(PrometheusSignals(url), changed.set, wanted)
    turns = Turns(live)
    tasks = [asyncio.create_task(live.run(Settings().signals_seconds)), asyncio.create_task(turns.go_on(changed))]
    try:
        while len(turns.seen) < len(wanted) or oldest(live) > row.most_age:  # noqa: ASYNC110 - it is what is measured
            await asyncio.sleep(1)
        began, spent, asked, taken = time.monotonic(), time.process_time(), requests(prometheus), turns.taken
        age = looking = 0.0
        while time.monotonic() - began < seconds:
            await asyncio.sleep(1)
            looks = time.thread_time()
            age = max(age, oldest(live))
            looking += time.thread_time() - looks
        return Result(
            time.monotonic() - began,
            time.process_time() - spent - looking,
            requests(prometheus) - asked,
            turns.taken - taken,
            age,
        )
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def oldest(live: LiveSignals) -> float:
    """Return the age of the oldest deployment in seconds; infinite while one is unknown."""
    moments = [
        live.readings[key].pods[pod].samples[-1].at
        if key in live.readings and pod in live.readings[key].pods
        else -math.inf
        for key, what in live.wanted.items()
        for pod in what.pods
    ]
    return time.time() - min(moments)


def requests(prometheus: Prometheus) -> float:
    """Return the queries that Prometheus has answered."""
    page = http_text(f"{prometheus.url}/metrics")
    found = re.findall(
        r'^prometheus_http_requests_total\{code="\d+",handler="/api/v1/query"\} (\S+)', page, re.MULTILINE
    )
    return sum(map(float, found))


def main() -> int:
    """Print a table. Exit status 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.signals", description=__doc__)
    parser.add_argument("--seconds", type=float, default=90.0, help="how long each row is measured")
    parser.add_argument("--rows", type=int, nargs="+", default=range(len(ROWS)), help="numbers of rows, from 0")
    asked, missed = parser.parse_args(), list[str]()
    collect_seldom()
    head = ["", "CPU, share of a core", "requests/s", "turns/s", "oldest age", "MiB at most"]
    print_row(head)
    print_row(["---"] * len(head))
    for row in (ROWS[number] for number in asked.rows):
        result = run(row, asked.seconds)
        print_row(result.words(row))
        missed += result.missed(row)
    for words in missed:
        sys.stderr.write(f"a goal is missed: {words}\n")
    return 1 if missed else 0


def print_row(cells: list[str]) -> None:
    """Print a row of the table."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def run(row: Row, seconds: float) -> Result:
    """Start the engines and a Prometheus, and measure."""
    port = PortReservation()
    with tempfile.TemporaryDirectory() as folder:
        host = f"127.0.0.1:{port.take()}"
        paths = [f"/pages/{number}" for number in range(len(pages_of(row.deployments, row.pods)))]
        more = {"container": "engine", "endpoint": "http", "service": "model", "job": "team/model"}
        job = {
            "job_name": "engines",
            "honor_labels": True,
            "scrape_interval": f"{PERIOD}s",
            "scrape_timeout": "10s",
            "static_configs": [
                {"targets": [host], "labels": {**more, "__metrics_path__": path, "instance": path}} for path in paths
            ],
        }
        prometheus = Prometheus(ensure_binaries(), Path(folder), [], jobs=[job])
        command = [sys.executable, "-m", "benchmarks.signals.exporter", host.rpartition(":")[2]]
        exporter = Child(
            "exporter",
            [*command, str(row.deployments), str(row.pods)],
            log=Path(folder) / "exporter.log",
            environment={**os.environ, "UPSTREAM": prometheus.url},
        )
        exporter.start()
        try:
            with prometheus:
                there = f"count(count_over_time({USAGE}[2m]) > 2)"
                wait_until(lambda: prometheus.value(there) == row.deployments * row.pods, 300, "three scrapes of all")
                url = f"http://{host}{SLOW}" if row.is_slow else prometheus.url
                return asyncio.run(measured(row, prometheus, url, seconds))
        finally:
            exporter.stop()
            port.release()


USAGE = engine_of().metrics.kv_usage

if __name__ == "__main__":
    sys.exit(main())
