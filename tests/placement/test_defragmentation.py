"""Defragmentation is proposed, not made: the fewest moved GPUs, each with a free place to go to."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from plimsoll.domain.cluster.fleet import Fleet, Taint, Toleration
from plimsoll.domain.decisions.proposals import Proposal, ProposalReason
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.costs import move_charge
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.proposing.defragmentation import defragmentation
from plimsoll.placement.proposing.preemption import Waiting
from plimsoll.placement.proposing.running import Running
from tests.placement.test_preemption import runs, waiting
from tests.support.planning import A100, H100, fleet, node, request
from tests.support.tables import every_case

LEAST_SECONDS = 180
TOLERATED = (Toleration("team", "Exists"),)


def owners(running: Sequence[Running], **changes: Any) -> Mapping[ObjectKey, Request]:
    return {each.owner: request(key=each.owner, **changes) for each in running}


def found_for(wants: Waiting, running: Sequence[Running], where: Fleet) -> Proposal | None:
    return defragmentation(wants, running, owners(running), where, Ledger.of(where))


def proposed(wants: Waiting, running: Sequence[Running], where: Fleet) -> Proposal:
    found = found_for(wants, running, where)
    assert found is not None
    return found


def moves(proposal: Proposal) -> dict[str, tuple[str, str | None]]:
    return {each.owner.name: (each.node, each.to) for each in proposal.changes}


TWO_NODES = fleet(node("a", H100, 8, held=1), node("b", H100, 8, held=2))


def test_the_node_with_the_fewest_gpus_in_use_is_emptied() -> None:
    running = [runs("one", "a", "3"), runs("two", "b", "3", gpus=2)]
    found = proposed(waiting(TWO_NODES, gpus=8), running, TWO_NODES)
    assert found.reason is ProposalReason.DEFRAGMENT_NODE
    assert moves(found) == {"one": ("a", "b")}
    assert [share.replicas for share in found.after] == [*(share.replicas for share in found.before), 1]
    numbers = dict(found.numbers)
    assert (numbers["moved"], numbers["gpus"], numbers["replicas"]) == (1, 1, 1)
    assert Decimal(str(numbers["charge"])) == Decimal(3) * LEAST_SECONDS / 3600


def test_a_start_up_that_is_known_is_charged_too() -> None:
    assert move_charge(Decimal(36), 120.0) == move_charge(Decimal(36)) + Decimal("1.2")
    assert move_charge(None, 120.0) == 0


def test_of_equal_moves_the_cheaper_one_is_proposed() -> None:
    where = fleet(node("a", H100, 8, held=1), node("b", H100, 8, held=1))
    running = [replace(runs("slow", "a", "3"), startup_seconds=900.0), runs("quick", "b", "3")]
    assert moves(proposed(waiting(where, gpus=8), running, where)) == {"quick": ("b", "a")}


@pytest.mark.parametrize("turn", [1, -1])
def test_of_equal_moves_those_for_the_cheaper_gpus_are_proposed_in_whatever_order_they_are_tried(turn: int) -> None:
    kinds = (H100, A100)
    where = fleet(*(node(f"{kind}-{index}", kind, 8, held=1) for kind in kinds for index in (1, 2)))
    running = [runs(f"on-{kind}-{index}", f"{kind}-{index}", "3", kind=kind) for kind in kinds for index in (1, 2)]
    wants = waiting(where, gpus=8, allow=kinds)
    found = proposed(replace(wants, options=wants.options[::turn]), running, where)
    assert [share.target.gpu_type for share in found.after] == [A100]


def test_pods_of_others_stay_so_that_their_node_is_no_way_out() -> None:
    assert found_for(waiting(TWO_NODES, gpus=8), [runs("two", "b", "3", gpus=2)], TWO_NODES) is not None
    assert found_for(waiting(TWO_NODES, gpus=8), [], TWO_NODES) is None


def test_a_move_without_a_free_place_is_not_proposed() -> None:
    where = fleet(node("a", H100, 8, held=4), node("b", H100, 8, held=5))
    running = [runs("four", "a", "3", gpus=4), runs("five", "b", "3", gpus=5)]
    assert found_for(waiting(where, gpus=8), running, where) is None


def test_a_place_that_only_another_move_would_free_does_not_count() -> None:
    where = fleet(node("a", H100, 4, held=2), node("b", H100, 2, held=2))
    running = [runs("left", "a", "1", gpus=2), runs("right", "b", "1", gpus=2)]
    assert found_for(waiting(where, gpus=4), running, where) is None


def test_a_replica_moves_only_to_nodes_that_its_own_rules_allow() -> None:
    where = fleet(node("a", H100, 8, held=1, labels={"zone": "x"}), node("b", H100, 8, held=2))
    running = [runs("one", "a", "3")]
    bound_to = owners(running, node_selector=(("zone", "x"),))
    assert defragmentation(waiting(where, gpus=8), running, bound_to, where, Ledger.of(where)) is None


@pytest.mark.parametrize("bound", ["a", "b"])
@pytest.mark.parametrize("of", ["the replica there", "both"])
def test_of_nodes_that_are_alike_each_is_tried_if_its_replicas_have_rules_of_their_own(bound: str, of: str) -> None:
    """The replica on one of them must stay there, and the other one may go there."""
    other = "b" if bound == "a" else "a"
    where = fleet(*(node(name, H100, 8, held=1, labels={"zone": name}) for name in ("a", "b")))
    running = [runs(f"on-{name}", name, "3") for name in ("a", "b")]
    asked = {
        each.owner: request(
            key=each.owner, node_selector=(("zone", bound),) if each.node == bound or of == "both" else ()
        )
        for each in running
    }
    found = defragmentation(waiting(where, gpus=8), running, asked, where, Ledger.of(where))
    assert found is not None
    assert moves(found) == {f"on-{other}": (other, bound)}


@pytest.mark.parametrize("free_to_go", ["a", "b"])
def test_nodes_with_the_same_replicas_under_other_rules_are_both_tried(free_to_go: str) -> None:
    """On each node one of two replicas may go to the tainted node. Only if it is the large one, that makes room."""
    tainted = node("c", H100, 4, taints=(Taint("team", "x", "NoSchedule"),))
    where = fleet(*(node(name, H100, 7, held=5) for name in ("a", "b")), tainted)
    running = [runs(f"{size}-on-{name}", name, "3", gpus=size) for name in ("a", "b") for size in (1, 4)]
    may_go = {(4, "a"), (1, "b")} if free_to_go == "a" else {(1, "a"), (4, "b")}
    asked = {
        each.owner: request(key=each.owner, tolerations=TOLERATED if (each.gpus, each.node) in may_go else ())
        for each in running
    }
    found = defragmentation(waiting(where, gpus=4), running, asked, where, Ledger.of(where))
    assert found is not None
    assert moves(found) == {f"4-on-{free_to_go}": (free_to_go, "c")}


def test_a_replica_of_one_gpu_needs_no_whole_node() -> None:
    where = fleet(node("a", H100, 1, held=1), node("b", H100, 1, held=1))
    assert found_for(waiting(where, gpus=1), [runs("x", "a", "1")], where) is None


@every_case("seed", range(80))
def test_no_other_moves_take_fewer_gpus(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a fixed seed
    names = ["a", "b", "c", "d"][: draw.randint(2, 4)]
    running = [
        runs(f"r{index}", draw.choice(names), "1", gpus=draw.choice([1, 1, 2, 4]), priority=draw.choice([0, 99]))
        for index in range(draw.randint(1, 7))
    ]
    held = {name: sum(each.gpus for each in running if each.node == name) for name in names}
    where = fleet(*(node(name, H100, held[name] + draw.randint(0, 3), held=held[name]) for name in names))
    wants = waiting(where, gpus=draw.choice([2, 4, 8]))
    if not wants.options or any(each.free >= wants.options[0].split.gpus for each in where.nodes):
        return
    found = found_for(wants, running, where)
    least = fewest(running, where, wants.options[0].split.gpus)
    assert (None if found is None else dict(found.numbers)["gpus"]) == least


def fewest(running: Sequence[Running], where: Fleet, size: int) -> int | None:
    """The fewest GPUs of one node that can go to other nodes so that a replica has room, by trying everything."""
    costs = []
    for source in where.nodes:
        there = [each for each in running if each.node == source.name]
        others = [each for each in where.nodes if each is not source]
        for number in range(1, len(there) + 1):
            for group in itertools.combinations(there, number):
                gpus = sum(each.gpus for each in group)
                if source.free + gpus >= size and fits(group, {each.name: each.free for each in others}):
                    costs.append(gpus)
    return min(costs, default=None)


def fits(group: Sequence[Running], free: Mapping[str, int]) -> bool:
    for targets in itertools.product(free, repeat=len(group)):
        left = dict(free)
        for each, name in zip(group, targets, strict=True):
            left[name] -= each.gpus
        if all(each >= 0 for each in left.values()):
            return True
    return False
