"""The numbers of a problem, by value: choices that no other one beats, bills, sizes, and a part of its demands."""

from __future__ import annotations

import pytest

from plimsoll.domain.cluster.host import NO_HOST_NEED, HostNeed
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.placement.solvers.problem import Choice, Group, Kind, Posed, Problem, undominated


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
