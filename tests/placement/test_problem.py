"""The numbers of a problem, by value: choices that no other one beats, bills, sizes, and a part of its demands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.host import NO_HOST_NEED, HostNeed, HostRoom
from plimsoll.domain.cluster.priorities import Priority
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.requests.serving import Overrides
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.pools import Tenant
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.plan import demands_of
from plimsoll.placement.solvers.problem import Choice, Group, Kind, Posed, Problem, pose, undominated
from tests.support.planning import H100, L40S, fleet, node, request, tenant


def choice(
    card: str, gpus: int, price: float, doubts: int = 0, need: HostNeed = NO_HOST_NEED, *, size: int = 0
) -> Choice:
    return Choice((card, Split(gpus)), gpus, price, doubts, (0,), need=need, size=size)


def kind(*choices: Choice, sizes: tuple[int, ...] = (1,)) -> Kind:
    return Kind(choices, sizes, whole=False, spare=0, level=0)


SMALL, LARGE = HostNeed(1000, 10), HostNeed(2000, 20)


@pytest.mark.parametrize(
    ("choices", "kept"),
    [
        ([choice("a", 1, 1.0), choice("a", 2, 2.0)], [0]),
        ([choice("a", 2, 2.0), choice("a", 1, 1.0)], [1]),
        ([choice("a", 1, 1.0), choice("b", 2, 2.0)], [0, 1]),
        ([choice("a", 1, 1.0, 1), choice("a", 2, 2.0)], [1, 0]),
        ([choice("a", 1, 1.0, 1), choice("a", 1, 2.0)], [1]),
        ([choice("a", 1, 1.0, 0, LARGE), choice("a", 2, 2.0, 0, SMALL)], [0, 1]),
        ([choice("a", 1, 1.0, 0, SMALL), choice("a", 2, 2.0, 0, LARGE)], [0]),
        ([choice("a", 1, 1.0, 0, SMALL), choice("a", 2, 2.0, 0, SMALL)], [0]),
        ([choice("a", 1, 3.0), choice("b", 1, 1.0), choice("b", 2, 2.0), choice("a", 2, 2.5)], [1, 3, 0]),
        ([], []),
    ],
    ids=[
        "more GPUs of the same card",
        "in any order",
        "another card",
        "more GPUs without the doubt",
        "as many GPUs without the doubt, for more",
        "less of the host",
        "more of the host",
        "as much of the host",
        "the preferred ones first",
        "none",
    ],
)
def test_a_choice_that_a_smaller_one_of_the_same_card_beats_is_left_out(choices: list[Choice], kept: list[int]) -> None:
    assert undominated(choices) == tuple(choices[index] for index in kept)


def test_of_equal_prices_fewer_gpus_of_a_pod_come_first_and_then_fewer_engines_and_stages() -> None:
    splits = [Split(4, 1, 2), Split(4, 2, 1), Split(4), Split(2), Split(1)]
    found = undominated([Choice((f"{index}", each), 1, 1.0, 0, (0,)) for index, each in enumerate(splits)])
    pods = [each.place[1].shape.gpus_per_pod for each in found]
    assert pods == sorted(pods)
    assert found[0].place[1] == Split(1)
    same = [each.place[1] for each in found if each.place[1].shape.gpus_per_pod == 4]
    assert same == sorted(same, key=lambda each: (each.data_parallel, each.pipeline_parallel))


def test_the_least_bill_is_of_the_cheapest_size_of_each_deployment() -> None:
    sized = kind(choice("a", 2, 4.0), choice("b", 1, 1.0, size=1), sizes=(1, 3))
    other = kind(choice("a", 1, 2.5), choice("b", 1, 3.0), sizes=(2,))
    problem = Problem((sized, other), (2, 3), ())
    assert problem.least_bill == 2 * 3.0 + 3 * 5.0
    assert problem.choices_of_sizes == 2
    assert Problem((other,), (1,), ()).choices_of_sizes == 0


def test_replicas_of_another_size_count_by_the_load_that_they_serve() -> None:
    sized = kind(choice("a", 2, 4.0), choice("b", 1, 1.0, size=1), choice("c", 1, 2.0), sizes=(2, 6))
    assert (sized.replicas, sized.of_size(0), sized.of_size(1)) == (2, [0, 2], [1])
    assert [sized.weighed(0, 1), sized.weighed(1, 3), sized.weighed(1, 6)] == [1, 1, 2]


def test_a_part_of_the_demands_has_a_kind_for_each_patience() -> None:
    """The kinds that lose all their members go, and nobody may miss more replicas than it has."""
    first, second, third = (kind(choice(card, 1, 1.0), sizes=(2,)) for card in "abc")
    problem = Problem((first, second, third), (3, 1, 1), (Group(((1, 4),)),), (7.0,))
    posed = Posed(problem, ((0, 1, 4), (2,), (3,)), ((),), ((0, 1, 2, 3, 4),))
    found = posed.among({0, 1, 3, 4}, {4: (9, 2), 0: (1, 0)})
    assert found.members == ((1,), (0,), (4,), (3,))
    assert found.problem.counts == (1, 1, 1, 1)
    assert [(each.choices[0].place[0], each.spare, each.level) for each in found.problem.kinds] == [
        ("a", 0, 0),
        ("a", 1, 0),
        ("a", 2, 2),
        ("c", 0, 0),
    ]
    assert (found.problem.groups, found.problem.quotas, found.levels) == (problem.groups, (7.0,), posed.levels)
    assert posed.among({0, 1, 4}, {}).members == ((0, 1, 4),)
    assert posed.among({0, 1, 4}, {}).problem.counts == (3,)


class TestPose:
    """The problem of demands on a fleet."""

    WHERE = fleet(node("l", L40S, 4), node("m", L40S, 2, held=1), node("h", H100, 2), node("z", H100, 8, held=8))
    QUOTA: ClassVar = {
        "nvidia.com/gpu": 3, "requests.cpu": 9500, "requests.memory": 64 * GIB, "limits.memory": -GIB,
        "limits.cpu": 4000, "pods": 9,
    }  # fmt: skip

    @classmethod
    def posed(cls, *tenants: Tenant, quota: dict[str, int] | None = None, where: Fleet | None = None) -> Posed:
        where = where or cls.WHERE
        demands = dict(enumerate(demands_of(tenants, where, Memo())))
        return pose(demands, where, Ledger.of(where, None if quota is None else {"default": quota}))

    @staticmethod
    def asks(name: str, **changes: Any) -> Tenant:
        return tenant(request(name=name, created=name, cpu_millis=4000, memory_bytes=16 * GIB, **changes))

    def test_equal_deployments_are_one_kind_and_equal_nodes_one_group(self) -> None:
        found = self.posed(*map(self.asks, "abc"), self.asks("d", replicas=2))
        assert found.members == ((0, 1, 2), (3,))
        assert found.problem.counts == (3, 1)
        assert [each.sizes for each in found.problem.kinds] == [(1,), (2,)]
        assert [[each.name for each in nodes] for nodes in found.nodes] == [["h"], ["l", "m"]], "z has nothing free"
        assert [each.slots for each in found.problem.groups] == [((1, 2),), ((1, 5),)]
        first, second = found.problem.kinds[0].choices
        assert (first.place[0], first.groups, second.place[0], second.groups) == (L40S, (1,), H100, (0,))
        assert (first.gpus, first.need.cpu_millis, first.need.memory_bytes) == (1, 4000, 16 * GIB)
        assert found.problem.quotas == ()

    def test_a_higher_priority_comes_first_and_equals_in_the_order_of_decisions(self) -> None:
        urgent = replace(self.asks("c"), priority=Priority(5))
        assert self.posed(self.asks("a"), self.asks("b"), urgent).levels == ((0,), (1, 2))

    def test_what_is_left_of_a_quota_and_what_a_replica_uses_are_in_the_same_units(self) -> None:
        found = self.posed(self.asks("a"), quota=self.QUOTA)
        by_amount = dict(found.problem.kinds[0].choices[0].quotas)
        left = {found.problem.quotas[index]: amount for index, amount in by_amount.items()}
        assert left == {3: 1, 9.5: 4.0, 64.0: 16.0, 0: 16.0, 4.0: 4.0, 9: 1}, "less than nothing is left as nothing"

    def test_under_a_quota_the_class_of_a_pod_makes_another_kind(self) -> None:
        classes = [self.asks("a"), self.asks("b", priority_class="high"), self.asks("c", priority_class="high")]
        roomy = {"nvidia.com/gpu": 8, "requests.cpu": 64_000, "requests.memory": 640 * GIB}
        assert self.posed(*classes, quota=roomy).members == ((0,), (1, 2))

    def test_whoever_has_no_choice_is_left_out(self) -> None:
        hopeless = self.asks("b", overrides=Overrides(tensor_parallel=8))
        found = self.posed(self.asks("a"), hopeless, self.asks("c"))
        assert (found.members, found.levels) == (((0, 2),), ((0, 2),))

    def test_the_free_cpu_and_memory_of_a_group_are_known_if_all_of_its_nodes_say_so(self) -> None:
        def host(name: str, cpu: int, memory: int) -> GpuNode:
            room = HostRoom(cpu, memory, 110)
            return replace(node(name, L40S, 4), host=HostRoom(64_000, 512 * GIB, 110), host_free=room)

        both = fleet(host("a", 9000, 20 * GIB), host("b", 5000, 100 * GIB))
        (group,) = self.posed(self.asks("x"), where=both).problem.groups
        assert (group.cpu_millis, group.memory_bytes, group.slots) == (14_000, 120 * GIB, ((1, 8),))
        assert group.pods == ((1, 1 + 1),), "one for the memory of the first, one for the cores of the second"
        (group,) = self.posed(self.asks("x"), where=fleet(host("a", 9000, 20 * GIB), node("b", L40S, 4))).problem.groups
        assert (group.cpu_millis, group.memory_bytes) == (None, None)
