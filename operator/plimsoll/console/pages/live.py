"""Live use for a page: that of the pods which its person may list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.console.views.load.live_use import Asked, LiveReading, LiveUse, notice_of, uses_of
from plimsoll.console.views.load.pressure import PressureRow, asked_of, pods_of, pressure_row
from plimsoll.console.views.rows import Row
from plimsoll.console.visit import Visit
from plimsoll.domain.kubernetes_names import ObjectKey


@dataclass(frozen=True, slots=True)
class LiveUses:
    """The live use of some deployments, the pods that it is about, and a sentence where it is not live."""

    asked: Asked
    uses: dict[ObjectKey, LiveUse]
    reading: LiveReading
    notice: str
    now: float

    def shares(self) -> dict[ObjectKey, float]:
        """Return the used share of the KV cache (0 to 1) of each deployment where it is known now."""
        shares = {key: use.share_now(self.now) for key, use in self.uses.items()}
        return {key: share for key, share in shares.items() if share is not None}

    def gauges(self) -> dict[ObjectKey, PressureRow]:
        """Return the two gauges of each deployment, without their past."""
        return {key: pressure_row(key, self.asked[key], use, None, self.now) for key, use in self.uses.items()}


async def live_uses(visit: Visit, rows: Iterable[Row]) -> LiveUses:
    """Return the live use of deployments. A Prometheus that does not answer holds the page for a second at most."""
    asked = asked_of(rows, visit.world.pods)
    reading = await visit.live.last(pods_of(asked, asked))
    return LiveUses(asked, uses_of(asked, reading, visit.now), reading, notice_of(reading, visit.now), visit.now)
