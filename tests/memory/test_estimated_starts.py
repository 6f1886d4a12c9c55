"""The estimate for every start that was measured stays what it is, unless somebody changes a law and means it.

Whether it is right is another question: ``make accuracy`` compares it with what the engines printed. Here a change
shows which starts it moves, and by how much. ``make goldens`` takes it over.
"""

from __future__ import annotations

import json
from typing import Any

from scripts.update_goldens import ESTIMATED_STARTS, estimated_starts


def by_start(text: str) -> dict[str, dict[str, Any]]:
    return {line["start"]: line for line in map(json.loads, text.splitlines())}


def test_a_change_of_a_law_shows_the_starts_that_it_moves() -> None:
    expected = by_start(ESTIMATED_STARTS.read_text(encoding="utf-8"))
    ((_, text),) = estimated_starts()
    found = by_start(text)
    moved = {
        start: {name: (expected.get(start, {}).get(name), value) for name, value in line.items()}
        for start, line in found.items()
        if line != expected.get(start)
    }
    assert moved == {}
    assert list(expected) == list(found)
    assert len(expected) > 150
