"""``/pressure``."""

from __future__ import annotations

from plimsoll.console.drawing.heat_map import LoadStep, key_of, mark_key
from plimsoll.console.pages.live import live_uses
from plimsoll.console.views.load.pressure import (
    SPAN_WORDS,
    Wanted,
    matching,
    pods_of,
    pressure_row,
    span_choices,
    worst_first,
)
from plimsoll.console.views.paging import part_of
from plimsoll.console.views.words import age
from plimsoll.console.visit import Page, Visit


async def pressure(visit: Visit) -> Page:
    """Who is near its line, and since when: the worst first. The past is read for the shown rows only."""
    wanted = Wanted.of(visit.first("q"), visit.first("span"))
    rows = {row.key: row for row in matching(visit.world.rows.values(), wanted.search)}
    live = await live_uses(visit, rows.values())
    part = part_of(worst_first(live.uses, visit.now), visit.path, visit.query)
    past = await visit.live.over_time(pods_of(live.asked, part.items), wanted.span)
    values = {
        "part": part,
        "lines": [
            pressure_row(key, live.asked[key], live.uses[key], past, visit.now, rows[key].live) for key in part.items
        ],
        "notice": live.notice,
        "pods_gap": visit.world.gap_of("pods"),
        "search": wanted.search,
        "span": wanted.word,
        "spans": span_choices(wanted, visit.path),
        "shown": SPAN_WORDS[wanted.word],
        "column": age(wanted.span.step),
        "steps": [(step, key_of(step)) for step in sorted(LoadStep, key=lambda each: (each == 0, each))],
        "mark": mark_key(),
    }
    return Page("pressure.html", "Pressure", values)
