"""``/``: the inbox."""

from __future__ import annotations

from plimsoll.console.views.paging import part_of
from plimsoll.console.views.proposals.inbox import groups_of, inbox_of
from plimsoll.console.views.proposals.page import costs_by_proposal
from plimsoll.console.views.states import summary_of
from plimsoll.console.visit import Page, Visit


async def inbox(visit: Visit) -> Page:
    """The things that need a person, by kind of trouble."""
    items = inbox_of(visit.world, visit.now).items
    part = part_of(items, visit.path, visit.query)
    values = {"part": part, "groups": groups_of(part.items, items), "summary": summary_of(visit.world)}
    return Page("inbox.html", "Inbox", values | {"costs": costs_by_proposal(visit.world, part.items)})
