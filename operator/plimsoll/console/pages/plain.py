"""Pages of what is at hand: nothing is asked for them but the core."""

from __future__ import annotations

import asyncio

from plimsoll.console.drawing.error_strip import error_strip, reach_of
from plimsoll.console.rendering import meanings
from plimsoll.console.views.accuracy import CLOSE_PERMILLE, accuracy_of
from plimsoll.console.views.calculator.page import calculator_of
from plimsoll.console.views.paging import part_of
from plimsoll.console.visit import ConsolePage, Visit


async def calculator(visit: Visit) -> ConsolePage:
    """The memory that a model needs: ``plimsoll estimate`` as a form. It asks the core alone, in a thread."""
    found = await asyncio.to_thread(calculator_of, visit.query)
    return ConsolePage("calculator.html", "Calculator", {"found": found, "action": visit.path}, is_live=False)


async def accuracy(visit: Visit) -> ConsolePage:
    """May the figures be trusted? Predictions against reports, by model and GPU type."""
    found = accuracy_of(visit.world.rows.values())
    part = part_of(found.groups, visit.path, visit.query)
    reach = reach_of([error for group in found.groups for error in group.errors])
    lines = [(group, error_strip(group.errors, reach, CLOSE_PERMILLE)) for group in part.items]
    return ConsolePage(
        "accuracy.html", "Accuracy", {"found": found, "part": part, "lines": lines, "reach": reach // 10}
    )


async def words(visit: Visit) -> ConsolePage:  # noqa: ARG001 - the words are the same for everybody
    """All public words."""
    return ConsolePage("words.html", "Words", {"meanings": tuple(meanings().values())}, is_live=False)
