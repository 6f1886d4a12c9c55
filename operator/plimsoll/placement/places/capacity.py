"""How many more replicas of one deployment fit on what is free, where, and what the next one lacks."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from decimal import Decimal

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Option, Rejection, Split
from plimsoll.domain.engines.engine_choice import ANY_ENGINE
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.public_words import NODE_LACKS, Reason
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.demands.rehoming import still_open
from plimsoll.placement.ledger import Ledger
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.verdicts import options, rank
from plimsoll.placement.places.place import booked, declined, room_of, taken

_EASIEST = (Reason.QUOTA_EXCEEDED, *NODE_LACKS, Reason.GPUS_TAKEN)
"""The reasons that block a replica, the easiest to change first. GPUs are free unless they are taken."""


@dataclass(frozen=True, slots=True)
class Room:
    """One GPU type and split that a replica fits on.

    Attributes:
        option: the place, with the price of one replica.
        alone: the replicas that fit if no other place is used.
        share: the replicas that it takes if replicas are added one by one, each at the place that is best then.
        blocked: what one more replica lacks there after that.
    """

    option: Option
    alone: int
    share: int
    blocked: Rejection


@dataclass(frozen=True, slots=True)
class Capacity:
    """The rooms, the best place first, and why other candidates take no replica at all."""

    rooms: tuple[Room, ...] = ()
    rejections: tuple[Rejection, ...] = ()

    @property
    def total(self) -> int:
        """The replicas that fit on all places together, added one by one."""
        return sum(room.share for room in self.rooms)

    @property
    def hourly_price(self) -> Decimal | None:
        """US dollars an hour of all these replicas; None if one of their places has no price."""
        taken = [(room.option.hourly_price, room.share) for room in self.rooms if room.share]
        known = [price * share for price, share in taken if price is not None]
        return sum(known, Decimal(0)) if len(known) == len(taken) else None

    @property
    def next_blocked(self) -> Rejection | None:
        """The shortage of the next replica that is easiest to change; None if no candidate fits at all."""
        blocked = [room.blocked for room in self.rooms]
        return min(blocked, key=lambda each: _EASIEST.index(each.reason), default=None)


def capacity(
    request: Request,
    fleet: Fleet,
    ledger: Ledger,
    closed: Collection[tuple[str, Split]] = (),
    memo: Memo | None = None,
) -> Capacity:
    """Return how many replicas of a request still fit.

    Replicas are added in the order in which the planner prefers places, so the count for all places together is what
    it would place one after the other. ``closed`` are places whose pods recently found no node.

    Raises:
        InvalidInput: the request does not say how many requests one replica serves.
        UnsupportedModel: the memory of the model cannot be estimated.
    """
    if request.total is not None:
        fix = "Name spec.concurrency, the requests of one replica: the planner has not chosen a size yet."
        raise InvalidInput("spec.totalConcurrency", request.total.requests, fix)
    if request.others:
        names = " or ".join(each.engine.name for each in request.on_each_engine)
        raise InvalidInput("spec.engine.name", ANY_ENGINE, f"Replicas are counted for one engine: write {names}.")
    many = replace(request, replicas=sys.maxsize)  # counts of room stop at the number that is asked for
    verdicts = options(request, fleet, memo).verdicts
    fitting = [each for each in verdicts if isinstance(each, Option)]
    rejections = [each for each in verdicts if isinstance(each, Rejection)]
    opened = still_open(fitting, closed)
    rejections += [declined(each, Reason.LEFT_RECENTLY) for each in fitting if each not in opened]
    opened.sort(key=lambda option: (option.doubts, rank(option)))
    left, shares = ledger, []
    for option in opened:
        share = room_of(many, option, fleet, left)
        left = booked(many, option, share, fleet, left)
        shares.append(share)
    rooms = (
        Room(option, room_of(many, option, fleet, ledger), share, taken(request, option, fleet, left))
        for option, share in zip(opened, shares, strict=True)
    )
    return Capacity(tuple(rooms), tuple(rejections))
