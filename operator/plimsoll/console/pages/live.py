"""Pages with live use: that of the pods which their person may list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from plimsoll.adapters.cluster.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.console.drawing.heat_map import LoadStep, key_of, mark_key
from plimsoll.console.views import deployments as listed
from plimsoll.console.views.deployment.page import BIG_LENGTH, deployment_of
from plimsoll.console.views.fleet import FleetMap, fleet_of, lines_of_totals
from plimsoll.console.views.load.live_use import Asked, LiveUse, notice_of, uses_of
from plimsoll.console.views.load.pressure import (
    SPAN_WORDS,
    SPANS,
    USUAL_SPAN,
    PressureRow,
    asked_of,
    matching,
    pods_of,
    pressure_row,
    sorts_of,
    span_choices,
    span_word,
    worst_first,
)
from plimsoll.console.views.paging import is_key, part_of
from plimsoll.console.views.proposals.inbox import acknowledging_path, groups_of, inbox_of, open_proposals_of
from plimsoll.console.views.proposals.page import costs_by_proposal
from plimsoll.console.views.rows import DeploymentRow, row_of
from plimsoll.console.views.sorting import sorted_items
from plimsoll.console.views.states import Pressures, mark_of, pressures_of, summary_of
from plimsoll.console.views.words import age
from plimsoll.console.views.world import GapKind
from plimsoll.console.visit import ConsolePage, Visit
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.kubernetes_names import ObjectKey


@dataclass(frozen=True, slots=True)
class LiveUses:
    """The live use of some deployments, the pods that it is about, and a sentence if it is not live."""

    asked: Asked
    uses: dict[ObjectKey, LiveUse]
    notice: str
    now: float

    def shares(self) -> dict[ObjectKey, float]:
        """Return the used share of the KV cache (0 to 1) of each deployment if it is known now."""
        shares = {key: use.share_now(self.now) for key, use in self.uses.items()}
        return {key: share for key, share in shares.items() if share is not None}

    def pressures(self) -> Pressures:
        """Return what the engines of each deployment report now, as far as it is known."""
        return pressures_of(self.uses, self.now)

    def gauges(self) -> dict[ObjectKey, PressureRow]:
        """Return the two gauges of each deployment, without their past."""
        return {key: pressure_row(key, self.asked[key], use, None, self.now) for key, use in self.uses.items()}


async def live_uses(visit: Visit, rows: Iterable[DeploymentRow]) -> LiveUses:
    """Return the live use of deployments. A Prometheus that does not answer holds the page for a second at most."""
    asked = asked_of(rows, visit.world.pods)
    reading = await visit.tools.live.last(pods_of(asked, asked))
    return LiveUses(asked, uses_of(asked, reading, visit.now), notice_of(reading, visit.now), visit.now)


def known_pressures(visit: Visit) -> Pressures:
    """Return what the engines reported when a page last asked; nothing is read for it."""
    asked = asked_of(visit.world.rows.values(), visit.world.pods)
    return pressures_of(uses_of(asked, visit.tools.live.known(pods_of(asked, asked)), visit.now), visit.now)


async def inbox(visit: Visit) -> ConsolePage:
    """List the things that need a person, the worst first."""
    live = await live_uses(visit, visit.world.rows.values())
    items = inbox_of(visit.world, visit.now, live.pressures())
    part = part_of(items, visit.path, visit.query)
    summary = summary_of(visit.world, live.pressures())
    values = {"part": part, "groups": groups_of(part.items, items), "summary": summary}
    return ConsolePage("inbox.html", "Inbox", values | {"costs": costs_by_proposal(visit.world, part.items)})


async def fleet(visit: Visit) -> ConsolePage:
    """The map of the fleet; without the right to list nodes, which right is missing and what is known without it."""
    seen = visit.world.fleet
    values: dict[str, Any] = {"found": None, "loads": {}, "notice": ""} if seen is None else await _map(visit, seen)
    values |= {
        "summary": summary_of(visit.world, known_pressures(visit)),
        "gap": visit.world.gap_of("nodes"),
        "totals": (),
        "totals_age": "",
    }
    if seen is None:
        values |= await _totals(visit)
    values |= {"pods_gap": visit.world.gap_of("pods"), "ignored": () if seen is None else seen.ignored}
    return ConsolePage("fleet.html", "Fleet", values)


async def _totals(visit: Visit) -> dict[str, Any]:
    """Return the GPUs by type for a person who may not list nodes, as the operator's metrics have them.

    Prometheus knows no rights. Whoever runs the local console can ask it anyway; people of a cluster's console cannot.
    """
    gap = visit.world.gap_of("nodes")
    if gap is None or gap.reason is not GapKind.FORBIDDEN or visit.bearer is not None:
        return {}
    found = await visit.tools.live.totals()
    return {} if found is None else {"totals": lines_of_totals(found.types), "totals_age": age(visit.now - found.at)}


async def _map(visit: Visit, seen: Fleet) -> dict[str, Any]:
    found = fleet_of(visit.world, seen, visit.path, visit.query)
    rows = [visit.world.rows[key] for key in _shown(found) if key in visit.world.rows]
    live = await live_uses(visit, rows)
    if live.shares():
        found = fleet_of(visit.world, seen, visit.path, visit.query, live.shares(), live.pressures())
    return {"found": found, "loads": live.gauges(), "notice": live.notice if rows else ""}


def _shown(found: FleetMap) -> set[Any]:
    cards = () if found.part is None else found.part.items
    return {holder.key for card in cards for holder in card.holders if holder.key is not None}


async def deployments(visit: Visit) -> ConsolePage:
    """The list of deployments, worst first or as asked, with their live use."""
    live = await live_uses(visit, visit.world.rows.values())
    found = listed.deployments_of(visit.world, visit.path, visit.query, live.uses, live.pressures())
    values = {"found": found, "loads": live.gauges(), "notice": live.notice}
    return ConsolePage("deployments.html", "Deployments", values)


USUAL = SPANS[USUAL_SPAN]
"""The time that the two gauges show."""


async def deployment(visit: Visit) -> ConsolePage:
    """One deployment, as the API server has it now."""
    key = ObjectKey(visit.parts["namespace"], visit.parts["name"])
    body = await visit.cluster.get(INFERENCE_DEPLOYMENTS, key) if is_key(key) else None
    if body is None:
        return ConsolePage("missing.html", "Not found", {"key": key}, status=404)
    row = row_of(body)
    live = await live_uses(visit, [row])
    proposals = open_proposals_of(visit.world, key, visit.now)
    use, settings, judged = live.uses[key], visit.tools.settings, mark_of(row, now=visit.now).judged
    past = await visit.tools.live.over_time(pods_of(live.asked, [key]), USUAL)
    values = {
        "found": deployment_of(
            body,
            visit.world,
            use.share_now(visit.now),
            grafana_url=settings.grafana_url,
            logs_url=settings.logs_url,
            pressures=live.pressures(),
        ),
        "load": pressure_row(key, live.asked[key], use, past, visit.now, row.live),
        "notice": live.notice,
        "shown": age(USUAL.seconds),
        "known": judged.known,
        "acknowledge": acknowledging_path(key) if judged.finding and judged.known is None else "",
        "proposals": proposals,
        "costs": costs_by_proposal(visit.world, proposals),
        "big": BIG_LENGTH,
    }
    return ConsolePage("deployment.html", key.name, values)


async def pressure(visit: Visit) -> ConsolePage:
    """Who is near its line, and since when: the worst first. The past is read for the shown rows only."""
    search, word = visit.first("q"), span_word(visit.first("span"))
    span = SPANS[word]
    rows = {row.key: row for row in matching(visit.world.rows.values(), search)}
    live = await live_uses(visit, rows.values())
    order = sorted_items(worst_first(live.uses, visit.now), sorts_of(live.uses), visit.path, visit.query)
    part = part_of(order.items, visit.path, visit.query)
    past = await visit.tools.live.over_time(pods_of(live.asked, part.items), span)
    values = {
        "part": part,
        "order": order,
        "lines": [
            pressure_row(key, live.asked[key], live.uses[key], past, visit.now, rows[key].live) for key in part.items
        ],
        "notice": live.notice,
        "pods_gap": visit.world.gap_of("pods"),
        "search": search,
        "span": word,
        "spans": span_choices(word, visit.query, visit.path),
        "shown": SPAN_WORDS[word],
        "column": age(span.step),
        "steps": [(step, key_of(step)) for step in sorted(LoadStep, key=lambda each: (each == 0, each))],
        "mark": mark_key(),
    }
    return ConsolePage("pressure.html", "Pressure", values)
