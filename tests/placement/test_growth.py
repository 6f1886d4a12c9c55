"""Nodes that could be added: who follows a suggestion gets the replicas that it promises, at its price."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from plimsoll.adapters import highs
from plimsoll.domain.cluster.fleet import Fleet, GpuNode, Taint, Toleration
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.cluster.spot import spot_type
from plimsoll.domain.decisions.outcomes import Remedy
from plimsoll.domain.public_words import RemedyKind
from plimsoll.domain.requests.serving import GpuConstraints, Request
from plimsoll.placement.demands.pools import Decision
from plimsoll.placement.ledger import Quotas
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import plan
from tests.support.planning import A100, H100, L4, L40S, LLAMA_70B_FP8, fleet, gpu, node, request, tenant
from tests.support.tables import every_case

pytestmark = pytest.mark.lengthy

MOST_NAMED = 3

FULL = fleet(node("full", H100, 8, held=8))


def group(name: str, kind: str, gpus: int = 1, *, price: str = "1", **changes: object) -> NodeGroup:
    return replace(NodeGroup(name, gpu(kind, price=price), "nvidia.com/gpu", gpus), **changes)  # type: ignore[arg-type]


def decided(wanted: Request, where: Fleet, groups: Sequence[NodeGroup], quotas: Quotas | None = None) -> Decision:
    (decision,) = plan([tenant(wanted)], where, quotas=quotas, groups=groups)
    return decision


def added(decision: Decision) -> list[dict[str, int | str]]:
    return [dict(each.numbers) for each in decision.remedies if each.kind is RemedyKind.ADD_NODES]


def names(decision: Decision) -> list[int | str]:
    return [each["group"] for each in added(decision)]


def grown(where: Fleet, groups: Sequence[NodeGroup], remedy: Remedy) -> Fleet:
    """The fleet after somebody added the nodes of a suggestion."""
    told = dict(remedy.numbers)
    (found,) = (each for each in groups if each.name == told["group"])
    first = next((each for each in where.nodes if each.gpu.name == found.gpu.name), None)
    selector = first.selector if first is not None else ("product", found.gpu.name)
    nodes = [replace(found.node(), name=f"{found.name}-{i}", selector=selector) for i in range(int(told["nodes"]))]
    return fleet(*where.nodes, *nodes)


def test_the_nodes_for_all_waiting_replicas_are_named_with_their_price() -> None:
    decision = decided(request(replicas=3), FULL, [group("two", L40S, 2, price="1.25")])
    assert added(decision) == [
        {
            "group": "two",
            "nodes": 2,
            "gpu_type": L40S,
            "gpus": 2,
            "price": "5",
            "replicas": 3,
            "missing": 3,
        }
    ]


def test_only_replicas_without_a_place_count_and_who_has_a_place_gets_no_advice() -> None:
    groups = [group("ones", L40S)]
    some = decided(request(replicas=3), fleet(node("l", L40S, 2)), groups)
    assert [each["missing"] for each in added(some)] == [1]
    assert added(decided(request(replicas=2), fleet(node("l", L40S, 2)), groups)) == []


def test_groups_come_in_the_order_of_their_price_and_those_that_take_only_some_come_last() -> None:
    groups = [
        group("dear", L40S, price="3"),
        group("cheap", L40S, price="1"),
        group("nearly-full", L40S, price="0.5", most_gpus=1),
        group("dearest", L40S, price="4"),
    ]
    assert names(decided(request(replicas=2), FULL, groups)) == ["cheap", "dear", "dearest"]
    assert names(decided(request(replicas=2), FULL, groups[:3])) == ["cheap", "dear", "nearly-full"]
    assert MOST_NAMED == 3


def test_a_group_is_named_once_for_each_capacity_type_with_its_best_machine() -> None:
    spot = replace(group("pool", L40S, price="2"), gpu=spot_type(gpu(L40S, price="2")))
    groups = [group("pool", A100, price="3"), group("pool", L40S, price="2"), spot]
    found = added(decided(request(), FULL, groups))
    assert sorted(str(each["gpu_type"]) for each in found) == [L40S, f"{L40S}-spot"]
    stays = request(constraints=GpuConstraints(capacities=(CapacityType.ON_DEMAND,)))
    assert [each["gpu_type"] for each in added(decided(stays, FULL, groups))] == [L40S]


class TestLimits:
    def test_a_group_grows_to_its_limit(self) -> None:
        members = (("pool", "a"),)
        present = replace(node("a-0", L40S, 2, held=2), labels=members)
        other = replace(node("b-0", L40S, 2, held=2), labels=(("pool", "b"),))
        for most, nodes in ((2, []), (3, []), (4, [1]), (6, [2]), (None, [2])):
            groups = [group("a", L40S, 2, most_gpus=most, members=members)]
            decision = decided(request(replicas=4), fleet(present, other), groups)
            assert [each["nodes"] for each in added(decision)] == nodes, most

    def test_without_labels_nodes_of_the_same_kind_are_counted(self) -> None:
        spot = replace(node("spot", L40S, 2, held=2), gpu=spot_type(gpu(L40S)), capacity_type=CapacityType.SPOT)
        nodes = [node("same", L40S, 2, held=2), node("larger", L40S, 4, held=4), node("other", L4, 2, held=2), spot]
        assert group("a", L40S, 2, most_gpus=6).nodes_left(fleet(*nodes)) == 2

    def test_a_node_that_is_too_small_or_closed_to_the_pods_is_not_named(self) -> None:
        taint = Taint("team", "a", "NoSchedule")
        labels = (("zone", "a"),)
        groups = [
            group("tainted", L40S, taints=(taint,)),
            group("here", L40S, labels=labels),
            group("weak", L40S, labels=labels, host=HostRoom(500, None, None)),
        ]
        wanted = request(node_selector=labels)
        assert names(decided(wanted, FULL, groups)) == ["here"]
        tolerant = request(tolerations=(Toleration("team", "Exists"),))
        assert names(decided(tolerant, FULL, groups)) == ["here", "tainted"]
        assert names(decided(request(LLAMA_70B_FP8, context=16_384), FULL, groups)) == []

    def test_a_price_limit_holds_for_new_nodes_too(self) -> None:
        limited = request(constraints=GpuConstraints(max_hourly_price=Decimal(2)))
        assert names(decided(limited, FULL, [group("a", L40S, price="3"), group("b", L40S, price="2")])) == ["b"]

    def test_a_quota_limits_how_many_nodes_help(self) -> None:
        groups = [group("ones", L40S)]
        for left, nodes in ((0, []), (1, [1]), (9, [3])):
            quotas = {"default": {"nvidia.com/gpu": left}}
            found = added(decided(request(replicas=3), FULL, groups, quotas))
            assert [each["nodes"] for each in found] == nodes


def test_a_memo_changes_no_suggestion() -> None:
    memo = Memo()
    groups = [group("ones", L40S, most_gpus=2)]
    for replicas in (1, 3, 1):
        for name in ("a", "b"):
            wanted = request(replicas=replicas, name=name)
            (kept,) = plan([tenant(wanted)], FULL, groups=groups, memo=memo)
            assert kept.remedies == decided(wanted, FULL, groups).remedies


@every_case("seed", range(40))
def test_who_follows_a_suggestion_gets_the_replicas_at_that_price(seed: int) -> None:
    """The replicas of the suggestion have a place afterwards, nobody else loses one, and the nodes suffice."""
    dice = random.Random(seed)  # noqa: S311
    kinds = (L4, L40S, A100, H100)
    nodes: list[GpuNode] = [node(f"n{i}", dice.choice(kinds), dice.choice((1, 2))) for i in range(dice.randint(1, 3))]
    groups = [group(f"g{i}", dice.choice(kinds), dice.choice((1, 2, 4)), price=f"{1 + i}") for i in range(3)]
    groups = [replace(each, most_gpus=dice.choice((None, 2, 4))) for each in groups]
    models = [dice.choice(("meta-llama/Llama-3.1-8B-Instruct", LLAMA_70B_FP8)) for _ in range(3)]
    asking = [tenant(request(model, name=f"d{i}", created=f"{i}", replicas=3)) for i, model in enumerate(models)]
    before = plan(asking, fleet(*nodes), groups=groups, solver=highs.fleetwide())
    for index, decision in enumerate(before):
        for remedy in decision.remedies:
            if remedy.kind is not RemedyKind.ADD_NODES:
                continue
            told = dict(remedy.numbers)
            assert told["missing"] == decision.missing
            alone = asking[index]
            more = grown(fleet(*nodes), groups, remedy)
            new = {each.name for each in more.nodes} - {each.name for each in nodes}
            (after,) = plan([alone], fleet(*(each for each in more.nodes if each.name in new)))
            assert 3 - after.missing >= min(3, int(told["replicas"])), "the new nodes alone take them"
            everyone = plan(asking, more, groups=groups, solver=highs.fleetwide())
            assert sum(each.missing for each in everyone) <= sum(each.missing for each in before)


@pytest.mark.parametrize("replicas", [0, 1])
def test_who_wants_no_replica_and_has_no_place_is_told_the_nodes_for_one(replicas: int) -> None:
    large = request(LLAMA_70B_FP8, replicas=replicas)
    [advice] = added(decided(large, fleet(node("l", L40S, 1)), [group("eight", L40S, 8)]))
    assert (advice["nodes"], advice["replicas"]) == (1, 1)
