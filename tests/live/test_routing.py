"""Real pickers, a real Envoy and real engines: known prefixes, replicas that come and go, faults, and nobody at zero.

The tests build on one another in the order of this file.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest

from testbed.engine.environment import ensure_engine
from testbed.engine.tiny_model import write_tiny_model
from testbed.traffic.completion import Answered, Question, ask
from testbed.waiting import wait_until
from tests.live.bench import L4_POOL, LLAMA, QWEN, TIMING, Bench, bench_of

pytestmark = [pytest.mark.live, pytest.mark.story, pytest.mark.timeout(3600)]

ROUTED, PLAIN = "routed", "plain"
PORT = 8000
SEES_SECONDS = 900.0
CONVERSATIONS, TURN_BYTES = 12, 1500
ROUTING = {"mode": "Standalone", "replicas": 1}
BLOCKS = {L4_POOL: 400}
"""KV blocks of 128 tokens: every conversation of a test fits into the cache of one replica."""

MOST_AT_ONCE = 32

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    model = write_tiny_model(tmp_path_factory.mktemp("tiny-model"), engine_python=ensure_engine())
    with bench_of("live-routing", Path(model), routed=True) as running:
        running.deploy(
            ROUTED,
            LLAMA,
            BLOCKS,
            replicas=2,
            routing=ROUTING,
            rebalancing={"mode": "Off"},
        )
        running.deploy(PLAIN, QWEN, BLOCKS, rebalancing={"mode": "Off"})
        for name in (ROUTED, PLAIN):
            running.wait_ready(name)
        running.wait(lambda: _routing(running).get("state") == "Ready", "a router that takes requests", SEES_SECONDS)
        yield running


def _routing(bench: Bench) -> dict[str, Any]:
    return dict((bench.view.get(ROUTED).get("status") or {}).get("routing") or {})


def _addresses(bench: Bench, label: str, name: str) -> list[str]:
    pods = [pod for pod in bench.view.all("pods") if pod["metadata"].get("labels", {}).get(label) == name]
    ready = [
        pod
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or [])
    ]
    return sorted(pod["status"]["podIP"] for pod in ready)


def _replicas(bench: Bench, name: str = ROUTED) -> list[str]:
    return _addresses(bench, "plimsoll.dev/deployment", name)


def _router(bench: Bench) -> str:
    [address] = _addresses(bench, "plimsoll.dev/router", ROUTED)
    return address


def _metric(address: str, name: str) -> float:
    with urllib.request.urlopen(f"http://{address}:{PORT}/metrics", timeout=20) as response:
        page = response.read().decode()
    return sum(float(value) for value in re.findall(rf"^{re.escape(name)}\{{[^}}]*\}} (\S+)$", page, re.MULTILINE))


def _hits(bench: Bench) -> float:
    return sum(_metric(address, "vllm:prefix_cache_hits_total") for address in _replicas(bench))


def _conversation(kind: str, number: int, turns: int) -> str:
    said = (f"{kind} {number} turn {turn}: ".ljust(TURN_BYTES, chr(97 + (number + turn) % 26)) for turn in range(turns))
    return "".join(said)


def _asked(address: str, prompt: str, tokens: int = 4) -> Answered:
    return ask(address, address, PORT, Question(ROUTED, prompt, tokens))


def test_a_router_finds_half_as_many_prefixes_again_as_round_robin(bench: Bench) -> None:
    first, second = _replicas(bench)
    found = {}
    for kind in ("by turns", "by prefix"):
        before = _hits(bench)
        for turns in (1, 2):
            for number in range(CONVERSATIONS):
                by_turns = (first, second)[(number // turns) % 2]  # half of the second turns go where the first went
                address = by_turns if kind == "by turns" else _router(bench)
                assert _asked(address, _conversation(kind, number, turns)).error == ""
        found[kind] = _hits(bench) - before
    log.info("prompt tokens found: %s", found)
    assert found["by prefix"] >= 1.5 * found["by turns"] > 0


class _Users:
    """Requests to one address at a steady rate, each once, with the outcome of each."""

    def __init__(self, address: str, model: str) -> None:
        self.address, self.model, self.answers = address, model, list[Answered]()
        self._ended, self._pool = threading.Event(), ThreadPoolExecutor(MOST_AT_ONCE)
        self._thread = threading.Thread(target=self._send_on)

    def _send_on(self) -> None:
        number = 0
        while not self._ended.wait(0.25):
            number += 1
            prompt = f"{self.model} {number} ".ljust(200, "x")
            self._pool.submit(self._one, Question(self.model, prompt, 24))

    def _one(self, question: Question) -> None:
        self.answers.append(ask(self.address, self.address, PORT, question))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._pool.shutdown()

    def go_on(self, answers: int) -> None:
        """Wait for so many answers more, good or bad."""
        wanted = len(self.answers) + answers
        wait_until(lambda: len(self.answers) >= wanted, SEES_SECONDS, f"{answers} more answers")

    def lost(self) -> Counter[str]:
        return Counter(answer.error for answer in self.answers if answer.error)


@contextmanager
def _users(bench: Bench) -> Iterator[tuple[_Users, _Users]]:
    """Users of the routed deployment, and of its neighbour."""
    [plain] = _replicas(bench, PLAIN)
    with _Users(_router(bench), ROUTED) as ours, _Users(plain, PLAIN) as theirs:
        ours.go_on(10)
        yield ours, theirs
    for users in (ours, theirs):
        log.info("%s: %d answers, lost %s", users.model, len(users.answers), users.lost())
    assert theirs.lost() == {}


def _kill(program: str, mark: str) -> None:
    """End the process of this program whose arguments have this mark, at once."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = file.read_bytes().split(b"\0")
            if words[0].endswith(f"/{program}".encode()) and any(mark.encode() in word for word in words):
                os.kill(int(file.parent.name), signal.SIGKILL)
                return
    raise AssertionError(f"no process {program}")


