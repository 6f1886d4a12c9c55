"""Preemption is proposed, not made: the cheapest replicas of lower priority, and nobody else's."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.host import HostNeed, HostRoom
from plimsoll.domain.decisions.outcomes import Option, Split, Target
from plimsoll.domain.decisions.proposals import Proposal, ProposalReason
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import GpuConstraints, Overrides, Request
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.verdicts import options
from plimsoll.placement.proposing.preemption import Waiting, preemption
from plimsoll.placement.proposing.running import Running, ways
from tests.support.planning import A100, H100, fleet, gpu, node, request
from tests.support.tables import every_case


def target(kind: str, gpus: int) -> Target:
    there = node("x", kind)
    return Target(kind, Split(gpus), there.selector, there.resource)


def runs(owner: str, where: str, price: str, *, priority: int = 0, gpus: int = 1, kind: str = H100) -> Running:
    return Running(ObjectKey("ns", owner), target(kind, gpus), where, priority, price=Decimal(price))


def waiting(
    where: Fleet, *, missing: int = 1, priority: int = 10, gpus: int = 1, allow: tuple[str, ...] = (H100,)
) -> Waiting:
    asked: Request = request(
        name="gold",
        overrides=Overrides(tensor_parallel=gpus),
        constraints=GpuConstraints(allow=allow),
    )
    found = tuple(each for each in options(asked, where, Memo()).verdicts if isinstance(each, Option))
    return Waiting(asked, missing, found, priority)


def proposed(wants: Waiting, running: Sequence[Running], where: Fleet, ledger: Ledger | None = None) -> Proposal:
    found = preemption(wants, running, where, ledger or Ledger.of(where))
    assert found is not None
    return found


def ended(proposal: Proposal) -> dict[str, int]:
    found: dict[str, int] = {}
    for change in proposal.changes:
        assert change.to is None
        found[change.owner.name] = found.get(change.owner.name, 0) + change.leaving.replicas
    return found


FULL = fleet(node("a", H100, 2, held=2))


def test_the_cheapest_lower_one_goes_and_the_bill_is_said() -> None:
    running = [runs("dear", "a", "9"), runs("cheap", "a", "2", priority=5)]
    found = proposed(waiting(FULL), running, FULL)
    assert found.reason is ProposalReason.PREEMPT_LOWER_PRIORITY
    assert ended(found) == {"cheap": 1}
    price = str(gpu(H100).price.usd_per_hour)  # type: ignore[union-attr]
    assert dict(found.numbers) == {"replicas": 1, "ended": 1, "saved": "2", "added": price}
    assert (found.before, [each.replicas for each in found.after]) == ((), [1])


@pytest.mark.parametrize("priority", [10, 11])
def test_nobody_of_equal_or_higher_priority_goes(priority: int) -> None:
    running = [runs("same", "a", "1", priority=priority), runs("other", "a", "1", priority=priority)]
    assert preemption(waiting(FULL), running, FULL, Ledger.of(FULL)) is None


def test_where_there_is_room_nothing_is_proposed() -> None:
    free = fleet(node("a", H100, 2, held=1))
    assert preemption(waiting(free), [runs("low", "a", "1")], free, Ledger.of(free)) is None


def test_what_is_free_on_the_node_is_used_first() -> None:
    where = fleet(node("a", H100, 4, held=2), node("b", H100, 4, held=4))
    running = [runs("one", "a", "5"), runs("two", "a", "5"), *(runs(f"b{index}", "b", "1") for index in range(4))]
    assert ended(proposed(waiting(where, gpus=4), running, where)) == {f"b{index}": 1 for index in range(4)}
    two = ended(proposed(waiting(where, gpus=2, missing=2), running, where))
    assert (len(two), {name[0] for name in two}) == (2, {"b"})


def test_its_own_replicas_and_those_on_other_nodes_stay() -> None:
    own = replace(runs("gold", "a", "1"), owner=request(name="gold").key)
    assert preemption(waiting(FULL), [own, runs("far", "elsewhere", "1")], FULL, Ledger.of(FULL)) is None


def test_as_many_of_the_missing_replicas_as_possible_get_room() -> None:
    found = proposed(waiting(FULL, missing=5), [runs("x", "a", "1"), runs("y", "a", "1")], FULL)
    assert dict(found.numbers)["replicas"] == 2


def test_a_quota_limits_what_is_asked_for() -> None:
    ledger = Ledger.of(FULL, {"default": {"nvidia.com/gpu": 1}})
    found = proposed(waiting(FULL, missing=2), [runs("x", "a", "1"), runs("y", "a", "3")], FULL, ledger)
    assert ended(found) == {"x": 1}
    none = Ledger.of(FULL, {"default": {"nvidia.com/gpu": 0}})
    assert preemption(waiting(FULL), [runs("x", "a", "1")], FULL, none) is None


def test_the_cpus_of_the_node_must_suffice_too() -> None:
    room = HostRoom(cpu_millis=8_000)
    where = fleet(replace(node("a", H100, 2, held=2), host=room, host_free=HostRoom(cpu_millis=0)))
    small = replace(runs("small", "a", "1"), need=HostNeed(1_000, 0))
    large = replace(runs("large", "a", "4"), need=HostNeed(7_000, 0))
    assert ended(proposed(waiting(where), [small, large], where)) == {"large": 1}


def test_a_card_is_had_from_the_replica_that_holds_it() -> None:
    """The cheaper one holds none, so its end would not help."""
    room = HostRoom(others=(("rdma/ib", 1),))
    where = fleet(replace(node("a", H100, 2, held=2), host=room, host_free=HostRoom(others=(("rdma/ib", 0),))))
    plain, with_card = runs("plain", "a", "1"), replace(runs("card", "a", "4"), need=HostNeed(0, 0, (("rdma/ib", 1),)))
    wants = waiting(where)
    picky = replace(wants, request=replace(wants.request, other_resources=(("rdma/ib", 1),)))
    assert ended(proposed(picky, [plain, with_card], where)) == {"card": 1}
    assert ended(proposed(wants, [plain, with_card], where)) == {"plain": 1}


class TestAgainstBruteForce:
    @every_case("seed", range(80))
    def test_no_set_that_makes_as_much_room_is_cheaper(self, seed: int) -> None:
        draw = random.Random(seed)  # noqa: S311 - a fixed seed
        names = ["a", "b", "c"][: draw.randint(1, 3)]
        running = [
            runs(f"r{index}", draw.choice(names), str(draw.randint(1, 9)), priority=draw.choice([0, 5, 10]), gpus=size)
            for index in range(draw.randint(1, 7))
            for size in [draw.choice([1, 1, 2, 4])]
        ]
        held = {name: sum(each.gpus for each in running if each.node == name) for name in names}
        where = fleet(*(node(name, H100, held[name] + draw.randint(0, 2), held=held[name]) for name in names))
        wants = waiting(where, missing=draw.randint(1, 3), gpus=draw.choice([1, 2, 4]))
        found = preemption(wants, running, where, Ledger.of(where))
        room, cost = self.best(wants, running, where)
        if cost == 0:
            assert found is None
        else:
            assert found is not None
            assert (dict(found.numbers)["replicas"], Decimal(str(dict(found.numbers)["saved"]))) == (room, cost)
            assert all(each.priority < 10 for each in running if each.owner.name in ended(found))

    @staticmethod
    def best(wants: Waiting, running: Sequence[Running], where: Fleet) -> tuple[int, Decimal]:
        """The most room, and the least price of what goes for it, over all subsets."""
        if not wants.options:
            return 0, Decimal(0)
        [size] = {each.split.gpus for each in wants.options}
        lower = [each for each in running if each.priority < wants.priority]
        found: list[tuple[int, Decimal]] = []
        for number in range(len(lower) + 1):
            for gone in itertools.combinations(lower, number):
                free = {each.name: each.free for each in where.nodes}
                for each in gone:
                    free[each.node] += each.gpus
                room = min(wants.missing, sum(each // size for each in free.values()))
                found.append((-room, sum((each.price for each in gone), Decimal(0))))
        room, cost = min(found)
        return -room, cost


def test_an_owner_that_can_do_without_none_keeps_all_and_another_one_gives() -> None:
    running = [runs("cheap", "a", "1"), runs("dear", "a", "9")]
    found = preemption(waiting(FULL), running, FULL, Ledger.of(FULL), {ObjectKey("ns", "dear"): 1})
    assert found is not None
    assert ended(found) == {"dear": 1}
    assert preemption(waiting(FULL), running, FULL, Ledger.of(FULL), {}) is None


def test_what_an_owner_can_do_without_is_counted_over_all_nodes() -> None:
    where = fleet(node("a", H100, 1, held=1), node("b", H100, 1, held=1), node("c", H100, 1, held=1))
    running = [runs("low", name, "2") for name in "ab"] + [runs("other", "c", "3")]
    spare = {ObjectKey("ns", "low"): 1, ObjectKey("ns", "other"): 1}
    found = preemption(waiting(where, missing=2), running, where, Ledger.of(where), spare)
    assert found is not None
    assert ended(found) == {"low": 1, "other": 1}


def test_replicas_of_one_owner_with_two_splits_on_one_node_are_named_apart() -> None:
    where = fleet(node("a", H100, 3, held=3))
    running = [runs("both", "a", "2"), runs("both", "a", "4", gpus=2)]
    found = proposed(waiting(where, missing=3), running, where)
    assert [(each.leaving.target.split.gpus, each.leaving.replicas) for each in found.changes] == [(1, 1), (2, 1)]


@every_case("seed", range(60))
def test_nobody_gives_more_than_it_can_do_without(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a fixed seed
    running = [
        runs(draw.choice("xyz"), draw.choice("abc"), str(draw.randint(1, 9)), gpus=draw.choice([1, 1, 2, 4]))
        for _ in range(draw.randint(1, 8))
    ]
    held = {name: sum(each.gpus for each in running if each.node == name) for name in "abc"}
    where = fleet(*(node(name, H100, held[name] + draw.randint(0, 2), held=held[name]) for name in "abc"))
    wants = waiting(where, missing=draw.randint(1, 3), gpus=draw.choice([1, 2, 4]))
    spare = {ObjectKey("ns", name): draw.randint(0, 3) for name in "xyz"}
    found = preemption(wants, running, where, Ledger.of(where), spare)
    if found is not None:
        assert all(count <= spare[ObjectKey("ns", name)] for name, count in ended(found).items())
    free = preemption(wants, running, where, Ledger.of(where))
    all_of_them = preemption(wants, running, where, Ledger.of(where), {ObjectKey("ns", name): 8 for name in "xyz"})
    assert (None if free is None else free.numbers) == (None if all_of_them is None else all_of_them.numbers)


def test_of_two_types_the_one_whose_replicas_cost_less_is_emptied() -> None:
    where = fleet(node("a", H100, 1, held=1), node("b", A100, 1, held=1))
    wants = waiting(where, allow=(H100, A100))
    running = [runs("x", "a", "3"), runs("y", "b", "2", kind=A100)]
    assert ended(proposed(wants, running, where)) == {"y": 1}


def test_an_owner_that_must_keep_replicas_leaves_the_others_nodes_to_be_tried() -> None:
    """The nodes differ in their owners alone, and the first two are of one that can do without one replica only."""
    where = fleet(*(node(name, H100, 1, held=1) for name in ("a", "b", "c")))
    running = [runs("keeps", "a", "2"), runs("keeps", "b", "2"), runs("other", "c", "2")]
    spare = {ObjectKey("ns", "keeps"): 1, ObjectKey("ns", "other"): 1}
    found = preemption(waiting(where, missing=2), running, where, Ledger.of(where), spare)
    assert found is not None
    assert ended(found) == {"keeps": 1, "other": 1}


@pytest.mark.parametrize(
    ("alike", "sets"), [((1,) * 12, 4096), ((16, 240), 0), ((1,) * 13, 0), ((3,), 4), ((), 1)], ids=str
)
def test_up_to_4096_sets_of_replicas_are_tried_and_of_more_none(alike: tuple[int, ...], sets: int) -> None:
    """Of 16 that are alike and 240 others there are 17 * 241 = 4097 sets."""
    replicas = [runs(str(kind), "h", "1") for kind, count in enumerate(alike) for _ in range(count)]
    found = list(ways(replicas, lambda each: each.owner, lambda each: (each.price,)))
    assert (len(found), len({tuple(map(id, each)) for each in found})) == (sets, sets)


@pytest.mark.parametrize(("a100", "kind"), [("0.5", A100), ("9", H100), (None, H100)])
def test_of_types_that_are_emptied_at_the_same_cost_the_cheaper_one_is_taken_and_one_without_a_price_last(
    a100: str | None, kind: str
) -> None:
    where = fleet(node("a", gpu(A100, price=a100), 1, held=1), node("b", gpu(H100, price="3"), 1, held=1))
    running = [runs("x", "a", "2", kind=A100), runs("y", "b", "2")]
    [change] = proposed(waiting(where, allow=(H100, A100)), running, where).changes
    assert change.leaving.target.gpu_type == kind
