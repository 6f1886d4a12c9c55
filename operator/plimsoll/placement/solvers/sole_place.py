"""The one place that a turn would give all replicas of a new demand: found faster than by a turn, without reasons."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.outcomes import Option
from plimsoll.placement.demand import Demand
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.place import room_of
from plimsoll.placement.preference import rank
from plimsoll.placement.rehoming import is_closed


def sole_place(demand: Demand, fleet: Fleet, ledger: Ledger) -> Option | None:
    """Return the option that a :class:`~plimsoll.placement.solvers.turn.Turn` takes for all replicas.

    None where it would divide them, place only some of them, or has pools to think of.
    """
    if demand.kept or demand.outdated or demand.missing <= 0:
        return None
    request = replace(demand.request, replicas=demand.missing)
    options = [each for each in demand.options.verdicts if isinstance(each, Option)]
    options = [each for each in options if not is_closed(demand.excluded, each.gpu.name, each.split)]
    for _, alike in groupby(sorted(options, key=_doubts), key=_doubts):
        rooms = []
        for option in sorted(alike, key=rank):
            rooms.append(room_of(request, option, fleet, ledger))
            if rooms[-1] >= request.replicas:
                return option
        if any(rooms):
            return None
    return None


def _doubts(option: Option) -> int:
    return option.doubts
