"""Other settings with which engines crash, on a real API server, scheduler and Prometheus: the old ones never stop.

Two deployments have the same load, of which their engines run too few requests at the same time. So the live loop gives
both a larger ``--max-num-seqs``. The tests build on one another in the order of this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from testbed.api_client import ApiError
from testbed.background import BackgroundLoop
from testbed.engine_pods import engine_words
from testbed.engine_queue import Stream
from testbed.kwok_config import CRASH_ANNOTATION, LOAD_TIME_ANNOTATION
from testbed.verdict import read_arguments
from tests.support.installed import condition
from tests.support.live_loop import L4_POOL, TIMING, Bench, bench_of, stays

pytestmark = [pytest.mark.cluster, pytest.mark.story]

HONEST, TUNED = "honest", "tuned"
REPLICAS = 2
AUTO = {"mode": "Auto", "minReplicas": REPLICAS, "maxReplicas": REPLICAS, **TIMING}
LENIENT = {"ttftMilliseconds": 600_000, "tpotMilliseconds": 60_000}
FULL = Stream(rate=14.0, prompt=60, output=100, first_token_seconds=0.02, token_seconds=0.012)
"""Such a request takes 1.2 s. Two engines with six at a time serve ten of them a second."""

DECLARED = 6
"""``--max-num-seqs`` as planned: so many requests of full length are in the cache."""

LAST_WORDS = "ValueError: max_num_seqs is larger than this build allows"
BROKEN = "ImportError: libbroken.so"
CHANGED_WITHIN_SECONDS = 90.0
TAKEN_BACK_WITHIN_SECONDS = 150.0
"""A replica may take 60 s: long enough to restart the operator in between on a machine that does much else."""


def sequences_of(pod: dict[str, Any]) -> int | None:
    return read_arguments(engine_words(pod)).max_num_seqs


def is_retuned(pod: dict[str, Any]) -> bool:
    return sequences_of(pod) != DECLARED


def is_broken(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["annotations"].get("library") == "broken")


def is_serving(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@dataclass
class Crasher:
    """Lets engines of one deployment crash before they are ready, and counts how many serve at least."""

    bench: Bench
    why: tuple[tuple[Callable[[dict[str, Any]], bool], str], ...] = ((is_retuned, LAST_WORDS), (is_broken, BROKEN))
    serving: list[int] = field(default_factory=list)

    def look(self) -> None:
        """Crash those that have not crashed yet. They load for a few seconds, so none of them is ready before."""
        pods = self.bench.view.pods(TUNED)
        self.serving.append(sum(map(is_serving, pods)))
        for pod in pods:
            words = next((words for applies, words in self.why if applies(pod)), None)
            if words is not None and CRASH_ANNOTATION not in pod["metadata"]["annotations"]:
                self._crash(pod["metadata"]["name"], words)

    def _crash(self, name: str, words: str) -> None:
        try:
            self.bench.view.patch_object("pods", name, {"metadata": {"annotations": {CRASH_ANNOTATION: words}}})
        except ApiError:
            return  # deleted meanwhile


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with bench_of("retunes", {"PLIMSOLL_MOVE_SECONDS": "60"}) as running:
        yield running


@pytest.fixture(scope="module")
def crasher(bench: Bench) -> Iterator[Crasher]:
    found = Crasher(bench)
    loop = BackgroundLoop("crasher", found.look, 0.2)
    for name in (HONEST, TUNED):
        deploy(bench, name)
    for name in (HONEST, TUNED):
        bench.view.wait_ready(name)
    loop.start()
    yield found
    loop.stop()


def deploy(bench: Bench, name: str) -> None:
    """Two replicas of a small model on three GPUs of their own, whose engines may use little of their memory."""
    bench.add_nodes(name, L4=REPLICAS + 1)
    bench.view.apply(
        name,
        model={"name": "Qwen/Qwen2.5-0.5B-Instruct"},
        contextLength=32_768,
        concurrency=2,
        replicas=REPLICAS,
        gpu={"maxPerReplica": 1},
        engine={"gpuMemoryUtilizationPercent": 20},
        slo=LENIENT,
        podTemplate={"nodeSelector": {"bench": name}, "annotations": {LOAD_TIME_ANNOTATION: "4s"}},
        rebalancing=AUTO,
    )


def status(bench: Bench, name: str = TUNED) -> dict[str, Any]:
    return dict(bench.view.get(name).get("status") or {})


def sequences(bench: Bench, name: str) -> set[int | None]:
    """The limits of all engines that serve."""
    return {sequences_of(pod) for pod in bench.view.pods(name) if is_serving(pod)}


def kinds(bench: Bench, name: str) -> list[str]:
    return [made["kind"] for made in bench.rebalancing(name).get("changes") or ()]


@dataclass(frozen=True, slots=True)
class Begun:
    """The pods of the deployment before the change, and the change in its status."""

    old: list[str]
    clock: dict[str, Any]


@pytest.fixture(scope="module")
def begun(bench: Bench, crasher: Crasher) -> Begun:
    assert sequences(bench, TUNED) == sequences(bench, HONEST) == {DECLARED}
    old = bench.view.pod_uids(TUNED)
    crasher.serving.clear()
    for name in (HONEST, TUNED):
        bench.stream(name, FULL)
    bench.view.wait(lambda: status(bench).get("retune"), "a change of settings", CHANGED_WITHIN_SECONDS)
    return Begun(old, status(bench)["retune"])


def test_a_killed_operator_keeps_the_clock_and_the_old_engines_serve_meanwhile(begun: Begun, bench: Bench) -> None:
    bench.operator.kill()
    bench.operator.start().wait_healthy()
    assert status(bench)["retune"] == begun.clock
    [before] = begun.clock["pools"]
    assert (before["name"], before["maxSequences"]) == (L4_POOL, DECLARED)
    assert set(begun.old) <= set(bench.view.pod_uids(TUNED))


def test_until_then_it_is_said_that_the_change_will_be_taken_back(begun: Begun, bench: Bench) -> None:
    body = bench.view.wait_condition(TUNED, "Available", "True", "EngineCrashed")
    said = condition(body, "Available")["message"]
    assert said.startswith("Engines with the settings of the live loop's last change have not come up since 20")
    assert f"{LAST_WORDS}). 2 of 2 replicas serve. The change is taken back at {begun.clock['dueAt']}" in said
    assert condition(body, "Stalled") == {}


def test_the_change_is_taken_back_in_time_with_the_engine_s_own_words(
    begun: Begun, bench: Bench, crasher: Crasher
) -> None:
    bench.view.wait(lambda: status(bench).get("failedMoves"), "the roll-back", TAKEN_BACK_WITHIN_SECONDS)
    [failed] = status(bench)["failedMoves"]
    assert (failed["gpuType"], failed["times"], failed["reason"]) == ("l4-24gb", 1, "EngineCrashed")
    assert (failed["message"], failed["maxSequences"] > DECLARED) == (LAST_WORDS, True)
    due, at = (datetime.fromisoformat(text) for text in (begun.clock["dueAt"], failed["at"]))
    assert 0 <= (at - due).total_seconds() < 60
    bench.wait_settled(TUNED, {L4_POOL: REPLICAS})
    assert bench.view.pod_uids(TUNED) == begun.old, "the engines that serve were never replaced"
    assert min(crasher.serving) == REPLICAS, "there were never fewer"
    assert "retune" not in status(bench)


def test_it_is_reported_in_an_event_and_in_the_conditions(begun: Begun, bench: Bench) -> None:
    assert begun.old
    bench.view.wait(
        lambda: [each for each in bench.view.all("events") if each["reason"] == "RetuneRolledBack"], "the event"
    )
    [event] = [each for each in bench.view.all("events") if each["reason"] == "RetuneRolledBack"]
    assert (event["regarding"]["name"], event["type"]) == (TUNED, "Warning")
    assert LAST_WORDS in event["note"]
    body = bench.view.wait_ready(TUNED)
    assert "A change of l4-24gb x 1 to --max-num-seqs " in condition(body, "Planned")["message"]


def test_the_neighbour_s_engines_came_up_and_keep_the_new_settings(begun: Begun, bench: Bench) -> None:
    assert begun.old
    bench.wait_settled(HONEST, {L4_POOL: REPLICAS}, TAKEN_BACK_WITHIN_SECONDS)
    [limit] = sequences(bench, HONEST)
    assert (limit or 0) > DECLARED
    assert {"retune", "failedMoves"}.isdisjoint(status(bench, HONEST))
    assert kinds(bench, HONEST) == ["Retune"]


def test_nothing_is_tried_again_in_the_pause_and_the_load_asks_for_replicas_instead(begun: Begun, bench: Bench) -> None:
    bench.wait_reason(TUNED, "AtMaxReplicas", TAKEN_BACK_WITHIN_SECONDS)
    stays(lambda: "retune" not in status(bench), 3 * TIMING["cooldownSeconds"], "a change in the pause")
    assert kinds(bench, TUNED) == ["Retune", "RollBack"]
    assert bench.view.pod_uids(TUNED) == begun.old


def test_a_user_s_change_that_does_not_come_up_is_named_and_not_undone(begun: Begun, bench: Bench) -> None:
    bench.view.patch(TUNED, {"podTemplate": {"annotations": {"library": "broken"}}})
    body = bench.view.wait_condition(TUNED, "Stalled", "True", "EngineCrashed")
    available = condition(body, "Available")
    assert (available["status"], available["reason"]) == ("True", "EngineCrashed")
    [pod] = [pod for pod in bench.view.pods(TUNED) if is_broken(pod)]
    [bound] = [each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled"]
    assert available["message"] == (
        f"Replicas with the last change have not come up since {bound['lastTransitionTime']} (pool {L4_POOL} on "
        f"node {pod['spec']['nodeName']}, CrashLoopBackOff, 1 restart: {BROKEN}). 2 of 2 replicas serve. The change is "
        "not taken back by itself. What helps: read the log of the pod."
    )
    stays(lambda: set(begun.old) <= set(bench.view.pod_uids(TUNED)), 30.0, "an engine that serves ended")
    assert [is_broken(pod) for pod in bench.view.pods(TUNED)].count(True) == 1, "the user's wish stands"
    assert "failedMoves" not in status(bench), "another template forgets the failure"


def test_a_mended_template_comes_up(bench: Bench, crasher: Crasher, begun: Begun) -> None:
    crasher.why = ()
    bench.view.patch(TUNED, {"podTemplate": {"annotations": {"library": "mended"}}})
    bench.view.wait(lambda: set(begun.old).isdisjoint(bench.view.pod_uids(TUNED)), "new engines", 60.0)
    bench.view.wait_ready(TUNED, TAKEN_BACK_WITHIN_SECONDS)
    assert min(crasher.serving) == REPLICAS
