"""The worths of limits, step by step, against steps that were computed by hand."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.placement.solvers import worths
from plimsoll.placement.solvers.limits import Limit, Where
from plimsoll.placement.solvers.problem import Choice, Kind, Problem
from plimsoll.placement.solvers.worths import Costs, Worths, uses_of

Uses = dict[Where, list[tuple[int, float]]]


def choice(group: int, *, size: int = 0, price: float = 1.0, doubts: int = 0) -> Choice:
    return Choice((f"g{group}", Split(1)), 1, price, doubts, (group,), size=size)


def problem(*choices: Choice, sizes: tuple[int, ...] = (1,), count: int = 1) -> Problem:
    return Problem((Kind(choices, sizes, whole=False, spare=0, level=0),), (count,), ())


def costs(posed: Problem, room: list[float], uses: Uses) -> dict[int, float]:
    """The costs of the choices of the only kind."""
    [found] = Worths(posed, room, uses).costs()
    return {index: cost for (index, _), cost in found}


@pytest.mark.parametrize(
    ("steps", "first", "second"),
    [
        (0, 0.0, 0.0),
        (1, 1.0, 0.0),  # all six want the first: (6 - 2) / 2²; the other has room, and is worth nothing
        (2, 0.823223, 8.131728),  # the other is free: 12 of 0.5; the first is left: 1 - 2 / 2² / √2; their means
        (3, 0.956748, 10.649854),  # and back: 0.646447 + 4 / 2² / √3, 8.131728 - 0.5 / √3
    ],
)
def test_what_more_want_than_there_is_becomes_dearer_and_what_is_left_cheaper(
    monkeypatch: pytest.MonkeyPatch, steps: int, first: float, second: float
) -> None:
    monkeypatch.setattr(worths, "STEPS", steps)
    uses: Uses = {(0, 0, 0): [(0, 1.0)], (0, 1, 1): [(1, 2.0)]}
    found = costs(problem(choice(0), choice(1), sizes=(2,), count=3), [2.0, 0.5], uses)
    assert found == {0: pytest.approx(first, abs=1e-6), 1: pytest.approx(second, abs=1e-6)}


@pytest.mark.parametrize(("most", "first"), [(7, 0.956748), (6, 0.956748), (5, 0.823223), (1, 0.0)])
def test_a_problem_with_many_choices_has_fewer_steps(monkeypatch: pytest.MonkeyPatch, most: int, first: float) -> None:
    """Two choices have three steps if six costs may be computed, and two if five may."""
    monkeypatch.setattr(worths, "MOST_COSTS", most)
    uses: Uses = {(0, 0, 0): [(0, 1.0)], (0, 1, 1): [(1, 2.0)]}
    found = costs(problem(choice(0), choice(1), sizes=(2,), count=3), [2.0, 0.5], uses)
    assert found[0] == pytest.approx(first, abs=1e-6)


def test_no_kinds_have_no_costs() -> None:
    assert Worths(Problem((), (), ()), [], {}).costs() == ()


@pytest.mark.parametrize(
    ("count", "mean"),
    [
        (3, 1.646447),  # (3 - 1), which is more than a replica: then nobody wants it, 2 - 1 / √2
        (2, 0.646447),  # exactly one replica: nobody wants it, either
        (1, 0.0),  # one replica has room for nothing more
    ],
)
def test_nobody_takes_room_that_is_worth_as_much_as_the_replica(
    monkeypatch: pytest.MonkeyPatch, count: int, mean: float
) -> None:
    monkeypatch.setattr(worths, "STEPS", 2)
    assert costs(problem(choice(0), count=count), [1.0], {(0, 0, 0): [(0, 1.0)]}) == {0: pytest.approx(mean, abs=1e-6)}


def test_a_choice_of_another_size_costs_as_much_as_all_its_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two deployments of one large or three small replicas.

    The large ones first: (2 - 1), 0. Then the small ones, which are free: 1 - 1 / √2, (6 - 1) / √2. Then the large ones
    again, for 0.29 instead of three times 3.5: 0.292893 + 1 / √3, 3.535534 - 1 / √3.
    """
    monkeypatch.setattr(worths, "STEPS", 3)
    posed = problem(choice(0), choice(1, size=1), sizes=(1, 3), count=2)
    found = costs(posed, [1.0, 1.0], {(0, 0, 0): [(0, 1.0)], (0, 1, 1): [(1, 1.0)]})
    assert found == {0: pytest.approx(0.721045, abs=1e-6), 1: pytest.approx(2.164573, abs=1e-6)}


def test_several_kinds_want_the_same_room_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of one kind and one of three replicas of the other: (4 + 3 - 2) / 2², for two units of it 2.5."""
    monkeypatch.setattr(worths, "STEPS", 1)
    kinds = tuple(Kind((choice(0),), sizes, whole=False, spare=0, level=0) for sizes in ((1,), (3,)))
    found: Costs = Worths(Problem(kinds, (4, 1), ()), [2.0], {(0, 0, 0): [(0, 1.0)], (1, 0, 0): [(0, 1.0)]}).costs()
    assert found == ((((0, 0), 1.25),), (((0, 0), 1.25),))


def test_of_equal_costs_the_one_with_fewer_doubts_comes_first_then_the_cheaper_one() -> None:
    choices = (choice(0, price=1.0, doubts=1), choice(1, price=5.0), choice(2, price=3.0), choice(3, price=3.0))
    uses: Uses = {(0, index, index): [(index, 1.0)] for index in range(4)}
    assert list(costs(problem(*choices), [1.0] * 4, uses)) == [2, 3, 1, 0]


@pytest.mark.parametrize(("more", "order"), [(5e-8, [1, 0]), (1e-6, [0, 1])])
def test_costs_are_equal_if_rounding_alone_divides_them(
    monkeypatch: pytest.MonkeyPatch, more: float, order: list[int]
) -> None:
    """The room is worth 2, so the costs differ by twice as much: less than a millionth, and more."""
    monkeypatch.setattr(worths, "STEPS", 1)
    posed = problem(choice(0, price=2.0), choice(0, price=1.0), count=3)
    assert list(costs(posed, [1.0], {(0, 0, 0): [(0, 1.0)], (0, 1, 0): [(0, 1.0 + more)]})) == order


def test_each_use_is_found_by_the_number_of_its_limit() -> None:
    posed = problem(choice(0), choice(1))
    limits = [Limit(4.0, (((0, 0, 0), 2.0),)), Limit(1.0, (((0, 0, 0), 1.0),))]
    assert uses_of(posed, limits) == {(0, 0, 0): [(0, 2.0), (1, 1.0)], (0, 1, 1): []}


class Many(list[Any]):
    """Choices that are only counted."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.number = count

    def __len__(self) -> int:
        return self.number


@pytest.mark.parametrize(("choices", "steps"), [(1, 500), (2000, 500), (2001, 499), (1_000_000, 1), (1_000_001, 0)])
def test_a_choice_is_costed_at_most_a_million_times_in_at_most_five_hundred_steps(
    monkeypatch: pytest.MonkeyPatch, choices: int, steps: int
) -> None:
    taken = itertools.count()
    monkeypatch.setattr(Worths, "_taken", lambda *_: [0.0 * next(taken)])
    found = Worths(problem(), [], {})
    found.places = [Many(choices)]
    assert found.costs() == ((),)
    assert next(taken) == steps
