"""Pods that start before a node goes: one for each that serves there, where there is room, and never a second time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.cluster.fleet import Fleet, Taint
from plimsoll.domain.public_words import NodeReason
from plimsoll.facts.cluster.fleet_reading import read_fleet
from plimsoll.facts.cluster.taints import DISRUPTION_TAINTS, leaving_nodes
from plimsoll.placement.demands.pools import PoolState
from plimsoll.placement.extra_pods import OnLeavingNodes, Replacements, replacements
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.plan import plan
from testbed.fleet import gpu_node
from tests.support.planning import H100, L4, fleet, gpu, node, pool, request, tenant
from tests.support.tables import every_case

POOL = "l4-24gb-tp1"


def more(
    where: Fleet,
    serving: int = 1,
    spare: int = 0,
    *,
    replicas: int = 1,
    quota: Any = None,
    **wanted: Any,
) -> Replacements:
    asked = request(replicas=replicas, **wanted)
    running = pool(L4, replicas=replicas, bound=replicas, ready=replicas, exists=True)
    (decided,) = plan([tenant(asked, running)], fleet(*where.nodes, node("any", L4, 8, held=8)))
    ledger = Ledger.of(where, {"default": quota} if quota else {})
    found, left = replacements(asked, decided.pools, {POOL: OnLeavingNodes(serving, spare)}, where, ledger)
    assert all(free >= 0 for free in left.free.values())
    return found


ROOM = fleet(node("b", L4, 4))


def test_one_starts_for_each_pod_that_serves_on_a_node_that_goes() -> None:
    assert more(ROOM) == ((POOL, 1),)
    assert more(ROOM, 2, replicas=3) == ((POOL, 2),)


def test_no_more_than_there_is_room_for() -> None:
    assert more(fleet(node("b", L4, 4, held=3)), 2, replicas=3) == ((POOL, 1),)
    assert more(fleet(node("b", L4, 4, held=4))) == ()
    assert more(fleet(node("h", H100, 4))) == ()


def test_those_that_have_started_stay_although_they_have_taken_the_room() -> None:
    assert more(fleet(node("b", L4, 4, held=4)), 1, 1) == ((POOL, 1),)
    assert more(ROOM, 2, 1, replicas=3) == ((POOL, 2),)
    assert more(ROOM, 1, 3, replicas=3) == ((POOL, 1),)


def test_when_nothing_serves_there_any_more_there_are_none() -> None:
    assert more(ROOM, 0, 1) == ()


def test_a_pool_that_retires_anyway_or_is_left_as_it_is_gets_none() -> None:
    asked, ledger, on = request(), Ledger.of(ROOM), {POOL: OnLeavingNodes(1, 0)}
    (decided,) = plan([tenant(asked, pool(L4, bound=1, ready=1, exists=True))], ROOM)
    [active] = decided.pools
    for each, count in ((active, 1), (replace(active, state=PoolState.RETIRING), 0), (replace(active, choice=None), 0)):
        found, _ = replacements(asked, [each, active], on, ROOM, ledger)
        assert len(found) == count + 1, "a pool without any does not keep the next from its own"


def test_a_quota_that_is_used_up_admits_none() -> None:
    assert more(ROOM, quota={"nvidia.com/gpu": 0}) == ()
    assert more(ROOM, quota={"nvidia.com/gpu": 1}) == ((POOL, 1),)


def test_what_one_node_mounts_at_a_time_is_not_started_twice() -> None:
    assert more(ROOM, mounts_alone=True) == ()


def test_two_deployments_do_not_get_the_same_gpu() -> None:
    where = fleet(node("b", L4, 1))
    asked, ledger, got = request(), Ledger.of(where), []
    (decided,) = plan([tenant(asked, pool(L4, bound=1, ready=1, exists=True))], fleet(node("a", L4, 1, held=1)))
    for _ in range(2):
        found, ledger = replacements(asked, decided.pools, {POOL: OnLeavingNodes(1, 0)}, where, ledger)
        got.append(found)
    assert got == [((POOL, 1),), ()]


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 8), st.integers(0, 8), st.integers(0, 6))
def test_the_pods_are_never_more_than_replicas_and_those_that_must_go(
    replicas: int, serving: int, spare: int, held: int, admitted: int
) -> None:
    found = dict(
        more(fleet(node("b", L4, 8, held=held)), serving, spare, replicas=replicas, quota={"nvidia.com/gpu": admitted})
    )
    count = found.get(POOL, 0)
    assert count <= min(serving, replicas)
    assert count <= spare + min(8 - held, admitted)
    assert count == min(serving, replicas) or count == min(spare, serving, replicas) + min(8 - held, admitted)


@every_case("key", sorted(DISRUPTION_TAINTS))
def test_a_node_goes_by_the_taint_of_every_controller_and_takes_no_pod_that_tolerates_it(key: str) -> None:
    goes = gpu_node("goes", "L4", 1, taints=[{"key": key, "effect": "NoSchedule"}])
    there = read_fleet([goes, gpu_node("stays", "L4", 1)], [], [gpu(L4)])
    assert leaving_nodes(there) == {"goes"}
    assert [each.name for each in there.nodes] == ["stays"]


def test_a_cordoned_node_goes_and_one_that_is_not_ready_or_has_other_taints_does_not() -> None:
    found = read_fleet([gpu_node("a", "L4", 1, unschedulable=True), gpu_node("b", "L4", 1)], [], [gpu(L4)])
    assert [each.reason for each in found.ignored] == [NodeReason.CORDONED]
    assert leaving_nodes(found) == {"a"}
    assert leaving_nodes(fleet(node("b", L4, 1, taints=(Taint("team", "a", "NoSchedule"),)))) == frozenset()
