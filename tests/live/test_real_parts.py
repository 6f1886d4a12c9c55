"""Does it all work together? Real engines as pods, real metrics, and users who notice a lost request.

The tests build on one another in the order of this file.
"""

from __future__ import annotations

import logging
import time

import pytest

from testbed.audit import AuditLog
from testbed.engine.cpu_command import CPU_BLOCK_TOKENS
from testbed.faults import Fault, Hang, Truncate
from testbed.kubelet.addresses import served_at
from testbed.traffic.completion import Question, ask
from testbed.traffic.endpoints import Endpoints
from testbed.traffic.traffic import Traffic
from tests.live.bench import (
    L4_NODE,
    L4_POOL,
    L40S_NODE,
    LLAMA_BLOCKS,
    OVERLOAD,
    SHORT,
    START_SECONDS,
    TIMING,
    Bench,
)
from tests.live.conftest import FIRST, NEIGHBOUR
from tests.support.installed import condition, operator_writes
from tests.support.live_loop import changes, stays

pytestmark = [pytest.mark.live, pytest.mark.story, pytest.mark.timeout(3600)]

SEES_SECONDS = 600.0
"""For a change of the load to be seen and decided, which takes a window or two; only what hangs takes so long."""

GOES_SECONDS = 1200.0
"""For a superfluous replica to be decided on, to be left by its users, and to end, likewise. The live loop looks at the
last two minutes of answers to know that requests are shorter now."""

BLIND_SECONDS = 1.5 * TIMING["windowSeconds"]
"""The same overload makes the loop want a replica after 10 to 11 s where it has metrics."""

ENOUGH_ANSWERS = 3

log = logging.getLogger(__name__)


def test_a_real_engine_serves_where_the_operator_placed_it(bench: Bench) -> None:
    body = bench.wait_ready(FIRST)
    assert condition(body, "Available")["message"] == "1 of 1 replica serves."
    assert bench.view.nodes_of(FIRST) == [L4_NODE]

    where = Endpoints(bench.view.control_plane.client, bench.view.namespace, FIRST)
    where.refresh()
    [endpoint] = where.now()
    answered = ask(endpoint.pod, served_at(endpoint.address), endpoint.port, Question(FIRST, "The load line", 16))
    assert (answered.error, answered.tokens) == ("", 16)


def test_the_status_shows_the_kv_cache_that_the_engine_really_has(bench: Bench) -> None:
    pool = bench.wait(lambda: bench.reported_pool(FIRST), "the engine's own KV capacity", SEES_SECONDS)
    assert pool["name"] == L4_POOL
    assert pool["kvTokensReported"] == LLAMA_BLOCKS[L4_POOL] * CPU_BLOCK_TOKENS
    assert pool["kvTokensPredicted"] == pytest.approx(pool["kvTokensReported"], rel=0.02)


@pytest.mark.short
def test_an_engine_with_too_little_kv_cache_is_moved_while_its_users_go_on(bench: Bench, neighbours: Traffic) -> None:
    began = time.time()
    [new] = bench.wait(lambda: _ready_on(bench, L40S_NODE), f"{NEIGHBOUR} ready on {L40S_NODE}", START_SECONDS)
    bench.wait(lambda: neighbours.tally.by_pod()[new] > 0, "answers of the new place", SEES_SECONDS)
    log.info("moved after %.0f s; %s: %s", time.time() - began, NEIGHBOUR, neighbours.tally.line())
    # Said of the cache that the engine got, or of the memory that this makes known, whichever is seen first.
    assert "Another placement is needed" in bench.rebalancing(NEIGHBOUR)["lastChange"]
    assert len(neighbours.tally.by_pod()) == 2
    assert neighbours.tally.lost() == []


def _has_moved(bench: Bench) -> bool:
    return len(bench.view.all("pods", NEIGHBOUR)) == len(bench.view.workloads(NEIGHBOUR)) == 1


def _ready_on(bench: Bench, node: str) -> list[str]:
    """Names of the neighbour's ready pods on a node."""
    ready = bench.ready_pods(NEIGHBOUR)
    pods = bench.view.all("pods", NEIGHBOUR)
    return [name for pod in pods if (name := pod["metadata"]["name"]) in ready and pod["spec"]["nodeName"] == node]


