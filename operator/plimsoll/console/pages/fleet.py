"""``/fleet``."""

from __future__ import annotations

from typing import Any

from plimsoll.console.views.fleet import fleet_of
from plimsoll.console.views.summary import summary_of
from plimsoll.console.visit import Page, Visit


async def fleet(visit: Visit) -> Page:
    """The map of the fleet; without the right to list nodes, which right is missing and what is known without it."""
    seen = visit.world.fleet
    found = None if seen is None else fleet_of(visit.world, seen, visit.path, visit.query)
    values: dict[str, Any] = {"found": found, "summary": summary_of(visit.world), "gap": visit.world.gap_of("nodes")}
    values |= {"pods_gap": visit.world.gap_of("pods"), "ignored": () if seen is None else seen.ignored}
    return Page("fleet.html", "Fleet", values)
