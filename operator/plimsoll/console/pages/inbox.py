"""``/``: the inbox."""

from __future__ import annotations

from plimsoll.console.views.inbox import inbox_of
from plimsoll.console.views.paging import part_of
from plimsoll.console.views.summary import summary_of
from plimsoll.console.visit import Page, Visit


async def inbox(visit: Visit) -> Page:
    """What needs a person."""
    part = part_of(inbox_of(visit.world, visit.now).items, visit.path, visit.query)
    return Page("inbox.html", "Inbox", {"part": part, "summary": summary_of(visit.world)})
