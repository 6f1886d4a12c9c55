"""What a change moves in a file of kept answers, a line of JSON each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def moved(path: Path, text: str, *names: str) -> dict[tuple[Any, ...], dict[str, tuple[Any, Any]]]:
    """Return the fields that differ, as they are kept and as they are now, by the names of their lines.

    Args:
        path: the file of kept answers.
        text: what it would be now.
        names: the fields that name a line.
    """
    kept, now = _by_name(path.read_text(encoding="utf-8"), names), _by_name(text, names)
    found = {}
    for name in sorted(kept.keys() | now.keys(), key=str):
        before, after = kept.get(name, {}), now.get(name, {})
        found[name] = {
            field: (before.get(field), after.get(field))
            for field in before | after
            if before.get(field) != after.get(field)
        }
    return {name: fields for name, fields in found.items() if fields}


def _by_name(text: str, names: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    found = {tuple(line.get(name) for name in names): line for line in lines}
    assert len(found) == len(lines), "two lines of one name"
    return found
