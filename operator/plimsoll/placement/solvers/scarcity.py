"""The reasons of a plan that decides for all together: a GPU that somebody else needs more, at a price."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal

from plimsoll.domain.decisions.outcomes import Option, Placed, Rejection
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Reason
from plimsoll.domain.units import exact_price
from plimsoll.placement.options.verdicts import rank
from plimsoll.placement.places.place import declined, less_preferred_once, options_with_room
from plimsoll.placement.solvers.protocol import Award, Stock


@dataclass(frozen=True, slots=True)
class _Gain:
    """The sum that a deployment saves an hour on a GPU type against its next best type; None: it has no other type."""

    owner: ObjectKey
    saved: Decimal | None

    @property
    def order(self) -> tuple[bool, Decimal, ObjectKey]:
        return self.saved is not None, -(self.saved or Decimal(0)), self.owner


class Others:
    """Who gains the most from each GPU type in the awards of a pass."""

    def __init__(self, awards: Iterable[Award]) -> None:
        self._most: dict[str, list[_Gain]] = {}
        for award in awards:
            for placed in award.granted:
                self._most.setdefault(placed.choice.gpu.name, []).append(_gain(award, placed))
        for gains in self._most.values():
            gains.sort(key=lambda gain: gain.order)
            del gains[2:]  # the first one, or the second if the first asks about itself

    def most(self, gpu_type: str, asking: ObjectKey) -> _Gain | None:
        """Return who gains the most from a GPU type, except ``asking``."""
        return next((gain for gain in self._most.get(gpu_type, ()) if gain.owner != asking), None)


def _gain(award: Award, placed: Placed) -> _Gain:
    here = placed.choice
    prices = [
        verdict.hourly_price
        for verdict in award.demand.options.verdicts
        if isinstance(verdict, Option) and verdict.gpu.name != here.gpu.name and verdict.hourly_price is not None
    ]
    if not prices or here.hourly_price is None:
        return _Gain(award.demand.request.key, None)
    return _Gain(award.demand.request.key, (min(prices) - here.hourly_price) * placed.replicas)


def with_scarcity(award: Award, stock: Stock, others: Others) -> Award:
    """Return the award with the real reason if a candidate had room before the pass and others got it."""
    if len(award.granted) != 1 or award.granted[0].replicas < award.demand.missing:
        return award
    if not any(each.reason is Reason.GPUS_TAKEN for each in award.rejections):
        return award
    best = award.granted[0].choice
    had_room = options_with_room(award.demand.request, award.demand.options, stock.fleet, stock.ledger)

    def real(rejection: Rejection) -> Rejection:
        if rejection.reason is not Reason.GPUS_TAKEN:
            return rejection
        option = had_room.get((rejection.gpu_type, rejection.split))
        if option is None:
            return rejection
        if (option.doubts, rank(option)) > (best.doubts, rank(best)):
            return less_preferred_once(option, best, stock.fleet)
        gain = others.most(option.gpu.name, award.demand.request.key)
        if gain is None or (gain.saved is not None and gain.saved <= 0):
            return rejection  # nobody gains: the replicas were placed there for another reason
        return _scarce(award.demand.request.key, option, best, gain)

    return replace(award, rejections=tuple(real(each) for each in award.rejections))


def _scarce(asking: ObjectKey, option: Option, best: Option, gain: _Gain) -> Rejection:
    """Return the reason with the price difference, and who saves the most there. Names stay in their namespace."""
    numbers: list[tuple[str, int | str]] = [
        ("price", exact_price(option.hourly_price)),
        ("best_price", exact_price(best.hourly_price)),
    ]
    if gain.owner.namespace == asking.namespace:
        numbers.append(("other", gain.owner.name))
    if gain.saved is not None:
        numbers.append(("saved", exact_price(gain.saved)))
    return declined(option, Reason.SCARCE_FOR_OTHERS, tuple(numbers))
