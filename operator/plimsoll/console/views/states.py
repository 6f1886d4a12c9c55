"""The state of a deployment for people: one word, one symbol, and an order from worst to best.

The fleet in five figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum

from plimsoll.console.views.figures import Figures
from plimsoll.console.views.rows import DeploymentRow
from plimsoll.console.views.words import dollars_of
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.units import format_price


class Severity(IntEnum):
    """How much a deployment needs a person, worst first."""

    NO_PLACE = 0
    OVER = 1
    NOT_SERVING = 2
    NEAR = 3
    WAITING = 4
    FINE = 5


@dataclass(frozen=True, slots=True)
class State:
    """A word with its symbol and its CSS class."""

    severity: Severity
    symbol: str
    word: str
    kind: str


_STATES = {
    Severity.NO_PLACE: State(Severity.NO_PLACE, "\u2717", "no place", "bad"),
    Severity.OVER: State(Severity.OVER, "\u25b2", "over its line", "bad"),
    Severity.NOT_SERVING: State(Severity.NOT_SERVING, "\u25cb", "not serving", "warn"),
    Severity.NEAR: State(Severity.NEAR, "\u25b2", "near its line", "warn"),
    Severity.WAITING: State(Severity.WAITING, "\u2026", "not seen yet", "muted"),
    Severity.FINE: State(Severity.FINE, "\u25cf", "serving", "good"),
}


def state_of(row: DeploymentRow) -> State:
    """Return the state that matters most."""
    return _STATES[_severity(row)]


def _severity(row: DeploymentRow) -> Severity:
    if row.ready is None:
        return Severity.WAITING
    if row.stalled is not None and row.stalled.status == "True" and not row.is_ready:
        return Severity.NO_PLACE
    if row.figures is not None and is_over(row.figures):
        return Severity.OVER
    if not row.is_ready:
        return Severity.NOT_SERVING if row.is_placed else Severity.NO_PLACE
    return Severity.NEAR if row.figures is not None and row.figures.is_near else Severity.FINE


def is_over(figures: Figures) -> bool:
    """Whether the computed need is beyond the line, even if an admin's figure stands in its place."""
    return figures.is_over or (figures.override is not None and figures.upper > figures.budget)


@dataclass(frozen=True, slots=True)
class Summary:
    """GPUs, deployments, price and trouble. None if the person may not see it, or if nothing is known.

    ``unpriced`` counts deployments with a place and without a price, which the bill leaves out.
    """

    gpus: int | None
    gpus_taken: int | None
    deployments: int
    placed: int
    bill: str | None
    unpriced: int
    near: int
    over: int
    homeless: int


def summary_of(world: ClusterView) -> Summary:
    """Return the figures of everything that the person may see."""
    states = [state_of(row).severity for row in world.rows.values()]
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
        near=states.count(Severity.NEAR),
        over=states.count(Severity.OVER),
        homeless=states.count(Severity.NO_PLACE),
    )
