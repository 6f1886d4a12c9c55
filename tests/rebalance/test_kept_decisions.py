"""The decision in a drawn situation stays what it is, unless somebody changes a law and means it."""

from __future__ import annotations

from tests.rebalance.kept_decisions import kept_decisions
from tests.support.kept import moved


def test_a_change_of_a_law_shows_the_decisions_that_it_changes() -> None:
    ((path, text),) = kept_decisions()
    assert moved(path, text, "course", "turn", "season") == {}
    assert text.count("\n") > 600
