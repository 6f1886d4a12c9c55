"""A deployment that had no replicas for a while and wants some again: it goes back to its place, if that is free."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.outcomes import Option
from plimsoll.placement.demand import Demand
from plimsoll.placement.options import Options
from plimsoll.placement.place import room_of
from plimsoll.placement.solvers import Stock


def back_home(demand: Demand, stock: Stock) -> Demand:
    """Return the demand with its last place as the only option, where all its replicas have room there.

    Its engines are known there, and a node may still have the weights. Another place may be cheaper. Where the last one
    has no room, every option stays. Of two that want the same room, one waits for the next pass.
    """
    request = demand.request
    if request.replicas == 0 or len(demand.kept) != 1 or demand.kept[0].replicas > 0:
        return demand
    here = tuple(
        each
        for each in demand.options.verdicts
        if isinstance(each, Option) and each.target.place == demand.kept[0].place
    )
    has_room = any(room_of(request, each, stock.fleet, stock.ledger) >= request.replicas for each in here)
    return replace(demand, options=Options(here)) if has_room else demand
