"""``/deployments``."""

from __future__ import annotations

from plimsoll.console.views.deployments import BAR_LENGTH, deployments_of
from plimsoll.console.visit import Page, Visit


async def deployments(visit: Visit) -> Page:
    """The list of deployments, worst first."""
    found = deployments_of(visit.world, visit.path, visit.query)
    return Page("deployments.html", "Deployments", {"found": found, "length": BAR_LENGTH})
