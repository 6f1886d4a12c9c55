"""Event streams are bounded, in total and for each person."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from plimsoll.console.guards.refusals import Refusal
from plimsoll.console.guards.streams import Budget


def opened(budget: Budget, *people: str) -> ExitStack:
    stack = ExitStack()
    for person in people:
        stack.enter_context(budget.place(person))
    return stack


def test_the_total_is_bounded_and_a_closed_stream_makes_room() -> None:
    budget = Budget(most=2, most_of_one=2)
    with opened(budget, "a", "b"):
        with pytest.raises(Refusal) as refused, budget.place("c"):
            pass
        assert refused.value.status == 503
        assert int(refused.value.headers["Retry-After"]) > 0
    with opened(budget, "c"):
        assert budget.open == 1


def test_one_person_cannot_take_the_places_of_others() -> None:
    budget = Budget(most=3, most_of_one=2)
    with opened(budget, "a", "a"):
        with pytest.raises(Refusal), budget.place("a"):
            pass
        with opened(budget, "b"):
            assert budget.open == 3
    assert budget.open == 0


def test_a_stream_that_fails_gives_its_place_back() -> None:
    budget = Budget(most=1)
    with pytest.raises(OSError, match="gone"), budget.place("a"):
        raise OSError("gone")
    assert budget.open == 0
    with opened(budget, "b"):
        assert budget.open == 1


def test_refused_strangers_are_not_remembered() -> None:
    budget = Budget(most=1)
    with opened(budget, "a"):
        for number in range(100):
            with pytest.raises(Refusal), budget.place(f"stranger-{number}"):
                pass
        assert len(budget._open) == 1  # noqa: SLF001 - the map's size is the point
