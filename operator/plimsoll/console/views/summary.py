"""The fleet in five figures."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from plimsoll.console.views.prices import dollars_of
from plimsoll.console.views.states import Severity, state_of
from plimsoll.console.views.world import World
from plimsoll.domain.units import format_price


@dataclass(frozen=True, slots=True)
class Summary:
    """GPUs, deployments, price and trouble. None where the person may not see it, or where nothing is known.

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


def summary_of(world: World) -> Summary:
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
