"""Live use for a page: that of the pods which its person may list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.console.views.live_use import Asked, LiveReading, LiveUse, notice_of, uses_of
from plimsoll.console.views.pressure import asked_of, pods_of
from plimsoll.console.views.rows import Row
from plimsoll.console.visit import Visit
from plimsoll.domain.keys import ObjectKey


@dataclass(frozen=True, slots=True)
class LiveUses:
    """The live use of some deployments, the pods that it is about, and a sentence where it is not live."""

    asked: Asked
    uses: dict[ObjectKey, LiveUse]
    reading: LiveReading
    notice: str


async def live_uses(visit: Visit, rows: Iterable[Row]) -> LiveUses:
    """Return the live use of deployments. A Prometheus that does not answer holds the page for a second at most."""
    asked = asked_of(rows, visit.world.pods)
    reading = await visit.live.last(pods_of(asked, asked))
    return LiveUses(asked, uses_of(asked, reading, visit.now), reading, notice_of(reading, visit.now))
