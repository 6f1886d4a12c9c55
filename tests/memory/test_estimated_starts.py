"""The estimate for a start stays what it is, unless somebody changes a law and means it.

Every start that was measured is here, and others of every kind of model with every kind of option. Whether an estimate
is right is another question: ``make accuracy`` compares it with what the engines printed. Here a change shows which
starts it moves, and by how much. ``make goldens`` takes it over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.accuracy.kept import estimated_kinds, estimated_starts
from tests.support.kept import moved


@pytest.mark.parametrize(("estimated", "at_least"), [(estimated_starts, 150), (estimated_kinds, 700)])
def test_a_change_of_a_law_shows_the_starts_that_it_moves(
    estimated: Callable[[], Iterator[tuple[Path, str]]], at_least: int
) -> None:
    ((path, text),) = estimated()
    assert moved(path, text, "start") == {}
    assert text.count("\n") > at_least
