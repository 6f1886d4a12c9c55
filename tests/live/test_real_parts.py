"""Does it all work together? Real engines as pods, real metrics, and users who notice a lost request.

The tests build on one another in the order of this file.
"""

from __future__ import annotations

import logging
import time

import pytest

from testbed.audit import AuditLog
from testbed.engine.cpu_command import CPU_BLOCK_TOKENS
from testbed.kubelet.addresses import served_at
from testbed.operator_process import USER
from testbed.traffic.completion import Question, ask
from testbed.traffic.endpoints import Endpoints
from testbed.traffic.traffic import Traffic
from tests.live.bench import KV_BLOCKS, LIGHT, NODE, OVERLOAD, POOL, START_SECONDS, TIMING, Bench
from tests.live.conftest import FIRST, NEIGHBOUR
from tests.support.installed import condition
from tests.support.live_loop import changes, stays

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

SEES_SECONDS = 60.0
"""For a change of the load to be seen and decided: several windows, on a machine that is busy."""

GOES_SECONDS = 240.0
"""For a superfluous replica to be decided on, to be left by its users, and to end."""

BLIND_SECONDS = 3.0 * TIMING["windowSeconds"]
"""Under overload and with metrics, a replica is added within one window and a bit."""

log = logging.getLogger(__name__)


def test_a_real_engine_serves_where_the_operator_placed_it(bench: Bench) -> None:
    body = bench.wait_ready(FIRST)
    assert condition(body, "Available")["message"] == "1 of 1 replicas serve."
    assert bench.view.nodes_of(FIRST) == [NODE]

    where = Endpoints(bench.view.control_plane.client, bench.view.namespace, FIRST)
    where.refresh()
    [endpoint] = where.now()
    answered = ask(endpoint.pod, served_at(endpoint.address), endpoint.port, Question(FIRST, "The load line", 16))
    assert (answered.error, answered.tokens) == ("", 16)


def test_the_status_shows_the_kv_cache_that_the_engine_really_has(bench: Bench) -> None:
    def reported() -> dict[str, int]:
        [pool] = bench.view.pools(FIRST)
        return dict(pool) if "kvTokensReported" in pool else {}

    pool = bench.wait(reported, "the engine's own KV capacity in the status", SEES_SECONDS)
    assert pool["name"] == POOL
    assert pool["kvTokensReported"] == KV_BLOCKS * CPU_BLOCK_TOKENS
    assert pool["kvTokensPredicted"] == pytest.approx(pool["kvTokensReported"], rel=0.02)


def test_sustained_overload_brings_a_replica_that_takes_traffic(
    bench: Bench, users: Traffic, neighbours: Traffic
) -> None:
    began = time.time()
    [old] = bench.ready_pods(FIRST)
    users.set(OVERLOAD)
    bench.wait(lambda: bench.rebalancing(FIRST).get("targetReplicas") == 2, "another replica wanted", SEES_SECONDS)
    log.info("another replica wanted after %.0f s", time.time() - began)
    bench.wait(lambda: len(bench.ready_pods(FIRST)) == 2, "two replicas that serve", START_SECONDS)
    log.info("two replicas serve after %.0f s", time.time() - began)
    [new] = set(bench.ready_pods(FIRST)) - {old}
    bench.wait(lambda: users.tally.by_pod()[new] >= 5, "answers of the new replica", SEES_SECONDS)
    log.info("%s: %s", FIRST, users.tally.line(began))
    assert users.tally.lost(began) == []
    assert neighbours.tally.lost(began) == []


def test_the_replica_goes_when_the_load_falls_and_no_request_is_lost(
    bench: Bench, users: Traffic, neighbours: Traffic
) -> None:
    began = time.time()
    users.set(LIGHT)
    bench.wait(lambda: len(bench.view.all("pods", FIRST)) == 1, "one pod, and none that ends", GOES_SECONDS)
    log.info("one replica after %.0f s; %s", time.time() - began, users.tally.line(began))
    assert bench.rebalancing(FIRST)["targetReplicas"] == 1
    for traffic in (users, neighbours):
        assert traffic.tally.served(began) > 0
        assert traffic.tally.lost() == []


def test_without_prometheus_nothing_moves_and_the_status_says_why(
    bench: Bench, users: Traffic, neighbours: Traffic
) -> None:
    bench.prometheus.kill()
    for name in (FIRST, NEIGHBOUR):
        bench.wait(lambda name=name: _reason(bench, name) == "MetricsUnavailable", f"{name} says why", SEES_SECONDS)
    since, began = AuditLog(bench.view.control_plane.audit_log).offset(), time.time()
    pods = bench.view.pod_uids(FIRST)

    users.set(OVERLOAD)
    stays(lambda: bench.rebalancing(FIRST)["targetReplicas"] == 1, BLIND_SECONDS, "decided without metrics")
    assert "Prometheus" in bench.rebalancing(FIRST)["message"]
    assert condition(bench.view.get(FIRST), "Ready")["status"] == "True"
    assert changes(AuditLog(bench.view.control_plane.audit_log).events(since, user=USER)) == []
    assert bench.view.pod_uids(FIRST) == pods
    log.info("%s: %s", FIRST, users.tally.line(began))
    log.info("%s: %s", NEIGHBOUR, neighbours.tally.line(began))
    assert neighbours.tally.served(began) > BLIND_SECONDS / 4
    for traffic in (users, neighbours):
        assert traffic.tally.lost(began) == []


def test_with_prometheus_again_the_same_overload_brings_a_replica(bench: Bench, users: Traffic) -> None:
    bench.prometheus.start()
    users.set(OVERLOAD)
    bench.wait(lambda: bench.rebalancing(FIRST).get("targetReplicas") == 2, "another replica wanted", SEES_SECONDS)
    assert len(bench.view.pods(NEIGHBOUR)) == 1


def _reason(bench: Bench, name: str) -> str:
    return str(bench.rebalancing(name).get("reason"))
