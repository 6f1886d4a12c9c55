"""The state of a deployment for people: the word of the core's severity function, with a symbol and a colour.

The fleet in some figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType

from plimsoll.console.views.load.live_use import LiveUse
from plimsoll.console.views.rows import DeploymentRow
from plimsoll.console.views.words import dollars_of
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import format_price
from plimsoll.status.severity import Judged, Pressure, Severity, State, state_at

Pressures = Mapping[ObjectKey, Pressure]
"""The live figures that the engines of deployments report; without those of which it is not known."""

NOT_KNOWN: Pressures = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StateMark:
    """A state with its symbol and its CSS class, and what it was judged from."""

    judged: Judged
    symbol: str
    kind: str

    @property
    def severity(self) -> Severity:
        """How much it needs a person."""
        return self.judged.severity

    @property
    def word(self) -> str:
        """The state in a word or two."""
        return self.judged.state.value


_MARKS = {
    Severity.OUTAGE: ("\u2717", "bad"),
    Severity.TROUBLE: ("\u25b2", "warn"),
    Severity.WAITING: ("\u2026", "warn"),
    Severity.OVER: ("\u25b2", "warn"),
    Severity.NEAR: ("\u25b2", "warn"),
    Severity.PASSING: ("\u25cb", "muted"),
    Severity.FINE: ("\u25cf", "good"),
}
"""The symbol and the CSS class of each; a colour never stands alone."""

_AT_REST = {State.SUSPENDED: "\u2016", State.ASLEEP: "\u25cb", State.DELETED: "\u2026"}
"""The symbols of states in which nothing is to serve, and which are fine."""


def mark_of(row: DeploymentRow, pressures: Pressures = NOT_KNOWN, now: float = math.inf) -> StateMark:
    """Return the state that matters most, at a time (POSIX seconds); without one, what people acknowledged is over."""
    judged = state_at(replace(row.signs, pressure=pressures.get(row.key)), now)
    if judged.state in _AT_REST:
        return StateMark(judged, _AT_REST[judged.state], "muted")
    return StateMark(judged, *_MARKS[judged.severity])


def pressures_of(uses: Mapping[ObjectKey, LiveUse], now: float) -> Pressures:
    """Return what engines report now, if both figures are live."""
    found = ((key, use.share_now(now), use.waiting) for key, use in uses.items())
    return {
        key: Pressure(share, waiting.value)
        for key, share, waiting in found
        if share is not None and waiting is not None and not waiting.is_stale(now)
    }


@dataclass(frozen=True, slots=True)
class Summary:
    """GPUs, deployments, price and trouble. None if the person may not see it, or if nothing is known.

    ``unpriced`` counts deployments with a place and without a price, which the bill leaves out. ``down``, ``troubled``,
    ``waiting``, ``over`` and ``near`` count deployments by severity.
    """

    gpus: int | None
    gpus_taken: int | None
    deployments: int
    placed: int
    bill: str | None
    unpriced: int
    down: int
    troubled: int
    waiting: int
    over: int
    near: int


def summary_of(world: ClusterView, pressures: Pressures = NOT_KNOWN) -> Summary:
    """Return the figures of everything that the person may see."""
    states = [mark_of(row, pressures).severity for row in world.rows.values()]
    placed = [row for row in world.rows.values() if row.is_placed]
    prices = [price for row in placed if (price := dollars_of(row.hourly_price)) is not None]
    nodes = None if world.fleet is None else world.fleet.nodes
    return Summary(
        gpus=None if nodes is None else sum(node.allocatable for node in nodes),
        gpus_taken=None if nodes is None else sum(node.allocatable - node.free for node in nodes),
        deployments=len(world.rows),
        placed=len(placed),
        bill=format_price(sum(prices, start=Decimal(0))) if prices else None,
        unpriced=len(placed) - len(prices),
        down=states.count(Severity.OUTAGE),
        troubled=states.count(Severity.TROUBLE),
        waiting=states.count(Severity.WAITING),
        over=states.count(Severity.OVER),
        near=states.count(Severity.NEAR),
    )
