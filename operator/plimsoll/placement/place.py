"""Choose: every candidate judged, the feasible ones ranked, the rest explained."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.outcomes import Choice, Outcome, Placed, Rejection, Unplaceable
from plimsoll.domain.reasons import Reason
from plimsoll.domain.serving import Request
from plimsoll.placement.candidates import candidates
from plimsoll.placement.eligibility import eligible_nodes
from plimsoll.placement.feasibility import judge
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.warnings import warnings_for

NO_PRICE = Decimal("Infinity")
"""Types without a price rank behind every priced one: nobody should be surprised by a bill."""


def place(request: Request, fleet: Fleet, ledger: Ledger | None = None) -> Outcome:
    """Place ``request.replicas`` replicas on one GPU type, or as many as there is room for.

    Feasible candidates are ranked by how many of the replicas they take, then by price per replica, fewer GPUs, and
    name, so that the same facts always give the same choice. The request's overrides are obeyed and their consequence
    told.
    """
    ledger = ledger or Ledger.of(fleet)
    fitting: list[tuple[Choice, int]] = []
    rejections: list[Rejection] = []
    for candidate in candidates(request, fleet):
        verdict = judge(request, candidate, fleet)
        if isinstance(verdict, Rejection):
            rejections.append(verdict)
            continue
        room = _room(request, verdict, fleet, ledger)
        if room == 0 and request.replicas > 0:
            rejections.append(taken(request, verdict, fleet, ledger))
        else:
            fitting.append((verdict, min(room, request.replicas)))
    if not fitting:
        return Unplaceable(tuple(rejections))
    best, replicas = min(fitting, key=lambda pair: (-pair[1], *rank(pair[0])))
    others = [
        _costs_more(choice, best) if room == replicas else _room_for_fewer(choice, room, replicas)
        for choice, room in fitting
        if choice is not best
    ]
    return Placed(
        choice=best,
        replicas=replicas,
        rejections=(*others, *rejections),
        warnings=warnings_for(request, best),
    )


def alternatives_to(kept: Choice, request: Request, fleet: Fleet) -> tuple[Rejection, ...]:
    """Every other candidate and why a running choice is not left for it, whatever GPUs are free."""
    told: list[Rejection] = []
    for candidate in candidates(request, fleet):
        if (candidate.gpu.name, candidate.split) == (kept.gpu.name, kept.split):
            continue
        verdict = judge(request, candidate, fleet)
        if isinstance(verdict, Rejection):
            told.append(verdict)
        else:
            told.append(_costs_more(verdict, kept) if rank(verdict) > rank(kept) else _not_moved_to(verdict))
    return tuple(told)


def rank(choice: Choice) -> tuple[Decimal, int, str]:
    """The order of preference: cheaper, fewer GPUs, name."""
    price = NO_PRICE if choice.hourly_price is None else choice.hourly_price
    return price, choice.split.gpus, choice.gpu.name


def on_an_empty_fleet(fleet: Fleet) -> Fleet:
    """The same nodes with nothing running: tells "too small" from "taken"."""
    return fleet.with_nodes(replace(node, held=0) for node in fleet.nodes)


def _room(request: Request, choice: Choice, fleet: Fleet, ledger: Ledger) -> int:
    return ledger.room_for(eligible_nodes(request, fleet, choice.gpu.name), choice.split.gpus)


def taken(request: Request, choice: Choice, fleet: Fleet, ledger: Ledger) -> Rejection:
    """What fits and has no room, with the most GPUs that are free on one node."""
    nodes = eligible_nodes(request, fleet, choice.gpu.name)
    return Rejection(
        choice.gpu.name,
        choice.split,
        Reason.GPUS_TAKEN,
        (("gpus", choice.split.gpus), ("free", ledger.largest(nodes))),
    )


def _costs_more(choice: Choice, best: Choice) -> Rejection:
    numbers = (
        ("price", "unknown" if choice.hourly_price is None else str(choice.hourly_price)),
        ("best_price", "unknown" if best.hourly_price is None else str(best.hourly_price)),
        ("gpus", choice.split.gpus),
        ("best_gpus", best.split.gpus),
    )
    return Rejection(choice.gpu.name, choice.split, Reason.COSTS_MORE, numbers)


def _room_for_fewer(choice: Choice, room: int, best_room: int) -> Rejection:
    price = "unknown" if choice.hourly_price is None else str(choice.hourly_price)
    numbers = (("price", price), ("room", room), ("best_room", best_room))
    return Rejection(choice.gpu.name, choice.split, Reason.ROOM_FOR_FEWER, numbers)


def _not_moved_to(choice: Choice) -> Rejection:
    numbers = (("price", str(choice.hourly_price)), ("gpus", choice.split.gpus))
    return Rejection(choice.gpu.name, choice.split, Reason.PLACEMENT_KEPT, numbers)
