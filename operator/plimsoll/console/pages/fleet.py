"""``/fleet``."""

from __future__ import annotations

from typing import Any

from plimsoll.console.pages.live import live_uses
from plimsoll.console.views.fleet.page import FleetMap, fleet_of
from plimsoll.console.views.fleet.totals import lines_of_totals
from plimsoll.console.views.states import summary_of
from plimsoll.console.views.words import age
from plimsoll.console.views.world import GapKind
from plimsoll.console.visit import Page, Visit
from plimsoll.domain.cluster.fleet import Fleet


async def fleet(visit: Visit) -> Page:
    """The map of the fleet; without the right to list nodes, which right is missing and what is known without it."""
    seen = visit.world.fleet
    values: dict[str, Any] = {"found": None, "loads": {}, "notice": ""} if seen is None else await _map(visit, seen)
    values |= {"summary": summary_of(visit.world), "gap": visit.world.gap_of("nodes"), "totals": (), "totals_age": ""}
    if seen is None:
        values |= await _totals(visit)
    values |= {"pods_gap": visit.world.gap_of("pods"), "ignored": () if seen is None else seen.ignored}
    return Page("fleet.html", "Fleet", values)


async def _totals(visit: Visit) -> dict[str, Any]:
    """Return the GPUs by type for a person who may not list nodes, as the operator's metrics have them.

    Prometheus knows no rights. Whoever runs the local console can ask it anyway; people of a cluster's console cannot.
    """
    gap = visit.world.gap_of("nodes")
    if gap is None or gap.reason is not GapKind.FORBIDDEN or visit.bearer is not None:
        return {}
    found = await visit.live.totals()
    return {} if found is None else {"totals": lines_of_totals(found.types), "totals_age": age(visit.now - found.at)}


async def _map(visit: Visit, seen: Fleet) -> dict[str, Any]:
    """Return the map, and the live use of the deployments on its nodes."""
    found = fleet_of(visit.world, seen, visit.path, visit.query)
    rows = [visit.world.rows[key] for key in _shown(found) if key in visit.world.rows]
    live = await live_uses(visit, rows)
    if live.shares():
        found = fleet_of(visit.world, seen, visit.path, visit.query, live.shares())
    return {"found": found, "loads": live.gauges(), "notice": live.notice if rows else ""}


def _shown(found: FleetMap) -> set[Any]:
    cards = () if found.part is None else found.part.items
    return {holder.key for card in cards for holder in card.holders if holder.key is not None}
