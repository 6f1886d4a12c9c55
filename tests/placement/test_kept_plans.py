"""The plan of a drawn world stays what it is, unless somebody changes the planner and means it. So do proposals."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.placement.kept_plans import kept_plans
from tests.placement.kept_proposals import kept_proposals
from tests.support.kept import moved

pytestmark = pytest.mark.lengthy

ROOT = Path(__file__).resolve().parents[2]


def test_a_change_of_the_planner_shows_the_plans_that_it_changes() -> None:
    ((path, text),) = kept_plans()
    changed = moved(path, text, "world")
    assert not changed if has_pinned_solver() else len(changed) <= 7, changed
    assert text.count("\n") >= 140


def has_pinned_solver() -> bool:
    """Whether HiGHS has the release of the kept plans. Another one may choose otherwise among plans of equal bills."""
    return f"highspy=={version('highspy')}\n" in (ROOT / "constraints.txt").read_text()


def test_a_change_of_the_search_shows_the_proposals_that_it_changes() -> None:
    ((path, text),) = kept_proposals()
    assert moved(path, text, "world") == {}
    assert text.count('"ends"') >= 200
    assert text.count('"moves"') >= 100
