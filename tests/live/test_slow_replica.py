"""Is a slow real engine named, replaced on another node, and ended without a lost request?

One of two engines is throttled: its processes may run for a part of each second only. ``nice`` alone would slow it down
by what else the machine does.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testbed.engine.environment import ensure_engine
from testbed.engine.tiny_model import write_tiny_model
from testbed.fleet import gpu_node
from testbed.kubelet.addresses import served_at
from testbed.traffic.traffic import Load, Traffic
from tests.live.bench import LLAMA, LLAMA_BLOCKS, START_SECONDS, TIMING, Bench, bench_of

pytestmark = [pytest.mark.live, pytest.mark.story, pytest.mark.timeout(3600)]

NAME = "llama"
NODES, REPLICAS = 3, 2
AUTO = {"mode": "Auto", "minReplicas": REPLICAS, "maxReplicas": REPLICAS, **TIMING, "cooldownSeconds": 3600}
LENIENT = {"ttftMilliseconds": 600_000, "tpotMilliseconds": 60_000}
"""Promises that no machine breaks: how fast this one is decides nothing."""

STEADY = Load(per_second=1.5, users=4, prompt_tokens=60, output_tokens=60)
RUNS_SECONDS, RESTS_SECONDS = 0.1, 0.9

SEES_SECONDS = 900.0
"""For two minutes of slowness to be seen and acted on; only what hangs takes so long."""

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Two replicas on two of three nodes."""
    model = write_tiny_model(tmp_path_factory.mktemp("tiny-model"), engine_python=ensure_engine())
    nodes = [gpu_node(f"cpu-{number}", "L4", 1) for number in range(NODES)]
    with bench_of("slow", Path(model), nodes=nodes) as running:
        running.deploy(NAME, LLAMA, LLAMA_BLOCKS, slo=LENIENT, rebalancing=AUTO, replicas=REPLICAS)
        running.wait_ready(NAME)
        yield running


@pytest.fixture(scope="module")
def users(bench: Bench) -> Iterator[Traffic]:
    """Users from the beginning to the end."""
    with bench.traffic(NAME) as running:
        running.set(STEADY)
        yield running


def test_a_throttled_engine_is_named_replaced_on_another_node_and_loses_no_request(
    bench: Bench, users: Traffic
) -> None:
    bench.wait(lambda: bench.rebalancing(NAME).get("reason") == "WithinBand", "a calm load", SEES_SECONDS)
    old, before = bench.ready_pods(NAME)[0], set(bench.ready_pods(NAME))
    node = _node_of(bench, old)
    bench.wait(lambda: users.tally.by_pod()[old] >= 20, "answers of the replica", SEES_SECONDS)
    with _throttled(bench, old):
        bench.wait(lambda: bench.rebalancing(NAME).get("replacing"), "a replacement", SEES_SECONDS)
        reported = bench.rebalancing(NAME)
        log.info("%s: %s", NAME, reported["lastChange"])
        assert (reported["replacing"]["pod"], reported["replacing"]["node"]) == (old, node)
        assert reported["replacing"]["reason"] == "ReplicaSlow"
        bench.wait(
            lambda: old not in bench.ready_pods(NAME), "the end of the slow replica", START_SECONDS + SEES_SECONDS
        )
    bench.wait(lambda: old not in _pods(bench) and len(_pods(bench)) == REPLICAS, "as many as before", SEES_SECONDS)
    [new] = set(bench.ready_pods(NAME)) - before
    assert _node_of(bench, new) != node
    assert before - {old} < set(bench.ready_pods(NAME)), "its sibling stays"
    bench.wait(lambda: users.tally.by_pod()[new] >= 5, "answers of the new replica", SEES_SECONDS)
    log.info("%s: %s", NAME, users.tally.line())
    assert users.tally.lost() == []


def _pods(bench: Bench) -> dict[str, dict[str, object]]:
    return {body["metadata"]["name"]: body for body in bench.view.pods(NAME)}


def _node_of(bench: Bench, pod: str) -> str:
    return str(next(each["spec"]["nodeName"] for each in bench.view.pods(NAME) if each["metadata"]["name"] == pod))


@contextmanager
def _throttled(bench: Bench, pod: str) -> Iterator[None]:
    """Let the processes of a pod's engine run for a part of each second, until they end; Linux only."""
    [address] = {each["status"]["podIP"] for each in bench.view.pods(NAME) if each["metadata"]["name"] == pod}
    family, done = _family_of(served_at(address)), threading.Event()

    def throttle() -> None:
        while not done.is_set():
            _signal(family, signal.SIGSTOP)
            done.wait(RESTS_SECONDS)
            _signal(family, signal.SIGCONT)
            done.wait(RUNS_SECONDS)

    assert family
    thread = threading.Thread(target=throttle, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        _signal(family, signal.SIGCONT)


def _signal(family: frozenset[int], what: signal.Signals) -> None:
    for process in family:
        with suppress(ProcessLookupError):
            os.kill(process, what)


def _family_of(address: str) -> frozenset[int]:
    """Return the process that serves an address, and all its descendants."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if address in (folder / "cmdline").read_bytes().decode(errors="replace").split("\0"):
                found.add(int(folder.name))
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return frozenset(found)
