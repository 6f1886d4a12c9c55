"""A move whose new engine crashes, on a real API server, scheduler and Prometheus: the old engine never stops serving.

The tests build on one another in the order of this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from testbed.api_client import ApiError
from testbed.background import BackgroundLoop
from testbed.engine_pods import CAPACITY_ANNOTATION
from testbed.kwok_config import CRASH_ANNOTATION, LOAD_TIME_ANNOTATION
from tests.support.installed import condition
from tests.support.live_loop import CAPACITY, L4_POOL, L40S_POOL, TIMING, Bench, bench_of, changes

pytestmark = [pytest.mark.cluster, pytest.mark.story]

AUTO = {"mode": "Auto", "maxReplicas": 2, **TIMING}
LAST_WORDS = "RuntimeError: the driver of this node is too old"
TAKEN_BACK_WITHIN_SECONDS = 90.0
"""A small model's move may take 24 s: three times as long as a download of its weights."""


@dataclass
class Crasher:
    """Lets every engine of one deployment on L40S crash while ``on``."""

    bench: Bench
    on: bool = True

    def crash_once(self) -> None:
        """Crash those that have not crashed yet. They load for a few seconds, so none of them is ready before."""
        for pod in self.bench.view.pods("moved") if self.on else ():
            head = pod["metadata"]
            if L40S_POOL in head["name"] and CRASH_ANNOTATION not in head["annotations"]:
                self._crash(head["name"])

    def _crash(self, name: str) -> None:
        annotations = {"metadata": {"annotations": {CRASH_ANNOTATION: LAST_WORDS}}}
        try:
            self.bench.view.patch_object("pods", name, annotations)
        except ApiError:
            return  # deleted meanwhile


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with bench_of("rollback", {"PLIMSOLL_MOVE_SECONDS": "10"}) as running:
        yield running


@pytest.fixture(scope="module")
def crasher(bench: Bench) -> Iterator[Crasher]:
    found = Crasher(bench)
    loop = BackgroundLoop("crasher", found.crash_once, 0.2)
    loop.start()
    yield found
    loop.stop()


def deploy(bench: Bench, name: str, *, tokens_on_l4: int) -> None:
    """A small model on nodes of its own, whose engines get so much KV cache on an L4."""
    annotations = {
        CAPACITY_ANNOTATION: str(CAPACITY),
        f"{CAPACITY_ANNOTATION}.{L4_POOL}": str(tokens_on_l4),
        LOAD_TIME_ANNOTATION: "4s",
    }
    bench.add_nodes(name, L4=1, L40S=1)
    bench.view.apply(
        name,
        model={"name": "Qwen/Qwen2.5-0.5B-Instruct"},
        contextLength=16_384,
        concurrency=16,
        expectedTokens={"prompt": 1500, "output": 500},
        gpu={"maxPerReplica": 1},
        podTemplate={"nodeSelector": {"bench": name}, "annotations": annotations},
        rebalancing=AUTO,
    )


def status(bench: Bench) -> dict[str, Any]:
    return dict(bench.view.get("moved").get("status") or {})


@dataclass(frozen=True, slots=True)
class Begun:
    """The pods of both deployments before the move, the audit log's end then, and the move's clock."""

    honest: list[str]
    old: list[str]
    since: int
    clock: dict[str, Any]


@pytest.fixture(scope="module")
def begun(bench: Bench, crasher: Crasher) -> Begun:
    assert crasher.on
    deploy(bench, "honest", tokens_on_l4=CAPACITY)
    bench.view.wait_ready("honest")
    honest, since = bench.view.pod_uids("honest"), bench.now()
    deploy(bench, "moved", tokens_on_l4=30_000)
    bench.view.wait(lambda: len(bench.view.pods("moved")) == 2, "a pod on each GPU type")
    old = [pod["metadata"]["uid"] for pod in bench.view.pods("moved") if L4_POOL in pod["metadata"]["name"]]
    bench.view.wait(lambda: status(bench).get("move"), "the clock of the move")
    return Begun(honest, old, since, status(bench)["move"])


def test_a_killed_operator_keeps_the_clock_and_the_old_engine_serves_meanwhile(begun: Begun, bench: Bench) -> None:
    bench.operator.kill()
    bench.operator.start().wait_healthy()
    assert status(bench)["move"] == begun.clock
    assert begun.clock["pools"] == [L40S_POOL]
    assert bench.replicas("moved") == {L4_POOL: 1, L40S_POOL: 0}


def test_the_move_is_taken_back_in_time_with_the_engine_s_own_words(begun: Begun, bench: Bench) -> None:
    bench.view.wait(lambda: status(bench).get("failedMoves"), "the roll-back", TAKEN_BACK_WITHIN_SECONDS)
    [failed] = status(bench)["failedMoves"]
    assert (failed["gpuType"], failed["times"], failed["reason"]) == ("l40s-48gb", 1, "EngineCrashed")
    assert failed["message"] == LAST_WORDS
    due, at = (datetime.fromisoformat(text) for text in (begun.clock["dueAt"], failed["at"]))
    assert 0 <= (at - due).total_seconds() < 30
    bench.wait_settled("moved", {L4_POOL: 1})
    assert bench.view.pod_uids("moved") == begun.old, "the engine that serves was never replaced"
    assert bench.view.workloads("moved") == [f"moved-{L4_POOL}"]
    assert "move" not in status(bench)


def test_it_is_told_in_an_event_and_in_the_condition(begun: Begun, bench: Bench) -> None:
    assert begun.old
    bench.view.wait(
        lambda: [each for each in bench.view.all("events") if each["reason"] == "MoveRolledBack"], "the event"
    )
    [event] = [each for each in bench.view.all("events") if each["reason"] == "MoveRolledBack"]
    assert (event["regarding"]["name"], event["type"]) == ("moved", "Warning")
    assert LAST_WORDS in event["note"]
    planned = condition(bench.view.get("moved"), "Planned")
    assert "A move to l40s-48gb x 1 was taken back at " in planned["message"]
    assert condition(bench.view.get("moved"), "Available")["status"] == "True"


def test_the_place_is_refused_and_nothing_moves_again(begun: Begun, bench: Bench) -> None:
    reported = bench.wait_reason("moved", "NoPlaceFound")
    assert "l40s-48gb x 1 fits, but a move there did not come up in time (EngineCrashed) at " in reported["message"]
    assert [made["kind"] for made in reported["changes"]] == ["Move", "RollBack"]
    assert bench.view.pod_uids("moved") == begun.old


def test_a_mended_template_forgets_it_and_the_next_move_comes_up(bench: Bench, crasher: Crasher) -> None:
    crasher.on = False
    bench.view.patch("moved", {"podTemplate": {"annotations": {"driver": "new"}}})
    bench.wait_settled("moved", {L40S_POOL: 1}, TAKEN_BACK_WITHIN_SECONDS)
    assert {"move", "failedMoves"}.isdisjoint(status(bench))


def test_the_neighbour_was_left_alone_all_the_time(begun: Begun, bench: Bench) -> None:
    assert bench.view.pod_uids("honest") == begun.honest
    assert changes(bench.writes(begun.since, "honest")) == []
