"""The limits of a problem, by value: what a replica uses of the slots, the host and the quota."""

from __future__ import annotations

from plimsoll.domain.cluster.host import NO_HOST_NEED, HostNeed
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.units import GIB
from plimsoll.placement.solvers.limits import Limit, limits_of
from plimsoll.placement.solvers.problem import Choice, Group, Kind, Problem


def choice(
    gpus: int, *groups: int, need: HostNeed = NO_HOST_NEED, quotas: tuple[tuple[int, float], ...] = ()
) -> Choice:
    return Choice(("g", Split(gpus)), gpus, 1.0, 0, groups, quotas, need)


def kind(*choices: Choice) -> Kind:
    return Kind(choices, (1,), whole=False, spare=0, level=0)


def limits(group: Group, *choices: Choice, quotas: tuple[float, ...] = ()) -> list[Limit]:
    return limits_of(Problem((kind(*choices),), (1,), (group,), quotas))


def test_a_replica_takes_as_many_slots_of_each_size_as_it_has_whole_times_as_many_gpus() -> None:
    found = limits(Group(((1, 7), (2, 3), (4, 1))), choice(1, 0), choice(2, 0), choice(4, 0))
    assert found == [
        Limit(7, (((0, 0, 0), 1), ((0, 1, 0), 2), ((0, 2, 0), 4))),
        Limit(3, (((0, 1, 0), 1), ((0, 2, 0), 2))),
        Limit(1, (((0, 2, 0), 1),)),
    ]


def test_a_pod_counts_among_those_of_its_size_and_of_all_smaller_ones() -> None:
    found = limits(Group((), pods=((1, 3), (2, 2))), choice(1, 0), choice(2, 0), choice(4, 0))
    assert found == [
        Limit(3, (((0, 0, 0), 1.0), ((0, 1, 0), 1.0), ((0, 2, 0), 1.0))),
        Limit(2, (((0, 1, 0), 1.0), ((0, 2, 0), 1.0))),
    ]


def test_cores_memory_and_further_resources_are_of_one_order_of_magnitude() -> None:
    need = HostNeed(2500, 3 * GIB, (("hugepages-2Mi", 2 * GIB), ("example.com/nic", 2)))
    others = (("ephemeral-storage", 10 * GIB), ("example.com/nic", 4), ("hugepages-2Mi", 6 * GIB))
    group = Group((), cpu_millis=8000, memory_bytes=12 * GIB, others=others)
    assert limits(group, choice(1, 0, need=need), choice(1, 0)) == [
        Limit(8.0, (((0, 0, 0), 2.5),)),
        Limit(12.0, (((0, 0, 0), 3.0),)),
        Limit(4.0, (((0, 0, 0), 2.0),)),
        Limit(6.0, (((0, 0, 0), 2.0),)),
    ], "what nobody uses limits nobody"


def test_a_node_without_a_known_limit_sets_none() -> None:
    assert limits(Group((), cpu_millis=None, memory_bytes=None), choice(1, 0, need=HostNeed(2500, 3 * GIB))) == []
    used = choice(1, 0, need=HostNeed(1000, GIB))
    assert [each.at_most for each in limits(Group((), cpu_millis=0, memory_bytes=0), used)] == [0.0, 0.0]


def test_a_quota_is_used_in_every_group_and_by_every_kind() -> None:
    first, second = (
        kind(choice(1, 0, 1, quotas=((0, 2.0), (1, 1.0)))),
        kind(choice(1, 1, quotas=((0, 4.0),)), choice(2, 1)),
    )
    found = limits_of(Problem((first, second), (1, 1), (Group(()), Group(((1, 8),))), (6.0, 3.0)))
    assert found == [
        Limit(8, (((0, 0, 1), 1), ((1, 0, 1), 1), ((1, 1, 1), 2))),
        Limit(6.0, (((0, 0, 0), 2.0), ((0, 0, 1), 2.0), ((1, 0, 1), 4.0))),
        Limit(3.0, (((0, 0, 0), 1.0), ((0, 0, 1), 1.0))),
    ]