@pytest.mark.parametrize(
    ("fault", "words"),
    [(Truncate(), "Prometheus did not answer with JSON"), (Hang(), "Prometheus did not answer within 5 s")],
    ids=["half a sentence", "no answer"],
)
def test_the_status_says_what_is_wrong_with_prometheus(bench: Bench, fault: Fault, words: str) -> None:
    with bench.between.fault(fault):
        bench.wait(lambda: bench.is_blind(FIRST), "the status says why", SEES_SECONDS)
        assert words in _message(bench)
    bench.wait(lambda: not bench.is_blind(FIRST), "the status says something else", SEES_SECONDS)


def test_without_prometheus_nothing_moves_under_overload_and_both_serve(
    bench: Bench, users: Traffic, neighbours: Traffic
) -> None:
    bench.wait(lambda: _has_moved(bench), "the end of the move", GOES_SECONDS)
    bench.prometheus.kill()
    for name in (FIRST, NEIGHBOUR):
        bench.wait(lambda name=name: bench.is_blind(name), f"{name} says why", SEES_SECONDS)
    since, began = AuditLog(bench.view.control_plane.audit_log).offset(), time.time()
    pods = bench.view.pod_uids(FIRST)
    users.set(OVERLOAD)
    _nothing_is_decided(bench)

    hangs = bench.between.add(Hang())
    bench.prometheus.start()  # from now on there is a window full of overload to be read
    _nothing_is_decided(bench)
    garbles = bench.between.add(Truncate())
    bench.between.remove(hangs)
    bench.wait(lambda: garbles.hits >= ENOUGH_ANSWERS, "several answers in half sentences", SEES_SECONDS)
    assert (bench.is_blind(FIRST), hangs.hits > 0) == (True, True)

    assert changes(operator_writes(bench.view.control_plane, since)) == []
    assert (bench.view.pod_uids(FIRST), bench.rebalancing(FIRST)["targetReplicas"]) == (pods, 1)
    assert condition(bench.view.get(FIRST), "Ready")["status"] == "True"
    for name, traffic in ((FIRST, users), (NEIGHBOUR, neighbours)):
        log.info("%s: %s", name, traffic.tally.line(began))
        assert traffic.tally.served(began) > 0


@pytest.mark.short
def test_with_prometheus_again_the_overload_brings_a_replica_that_takes_traffic(
    bench: Bench, users: Traffic, neighbours: Traffic
) -> None:
    began = time.time()
    [old] = bench.ready_pods(FIRST)
    users.set(OVERLOAD)
    bench.between.clear()
    bench.wait(lambda: bench.rebalancing(FIRST).get("targetReplicas") == 2, "another replica wanted", SEES_SECONDS)
    log.info("another replica wanted after %.0f s", time.time() - began)
    bench.wait(lambda: len(bench.ready_pods(FIRST)) == 2, "two replicas that serve", START_SECONDS)
    log.info("two replicas serve after %.0f s", time.time() - began)
    [new] = set(bench.ready_pods(FIRST)) - {old}
    bench.wait(lambda: users.tally.by_pod()[new] >= 5, "answers of the new replica", SEES_SECONDS)
    log.info("%s: %s", FIRST, users.tally.line(began))
    assert users.tally.lost(began) == []
    assert neighbours.tally.lost(began) == []


def test_the_replica_goes_when_the_load_falls(bench: Bench, users: Traffic) -> None:
    began = time.time()
    users.set(SHORT)
    bench.wait(lambda: len(bench.view.pods(FIRST)) == 1, "one pod that stays", GOES_SECONDS)
    log.info("one replica that stays after %.0f s; %s", time.time() - began, users.tally.line(began))
    assert bench.rebalancing(FIRST)["targetReplicas"] == 1


def test_a_move_and_a_removal_have_ended_and_no_request_was_lost(
    bench: Bench, users: Traffic, neighbours: Traffic
) -> None:
    for name, node in ((FIRST, L4_NODE), (NEIGHBOUR, L40S_NODE)):
        bench.wait(lambda name=name: len(bench.view.all("pods", name)) == 1, f"one pod of {name}", GOES_SECONDS)
        assert bench.view.nodes_of(name) == [node]
    for traffic in (users, neighbours):
        assert traffic.tally.served() > 0
        assert traffic.tally.lost() == []


def _nothing_is_decided(bench: Bench) -> None:
    """For longer than it took to decide on the same overload while Prometheus answered."""

    def holds() -> bool:
        return bench.is_blind(FIRST) and bench.rebalancing(FIRST)["targetReplicas"] == 1

    stays(holds, BLIND_SECONDS, "something was decided without metrics")


def _message(bench: Bench) -> str:
    return str(bench.rebalancing(FIRST).get("message"))
