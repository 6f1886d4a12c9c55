"""``/deployments/NAMESPACE/NAME``."""

from __future__ import annotations

from plimsoll.adapters.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.console.views.candidates import BAR_LENGTH
from plimsoll.console.views.deployment import BIG_LENGTH, deployment_of
from plimsoll.console.views.names import is_name
from plimsoll.console.visit import Page, Visit
from plimsoll.domain.keys import ObjectKey


async def deployment(visit: Visit) -> Page:
    """One deployment, as the API server has it now."""
    key = ObjectKey(visit.parts["namespace"], visit.parts["name"])
    body = await visit.cluster.get(INFERENCE_DEPLOYMENTS, key) if is_name(key.namespace) and is_name(key.name) else None
    if body is None:
        return Page("missing.html", "Not found", {"key": key}, status=404)
    values: dict[str, Any] = {"found": deployment_of(body, visit.world), "big": BIG_LENGTH, "length": BAR_LENGTH}
    shown = open_proposals_of(visit.world, key, visit.now)
    values |= {"open_proposals": shown, "costs": costs_by_proposal(visit.world, shown)}
    return Page("deployment.html", key.name, values)
