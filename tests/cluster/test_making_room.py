"""Room at others on a real API server, scheduler and controllers: approved, carried out, and nobody else is touched.

``asks`` needs two GPUs on one node for each replica, and the only such node has a replica of ``mover`` on one of them.
The engines are played. :mod:`tests.support.hurried` lets ten seconds count as the minute for which a new one is
watched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from testbed.approvals import install_kinds
from testbed.audit import AuditLog
from testbed.fleet import gpu_node
from tests.support.approvals import Person, outcome_of, proposal_of
from tests.support.hurried import MODULE, Wait, environment
from tests.support.installed import add_known_nodes
from tests.support.live_loop import L4_POOL, PRESSURE, Bench, bench_of, changes, engine_spec, makes_ready

pytestmark = [pytest.mark.cluster, pytest.mark.story]

AUTO = {"mode": "Auto", "maxReplicas": 2, "windowSeconds": 8, "cooldownSeconds": 3600}
TWO_GPUS: dict[str, Any] = {"gpu": {"maxPerReplica": 2}, "overrides": {"tensorParallel": 2}}
PAIR_POOL = "l4-24gb-tp2"
ROOM_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Crowded:
    """The bench with a proposal: the pod in the way, the pods of the neighbour, and the moment."""

    bench: Bench
    old: str
    neighbours: tuple[str, ...]
    since: int


def _add_node(bench: Bench, name: str, gpus: int, label: str = "shared") -> None:
    node = gpu_node(name, "L4", gpus, labels={"bench": label})
    add_known_nodes(bench.operator, bench.view.control_plane, [node])


def _deploy(bench: Bench, name: str, label: str = "shared", **spec: Any) -> None:
    bench.view.apply(name, **engine_spec(label, AUTO, **spec))
    bench.view.wait_ready(name)


@pytest.fixture(scope="module")
def crowded() -> Iterator[Crowded]:
    settings = {**environment(Wait.PROOF), "PLIMSOLL_APPROVALS": "true"}
    with bench_of("room", settings, module=MODULE) as bench:
        install_kinds(bench.view.control_plane)
        _add_node(bench, "full", 2)
        _deploy(bench, "asks", **TWO_GPUS)
        _add_node(bench, "wide", 2)
        _deploy(bench, "mover")
        _add_node(bench, "free", 1)
        _add_node(bench, "calm", 2, "calm")
        _deploy(bench, "neighbour", "calm")
        [old] = _nodes(bench, "mover")
        bench.load("asks", kv_tokens=PRESSURE)
        yield Crowded(bench, old, tuple(bench.view.pod_uids("neighbour")), bench.now())


def _nodes(bench: Bench, name: str) -> dict[str, str]:
    return {body["metadata"]["name"]: str(body["spec"].get("nodeName")) for body in bench.view.pods(name)}


def test_the_proposal_says_whom_an_approval_moves_and_nothing_moves_before(crowded: Crowded) -> None:
    proposal = proposal_of(crowded.bench.view, "asks")
    [touch] = proposal["touches"]
    assert (touch["deployment"], touch["action"]) == ("mover", "moves from wide to free")
    assert "An approval has the operator do it." in proposal["message"]
    assert list(_nodes(crowded.bench, "mover")) == [crowded.old]


def test_after_the_approval_the_replica_moves_and_the_room_is_used(crowded: Crowded) -> None:
    bench, approver = crowded.bench, Person(crowded.bench.view, "approver")
    approver.grant(
        {"resources": ["placementapprovals"], "verbs": ["create"]},
        {"resources": ["placementproposals"], "verbs": ["list"]},
        {"resources": ["inferencedeployments"], "verbs": ["get", "approve"]},
    )
    status, said = approver.runs("approve", "asks", "--reason", "the launch is tomorrow")
    assert status == 0, said
    [made] = bench.view.all("placementapprovals")
    assert outcome_of(bench.view, made["metadata"]["name"])["state"] == "CarriedOut"
    bench.wait_settled("asks", {PAIR_POOL: 2}, ROOM_SECONDS)
    bench.wait_settled("mover", {L4_POOL: 1}, ROOM_SECONDS)
    assert list(_nodes(bench, "mover").values()) == ["free"]
    assert sorted(_nodes(bench, "asks").values()) == ["full", "wide"]
    bench.view.wait(lambda: "room" not in bench.rebalancing("asks"), "the order to be over")
    assert [(each["kind"], each["reason"]) for each in bench.rebalancing("mover")["changes"]] == [
        ("Replace", "MakesRoom")
    ]
    assert "to make room for asks" in bench.rebalancing("mover")["lastChange"]


def test_the_new_replica_served_before_the_old_one_ended(crowded: Crowded) -> None:
    [new] = _nodes(crowded.bench, "mover")
    events = AuditLog(crowded.bench.view.control_plane.audit_log).events(crowded.since)
    ready = next(index for index, event in enumerate(events) if makes_ready(event, new))
    ended = next(
        index for index, event in enumerate(events) if (event.resource, event.name) == ("pods/eviction", crowded.old)
    )
    assert ready < ended


def test_who_was_not_named_is_not_touched(crowded: Crowded) -> None:
    bench = crowded.bench
    assert tuple(bench.view.pod_uids("neighbour")) == crowded.neighbours
    assert changes(bench.writes(crowded.since, "neighbour")) == []
