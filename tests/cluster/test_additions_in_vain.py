"""Replicas that are added and never serve, on a real API server, scheduler and Prometheus, next to an honest neighbour.

Both deployments have the same load, which asks for one replica more. The new pods of one crash whenever they start.
The tests build on one another in the order of this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from testbed.api_client import ApiError
from testbed.background import BackgroundLoop
from testbed.kwok_config import CRASH_ANNOTATION, LOAD_TIME_ANNOTATION
from tests.support.hurried import MODULE, Wait, environment
from tests.support.live_loop import CAPACITY, L4_POOL, PRESSURE, TIMING, Bench, bench_of, engine_spec

pytestmark = [pytest.mark.cluster, pytest.mark.story]

HONEST, VAIN = "honest", "vain"
AUTO = {"mode": "Auto", "maxReplicas": 6, **TIMING}
WORDS = "ImportError: libcudart.so.13: cannot open shared object file"
STOPPED_WITHIN_SECONDS = 300.0
"""Two additions, each of which counts as stuck after a minute, on a machine that does much else."""


@dataclass
class Crasher:
    """Lets all new engines of one deployment crash before they are ready, and notes how many pods there are."""

    bench: Bench
    old: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    most: int = 0
    fewest_old: int = 1
    crashes: bool = True

    def look(self) -> None:
        pods = self.bench.view.pods(VAIN)
        names = [pod["metadata"]["name"] for pod in pods]
        self.most, self.seen = max(self.most, len(pods)), self.seen | {*names}
        self.fewest_old = min(self.fewest_old, len({*self.old} & {*names}))
        for pod in pods:
            if self.crashes and pod["metadata"]["name"] not in self.old:
                self._crash(pod)

    def _crash(self, pod: dict[str, Any]) -> None:
        if CRASH_ANNOTATION in pod["metadata"].get("annotations", {}):
            return
        try:
            patch = {"metadata": {"annotations": {CRASH_ANNOTATION: WORDS}}}
            self.bench.view.patch_object("pods", pod["metadata"]["name"], patch)
        except ApiError:
            return  # deleted meanwhile


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with bench_of("additions", environment(Wait.PAUSE, Wait.TRY), module=MODULE) as running:
        yield running


@pytest.fixture(scope="module")
def crasher(bench: Bench) -> Iterator[Crasher]:
    for name in (HONEST, VAIN):
        bench.add_nodes(name, L4=6)
        spec = engine_spec(name, AUTO)
        spec["podTemplate"]["annotations"][LOAD_TIME_ANNOTATION] = "4s"
        bench.view.apply(name, **spec)
    for name in (HONEST, VAIN):
        bench.view.wait_ready(name)
    found = Crasher(bench, [pod["metadata"]["name"] for pod in bench.view.pods(VAIN)])
    loop = BackgroundLoop("crasher", found.look, 0.2)
    loop.start()
    for name in (HONEST, VAIN):
        bench.load(name, kv_tokens=PRESSURE)
    yield found
    loop.stop()


def additions(bench: Bench, name: str) -> list[dict[str, Any]]:
    return [made for made in bench.rebalancing(name).get("changes") or () if made["kind"] == "Add"]


def test_two_additions_that_never_serve_are_taken_back_and_the_engine_s_words_are_said(
    bench: Bench, crasher: Crasher
) -> None:
    bench.view.wait(lambda: len(additions(bench, VAIN)) == 2, "a second addition", STOPPED_WITHIN_SECONDS)
    bench.operator.kill()
    bench.operator.start().wait_healthy()
    reported = bench.wait_reason(VAIN, "AdditionsDoNotServe", STOPPED_WITHIN_SECONDS)
    bench.wait_settled(VAIN, {L4_POOL: 1})
    assert [made["result"]["verdict"] for made in additions(bench, VAIN)] == ["DoesNotServe"] * 2
    assert additions(bench, VAIN)[-1]["result"]["inARow"] == 2
    assert [made["kind"] for made in bench.rebalancing(VAIN)["changes"]] == ["Add", "Add", "TakeBack", "TakeBack"]
    assert WORDS in reported["message"]
    assert (len(crasher.seen), crasher.fewest_old) == (3, 1), "two new ones, and the old one serves all along"


def test_the_neighbour_has_what_it_needs(bench: Bench, crasher: Crasher) -> None:
    assert crasher.old
    bench.wait_settled(HONEST, {L4_POOL: 2})
    [made] = additions(bench, HONEST)
    assert (made["calledBy"]["figure"], made["added"]) == ("kv_percent", 1)
    bench.view.wait(lambda: additions(bench, HONEST)[0]["result"]["verdict"] == "Helps", "the verdict", 120.0)


def test_the_next_try_after_the_pause_serves_once_the_cause_is_mended(bench: Bench, crasher: Crasher) -> None:
    crasher.crashes = False
    bench.wait_settled(VAIN, {L4_POOL: 2}, STOPPED_WITHIN_SECONDS)
    # More load before the verdict would look as if the addition had changed nothing.
    bench.view.wait(
        lambda: additions(bench, VAIN)[-1].get("result", {}).get("verdict") == "Helps", "the verdict", 120.0
    )
    bench.load(VAIN, kv_tokens=2.5 * CAPACITY)
    bench.wait_settled(VAIN, {L4_POOL: 3}, STOPPED_WITHIN_SECONDS)
