"""A slow replica on a real API server, scheduler and controllers: it is named, replaced on another node, and gone.

Its node is left until the deployment has no other room.

Its engines are played, and one of them takes six times as long as the model says. A neighbour has the same requests
and no slow replica. :mod:`tests.support.hurried` lets seconds count as the minutes for which a replica is slow, and a
new one is watched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from testbed.audit import AuditLog
from testbed.engine_queue import Stream
from testbed.fleet import gpu_node
from tests.support.hurried import MODULE, Wait, environment
from tests.support.installed import add_known_nodes
from tests.support.live_loop import L4_POOL, Bench, bench_of, changes

pytestmark = pytest.mark.cluster

AUTO = {"mode": "Auto", "minReplicas": 2, "maxReplicas": 4, "windowSeconds": 30, "cooldownSeconds": 3600}
REPLICAS, NODES, FACTOR = 3, 4, 6.0
LIGHT = Stream(rate=0.6 * REPLICAS, prompt=1500, output=100, first_token_seconds=0.35, token_seconds=0.073)
"""What three L4 carry with ease, played as the performance model says: see ``test_live_decisions.py``."""

NAMING_SECONDS, REPLACING_SECONDS = 150.0, 150.0


@dataclass(frozen=True, slots=True)
class Slow:
    """The bench after a replica got slow: its pod, its node, and who served before."""

    bench: Bench
    pod: str
    node: str
    before: frozenset[str]
    neighbours: tuple[str, ...]
    since: int


@pytest.fixture(scope="module")
def slow() -> Iterator[Slow]:
    with bench_of("slow", environment(Wait.SLOWNESS, Wait.PROOF), module=MODULE) as bench:
        plane = bench.view.control_plane
        for name in ("hurt", "healthy"):
            nodes = [gpu_node(f"{name}-{number}", "L4", 1, labels={"bench": name}) for number in range(NODES)]
            add_known_nodes(bench.operator, plane, nodes)
            bench.deploy(name, AUTO, replicas=REPLICAS)
        for name in ("hurt", "healthy"):
            bench.view.wait_ready(name)
            bench.stream(name, LIGHT)
        bench.wait_reasons({"hurt": "WithinBand", "healthy": "WithinBand"}, NAMING_SECONDS)
        [pod, *_] = bench.engines.ready("slow/hurt")
        before, neighbours = frozenset(bench.engines.ready("slow/hurt")), tuple(bench.view.pod_uids("healthy"))
        since = bench.now()
        bench.engines.slow_down(pod, FACTOR)
        yield Slow(bench, pod, _nodes(bench)[pod], before, neighbours, since)


def _nodes(bench: Bench) -> dict[str, str]:
    return {body["metadata"]["name"]: str(body["spec"].get("nodeName")) for body in bench.view.pods("hurt")}


def _reported(bench: Bench) -> dict[str, Any]:
    return bench.rebalancing("hurt")


def test_it_is_named_with_its_node_and_figures_and_a_new_one_starts_elsewhere(slow: Slow) -> None:
    bench = slow.bench
    bench.view.wait(lambda: _reported(bench).get("replacing"), "a replacement", NAMING_SECONDS)
    reported = _reported(bench)
    assert (reported["replacing"]["pod"], reported["replacing"]["node"]) == (slow.pod, slow.node)
    assert reported["diagnosis"] == "ReplicaSlow"
    assert f"Pod {slow.pod} is slow on node {slow.node}: a token takes " in reported["lastChange"]
    assert reported["targetReplicas"] == REPLICAS
    bench.view.wait(lambda: len(_nodes(bench)) == REPLICAS + 1, "one more pod", REPLACING_SECONDS)


def test_it_goes_once_the_new_one_has_proved_better_and_a_neighbour_keeps_its_pods(slow: Slow) -> None:
    bench = slow.bench
    bench.view.wait(lambda: slow.pod not in _nodes(bench), f"the end of {slow.pod}", REPLACING_SECONDS)
    bench.wait_settled("hurt", {L4_POOL: REPLICAS}, REPLACING_SECONDS)
    assert slow.node not in _nodes(bench).values()
    assert slow.before - {slow.pod} < _nodes(bench).keys(), "its siblings keep their pods"
    bench.wait_reason("hurt", "WithinBand", REPLACING_SECONDS)
    assert [made["kind"] for made in _reported(bench)["changes"]] == ["Replace"]
    assert tuple(bench.view.pod_uids("healthy")) == slow.neighbours
    assert changes(bench.writes(slow.since, "healthy")) == []
    evicted = [each for each in bench.writes(slow.since) if each.resource == "pods/eviction"]
    assert [each.name for each in evicted] == [slow.pod]


def test_no_more_than_one_pod_more_was_wanted_and_none_is_left_over(slow: Slow) -> None:
    log = AuditLog(slow.bench.view.control_plane.audit_log).events(slow.since)
    asked = [
        event.body["spec"]["replicas"]
        for event in log
        if event.resource == "deployments" and "hurt" in event.name and event.verb == "patch"
    ]
    assert max(asked) == REPLICAS + 1
    assert asked[-1] == REPLICAS


def test_its_node_is_left_until_no_other_has_room_and_events_name_it_both_times(slow: Slow) -> None:
    bench = slow.bench
    [left] = bench.view.get("hurt")["status"]["rehomings"]
    assert (left["node"], left["reason"]) == (slow.node, "ReplicaSlow")
    [note] = _notes(bench, "RebalancedReplaceReplica")
    assert f"Replicas are added on node {slow.node} before 20" in note
    assert note.endswith(" only if no other has room.")
    assert any(slow.node in hint for hint in _reported(bench)["hints"])
    assert _notes(bench, "NodeUsedAgain") == []
    bench.view.patch("hurt", {"replicas": NODES})
    bench.wait_settled("hurt", {L4_POOL: NODES}, REPLACING_SECONDS)
    assert slow.node in _nodes(bench).values()
    [used] = bench.view.get("hurt")["status"]["rehomings"]
    assert used == left | {"usedAgain": True}
    bench.view.wait(lambda: _notes(bench, "NodeUsedAgain"), "an event", REPLACING_SECONDS)
    [note] = _notes(bench, "NodeUsedAgain")
    assert slow.node in note
    assert note.endswith("no other node has room.")
    assert tuple(bench.view.pod_uids("healthy")) == slow.neighbours
    assert changes(bench.writes(slow.since, "healthy")) == []


def _notes(bench: Bench, reason: str) -> list[str]:
    found = (body for body in bench.view.all("events") if body["regarding"]["name"] == "hurt")
    return [str(body["note"]) for body in found if body["reason"] == reason]
