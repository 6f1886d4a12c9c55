"""Pages of what is at hand: nothing is asked for them but the core."""

from __future__ import annotations

import asyncio

from plimsoll.console.drawing.error_strip import error_strip, reach_of
from plimsoll.console.rendering import meanings
from plimsoll.console.views.accuracy import CLOSE_PERMILLE, SORTS, accuracy_of
from plimsoll.console.views.calculator.page import calculator_of
from plimsoll.console.views.changes import SPANS, changes_of, span_links, span_of
from plimsoll.console.views.paging import part_of
from plimsoll.console.views.sorting import sorted_items
from plimsoll.console.visit import ConsolePage, Visit


async def calculator(visit: Visit) -> ConsolePage:
    """The memory that a model needs: ``plimsoll estimate`` as a form. It asks the core alone, in a thread.

    The GPU types of the cluster come first; without the right to list nodes, those that deployments are on.
    """
    found = await asyncio.to_thread(calculator_of, visit.query, visit.world.gpu_types)
    return ConsolePage("calculator.html", "Calculator", {"found": found, "action": visit.path}, is_live=False)


async def accuracy(visit: Visit) -> ConsolePage:
    """May the figures be trusted? Predictions against reports, by model and GPU type."""
    found = accuracy_of(visit.world.rows.values())
    order = sorted_items(found.groups, SORTS, visit.path, visit.query)
    part = part_of(order.items, visit.path, visit.query)
    reach = reach_of([error for group in found.groups for error in group.errors])
    lines = [(group, error_strip(group.errors, reach, CLOSE_PERMILLE)) for group in part.items]
    values = {"found": found, "part": part, "order": order, "lines": lines, "reach": reach // 10}
    return ConsolePage("accuracy.html", "Accuracy", values)


async def changes(visit: Visit) -> ConsolePage:
    """List the changes since yesterday, or in another time."""
    since, search = span_of(visit.first("since")), visit.first("q")
    seconds, shown = SPANS[since]
    part = part_of(changes_of(visit.world, visit.now, seconds, search), visit.path, visit.query)
    values = {
        "part": part, "search": search, "since": since, "shown": shown,
        "spans": span_links(since, visit.query, visit.path),
    }  # fmt: skip
    return ConsolePage("changes.html", "Changes", values)


async def words(visit: Visit) -> ConsolePage:  # noqa: ARG001 - the words are the same for everybody
    """All public words."""
    return ConsolePage("words.html", "Words", {"meanings": tuple(meanings().values())}, is_live=False)
