"""The estimate for a start stays what it is, unless somebody changes a law and means it.

Every start that was measured is here, and others of every kind of model with every kind of option. Whether an estimate
is right is another question: ``make accuracy`` compares it with what the engines printed. Here a change shows which
starts it moves, and by how much. ``make goldens`` takes it over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.kept import estimated_kinds, estimated_starts


def by_start(text: str) -> dict[str, dict[str, Any]]:
    return {line["start"]: line for line in map(json.loads, text.splitlines())}


@pytest.mark.parametrize(("estimated", "at_least"), [(estimated_starts, 150), (estimated_kinds, 700)])
def test_a_change_of_a_law_shows_the_starts_that_it_moves(
    estimated: Callable[[], Iterator[tuple[Path, str]]], at_least: int
) -> None:
    ((path, text),) = estimated()
    expected, found = by_start(path.read_text(encoding="utf-8")), by_start(text)
    moved = {
        start: {name: (expected.get(start, {}).get(name), value) for name, value in line.items()}
        for start, line in found.items()
        if line != expected.get(start)
    }
    assert moved == {}
    assert list(expected) == list(found)
    assert len(expected) > at_least
