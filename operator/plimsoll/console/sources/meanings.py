"""The packaged copy of ``docs/reasons.md``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from plimsoll.console.views.reasons import Meaning, meanings_of


@cache
def meanings() -> Mapping[str, Meaning]:
    """Return the meaning of every public word."""
    return meanings_of((files("plimsoll.console") / "reasons.md").read_text(encoding="utf-8"))
