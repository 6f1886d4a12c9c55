"""The plan of a drawn world stays what it is, unless somebody changes the planner and means it."""

from __future__ import annotations

from tests.placement.kept_plans import kept_plans
from tests.support.kept import moved


def test_a_change_of_the_planner_shows_the_plans_that_it_changes() -> None:
    ((path, text),) = kept_plans()
    assert moved(path, text, "world") == {}
    assert text.count("\n") >= 100
