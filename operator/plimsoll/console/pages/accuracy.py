"""``/accuracy``."""

from __future__ import annotations

from plimsoll.console.drawing.error_strip import error_strip, reach_of
from plimsoll.console.views.accuracy import CLOSE_PERMILLE, accuracy_of
from plimsoll.console.views.paging import part_of
from plimsoll.console.visit import Page, Visit


async def accuracy(visit: Visit) -> Page:
    """May the figures be trusted? Predictions against reports, by model and GPU type."""
    found = accuracy_of(visit.world.rows.values())
    part = part_of(found.groups, visit.path, visit.query)
    reach = reach_of([error for group in found.groups for error in group.errors])
    lines = [(group, error_strip(group.errors, reach, CLOSE_PERMILLE)) for group in part.items]
    return Page("accuracy.html", "Accuracy", {"found": found, "part": part, "lines": lines, "reach": reach // 10})
