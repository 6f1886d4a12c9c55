"""``/deployments/NAMESPACE/NAME``."""

from __future__ import annotations

from plimsoll.adapters.cluster.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.console.pages.live import live_uses
from plimsoll.console.views.deployment.candidates import BAR_LENGTH
from plimsoll.console.views.deployment.page import BIG_LENGTH, deployment_of
from plimsoll.console.views.load.pressure import Wanted, pods_of, pressure_row
from plimsoll.console.views.paging import is_name
from plimsoll.console.views.proposals.inbox import open_proposals_of
from plimsoll.console.views.proposals.page import costs_by_proposal
from plimsoll.console.views.rows import row_of
from plimsoll.console.views.words import age
from plimsoll.console.visit import Page, Visit
from plimsoll.domain.kubernetes_names import ObjectKey

USUAL = Wanted.of("", "")
"""The time that the two gauges show."""


async def deployment(visit: Visit) -> Page:
    """One deployment, as the API server has it now."""
    key = ObjectKey(visit.parts["namespace"], visit.parts["name"])
    body = await visit.cluster.get(INFERENCE_DEPLOYMENTS, key) if is_name(key.namespace) and is_name(key.name) else None
    if body is None:
        return Page("missing.html", "Not found", {"key": key}, status=404)
    row = row_of(body)
    live = await live_uses(visit, [row])
    proposals = open_proposals_of(visit.world, key, visit.now)
    use = live.uses[key]
    past = await visit.live.over_time(pods_of(live.asked, [key]), USUAL.span)
    values = {
        "found": deployment_of(body, visit.world, use.share_now(visit.now), grafana_url=visit.settings.grafana_url),
        "load": pressure_row(key, live.asked[key], use, past, visit.now, row.live),
        "notice": live.notice,
        "shown": age(USUAL.span.seconds),
        "proposals": proposals,
        "costs": costs_by_proposal(visit.world, proposals),
        "big": BIG_LENGTH,
        "length": BAR_LENGTH,
    }
    return Page("deployment.html", key.name, values)
