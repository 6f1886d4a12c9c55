"""``/deployments``."""

from __future__ import annotations

from plimsoll.console.pages.live import live_uses
from plimsoll.console.views.deployments import BAR_LENGTH, deployments_of
from plimsoll.console.visit import Page, Visit


async def deployments(visit: Visit) -> Page:
    """The list of deployments, worst first, with the live use of those on this page."""
    found = deployments_of(visit.world, visit.path, visit.query)
    live = await live_uses(visit, (line.row for line in found.part.items))
    values = {"found": found, "length": BAR_LENGTH, "loads": live.gauges(), "notice": live.notice}
    return Page("deployments.html", "Deployments", values)