def test_a_picker_that_ends_costs_no_request(bench: Bench) -> None:
    with _users(bench) as (ours, _):
        _kill("epp", ROUTED)
        ours.go_on(60)
    assert ours.lost() == {}


def test_an_envoy_that_ends_costs_only_what_was_on_its_way_and_comes_again(bench: Bench) -> None:
    with _users(bench) as (ours, _):
        _kill("envoy", _router(bench))
        ours.go_on(40)
        lost = ours.lost().total()
        ours.go_on(40)
        assert ours.lost().total() == lost <= MOST_AT_ONCE, "it is there again"


def test_a_replica_that_goes_gets_nothing_new_and_loses_nothing(bench: Bench) -> None:
    replicas = _replicas(bench)
    with _users(bench) as (ours, _):
        bench.view.control_plane.kubectl("scale", "-n", bench.view.namespace, "infd", ROUTED, "--replicas=1")
        bench.wait(lambda: len(_replicas(bench)) == 1, "one replica less", SEES_SECONDS)
        [gone] = set(replicas) - set(_replicas(bench))
        ours.go_on(4)  # what had been picked before has arrived
        asked = _metric(gone, "vllm:prompt_tokens_total")
        ours.go_on(20)
        assert _metric(gone, "vllm:prompt_tokens_total") == asked
    assert ours.lost() == {}


def test_a_request_that_comes_at_zero_is_answered_after_the_start(bench: Bench) -> None:
    loop = {"mode": "Auto", "minReplicas": 0, "maxReplicas": 2, "idleSeconds": 30, **TIMING}
    bench.deploy(ROUTED, LLAMA, BLOCKS, replicas=1, routing=ROUTING, rebalancing=loop)
    bench.wait(lambda: _replicas(bench) == [], "no replica", SEES_SECONDS)
    assert _routing(bench)["state"] == "Ready"
    began = time.time()
    with ThreadPoolExecutor(3) as pool:
        held = list(pool.map(lambda number: _asked(_router(bench), f"held {number}"), range(3)))
    log.info("answered after %.0f s: %s", time.time() - began, [answer.error for answer in held])
    assert [answer.error for answer in held] == ["", "", ""]
    assert _asked(_replicas(bench, PLAIN)[0], "x").error != "", "the neighbour serves another model"
