"""``/words``: every public word with its sentence, so that each code in the console can link to what it means."""

from __future__ import annotations

from plimsoll.console.sources.meanings import meanings
from plimsoll.console.visit import Page, Visit


async def words(visit: Visit) -> Page:  # noqa: ARG001 - the words are the same for everybody
    """All public words."""
    return Page("words.html", "Words", {"meanings": tuple(meanings().values())}, is_live=False)
