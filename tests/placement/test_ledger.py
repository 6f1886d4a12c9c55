"""The ledger at its bounds: rooms, quotas and orders."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.cluster.host import HostNeed, HostRoom
from plimsoll.domain.decisions.outcomes import ReplicaShape, Split
from plimsoll.domain.kubernetes_names import CPU_REQUESTS, MEMORY_REQUESTS, PODS
from plimsoll.domain.units import GIB
from plimsoll.placement.ledger import Ledger, QuotaUse, charged, use_of
from tests.support.planning import H100, fleet, node, request

GPU = "nvidia.com/gpu"
ONE = Split(1).shape
NODES = (node("a", H100, 8, held=5), node("b", H100, 8, held=6), node("c", H100, 8, held=6))


def test_the_count_of_room_stops_at_what_is_enough() -> None:
    ledger = Ledger.of(fleet(*NODES))
    assert [ledger.room_for(NODES, ONE, enough=enough) for enough in (1, 3, 4, 7, 8, None)] == [1, 3, 4, 7, 7, 7]


def test_room_for_one_replica_is_room() -> None:
    ledger = Ledger.of(fleet(*NODES))
    assert [ledger.has_room(NODES, Split(gpus).shape) for gpus in (1, 3, 4)] == [True, True, False]
    assert not ledger.has_room((), ONE)


def test_nodes_with_as_many_gpus_as_asked_are_listed() -> None:
    ledger = Ledger.of(fleet(*NODES))
    assert [[each.name for each, _ in ledger.hosts_with(NODES, gpus)] for gpus in (2, 3, 4)] == [
        ["a", "b", "c"],
        ["a"],
        [],
    ]


def test_the_fullest_node_is_filled_first_then_the_next_by_name() -> None:
    ledger = Ledger.of(fleet(*NODES))
    taken = [dict(ledger.take(NODES, ONE, replicas).free) for replicas in (1, 2, 3, 5, 7)]
    assert [(free["a"], free["b"], free["c"]) for free in taken] == [
        (3, 1, 2),
        (3, 0, 2),
        (3, 0, 1),
        (2, 0, 0),
        (0, 0, 0),
    ]


def test_taking_nothing_changes_nothing() -> None:
    ledger = Ledger.of(fleet(*NODES))
    assert ledger.take((), ONE, 0) is ledger
    assert ledger.take(NODES, Split(8).shape, -1) is ledger


def test_each_replica_takes_its_cpu_memory_and_a_pod_slot_of_its_node() -> None:
    hosted = replace(NODES[0], host=HostRoom(64_000, 64 * GIB, 9), host_free=HostRoom(10_000, 40 * GIB, 5))
    ledger = Ledger.of(fleet(hosted))
    after = ledger.take((hosted,), ONE, 2, HostNeed(4000, 16 * GIB))
    assert dict(after.hosts) == {"a": HostRoom(2000, 8 * GIB, 3)}
    assert dict(ledger.hosts) == {"a": HostRoom(10_000, 40 * GIB, 5)}


def test_a_ledger_counts_every_account_and_the_nodes_that_report_their_resources() -> None:
    hosted = replace(NODES[0], host=HostRoom(64_000, 64 * GIB, 9), host_free=HostRoom(10_000, 40 * GIB, 5))
    for nodes, hosts in (((hosted, *NODES[1:]), 1), (NODES, 0)):
        ledger = Ledger.of(fleet(*nodes))
        assert (len(ledger.free), len(ledger.hosts)) == (3, hosts)


TWO_PODS = ReplicaShape(2, 4)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=6))
def test_a_replica_of_two_pods_takes_whole_pods_of_any_nodes(free: list[int]) -> None:
    nodes = tuple(node(str(index), H100, 8, held=8 - each) for index, each in enumerate(free))
    ledger = Ledger.of(fleet(*nodes))
    room = ledger.room_for(nodes, TWO_PODS)
    assert room == sum(each // 4 for each in free) // 2
    assert [ledger.room_for(nodes, TWO_PODS, enough=each) for each in (1, 2)] == [min(room, 1), min(room, 2)]
    left = ledger.take(nodes, TWO_PODS, room)
    taken = [ledger.free[each.account] - left.free[each.account] for each in nodes]
    assert sum(taken) == room * TWO_PODS.gpus == room * 8
    assert all(each % 4 == 0 for each in taken)
    with pytest.raises(ValueError, match="over-committed"):
        ledger.take(nodes, TWO_PODS, room + 1)


def test_two_pods_of_four_gpus_take_two_nodes_of_four() -> None:
    nodes, need = (node("a", H100, 4), node("b", H100, 4)), HostNeed(4000, 16 * GIB)
    assert not Ledger.of(fleet(*nodes)).has_room(nodes, Split(8).shape)
    assert set(Ledger.of(fleet(*nodes)).take(nodes, TWO_PODS, 1).free.values()) == {0}
    amounts = dict(use_of(request(), GPU, TWO_PODS, need).amounts)
    assert [amounts[each] for each in (GPU, CPU_REQUESTS, MEMORY_REQUESTS, PODS)] == [8, 8000, 32 * GIB, 2]


@given(st.builds(ReplicaShape, st.integers(1, 8), st.integers(1, 8)), st.integers(0, 99))
def test_pods_become_whole_replicas_and_those_that_they_belong_to(shape: ReplicaShape, number: int) -> None:
    assert shape.replicas_of(shape.pods_of(number)) == shape.replicas_with(shape.pods_of(number)) == number
    assert shape.pods_of(shape.replicas_of(number)) <= number <= shape.pods_of(shape.replicas_with(number))
    assert shape.replicas_with(number) - shape.replicas_of(number) in {0, 1}
    assert (shape.pods > 1) or shape.replicas_of(number) == number


ONE_GPU = QuotaUse(((GPU, 1),))


def test_a_charge_lowers_one_resource_of_one_namespace() -> None:
    ledger = Ledger.of(fleet(), {"a": {GPU: 3, "other": 3}, "b": {GPU: 3}})
    assert charged(ledger, "a", ONE_GPU, 2).quota == {"a": {GPU: 1, "other": 3}, "b": {GPU: 3}}
    assert charged(ledger, "a", ONE_GPU, 4).quota["a"][GPU] == -1
    assert charged(ledger, "a", ONE_GPU, 1).quota["a"][GPU] == 2
    assert charged(charged(ledger, "a", ONE_GPU, 4), "a", ONE_GPU, -4) == ledger


def test_a_namespace_without_a_quota_and_a_charge_of_nothing_change_nothing() -> None:
    ledger = Ledger.of(fleet(), {"a": {GPU: 3}})
    assert charged(ledger, "b", ONE_GPU, 2) is ledger
    assert charged(ledger, "a", QuotaUse((("other", 1),)), 2) is ledger
    assert charged(ledger, "a", ONE_GPU, 0) is ledger
    assert charged(ledger, "a", QuotaUse(((GPU, 0),)), 2) is ledger
    assert ledger.without_quota().quota == {}
