"""The ledger at its bounds: rooms, quotas and orders."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.host import HostNeed, HostRoom
from plimsoll.domain.units import GIB
from plimsoll.placement.ledger import Ledger, QuotaUse, charged
from tests.support.planning import H100, fleet, node

GPU = "nvidia.com/gpu"
NODES = (node("a", H100, 8, held=5), node("b", H100, 8, held=6), node("c", H100, 8, held=6))


def test_the_count_of_room_stops_at_what_is_enough() -> None:
    ledger = Ledger.of(fleet(*NODES))
    assert [ledger.room_for(NODES, 1, enough=enough) for enough in (1, 3, 4, 7, 8, None)] == [1, 3, 4, 7, 7, 7]


def test_room_for_one_replica_is_room() -> None:
    ledger = Ledger.of(fleet(*NODES))
    assert [ledger.has_room(NODES, gpus) for gpus in (1, 3, 4)] == [True, True, False]
    assert not ledger.has_room((), 1)


def test_nodes_with_as_many_gpus_as_asked_are_listed() -> None:
    ledger = Ledger.of(fleet(*NODES))
    assert [[each.name for each, _ in ledger.hosts_with(NODES, gpus)] for gpus in (2, 3, 4)] == [
        ["a", "b", "c"],
        ["a"],
        [],
    ]


def test_the_fullest_node_is_filled_first_then_the_next_by_name() -> None:
    ledger = Ledger.of(fleet(*NODES))
    taken = [dict(ledger.take(NODES, 1, replicas).free) for replicas in (1, 2, 3, 5, 7)]
    assert [(free["a"], free["b"], free["c"]) for free in taken] == [
        (3, 1, 2),
        (3, 0, 2),
        (3, 0, 1),
        (2, 0, 0),
        (0, 0, 0),
    ]


def test_taking_nothing_changes_nothing() -> None:
    ledger = Ledger.of(fleet(*NODES))
    assert ledger.take((), 1, 0) is ledger
    assert ledger.take(NODES, 8, -1) is ledger


def test_each_replica_takes_its_cpu_memory_and_a_pod_slot_of_its_node() -> None:
    hosted = replace(NODES[0], host=HostRoom(64_000, 64 * GIB, 9), host_free=HostRoom(10_000, 40 * GIB, 5))
    ledger = Ledger.of(fleet(hosted))
    after = ledger.take((hosted,), 1, 2, HostNeed(4000, 16 * GIB))
    assert dict(after.hosts) == {"a": HostRoom(2000, 8 * GIB, 3)}
    assert dict(ledger.hosts) == {"a": HostRoom(10_000, 40 * GIB, 5)}


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
