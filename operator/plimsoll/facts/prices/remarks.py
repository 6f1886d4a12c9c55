"""Doubts about prices: few voters, old offers, and cards whose prices contradict their order.

Which of two cards is the better one, by the facts that the catalogue has of both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from plimsoll.domain.cluster.gpus import CapacityType, GpuType, Interconnect, Price
from plimsoll.domain.cluster.spot import card_name
from plimsoll.domain.public_words import Numbers, PriceDoubt

_Grade = tuple[int, int, int, int, int]


def is_better(gpu: GpuType, other: GpuType) -> bool:
    """Whether a card is at least as good as another one of its family in everything, and better in something.

    Memory, bandwidth, generation, interconnect and the number of GPUs that reach each other are compared. Cards of
    different families are not: nobody sells a graphics card for games by what a server's card costs.
    """
    if (gpu.vendor, gpu.family) != (other.vendor, other.family):
        return False
    mine, theirs = _grade(gpu), _grade(other)
    return mine != theirs and all(one >= two for one, two in zip(mine, theirs, strict=True))


def _grade(gpu: GpuType) -> _Grade:
    return (
        gpu.total_bytes,
        gpu.memory_bandwidth_gb_per_second,
        _generation(gpu),
        int(gpu.interconnect is not Interconnect.PCIE),
        gpu.scale_up_gpus,
    )


def _generation(gpu: GpuType) -> int:
    """CUDA's compute capability as one number, or the number in AMD's target: gfx90a comes before gfx942."""
    if gpu.compute_capability is not None:
        major, minor = gpu.compute_capability
        return 100 * major + minor
    return int((gpu.gfx or "gfx0").removeprefix("gfx"), 16)


OLDEST_DAYS = 120
"""A price whose newest offer is older than this is called old. Market prices of GPUs move by a tenth in a quarter."""


@dataclass(frozen=True, slots=True)
class PriceRemark:
    """One doubt about the price of one card, with its numbers."""

    doubt: PriceDoubt
    gpu_type: str
    capacity: CapacityType
    numbers: Numbers = ()


def remarks_on(
    types: Iterable[GpuType],
    today: date,
    capacities: Collection[CapacityType] = tuple(CapacityType),
) -> tuple[PriceRemark, ...]:
    """Return every doubt, sorted by its word and the card.

    Args:
        types: GPU types with the prices in force. A slice stands for its card, because its price is a share of it.
        today: the day on which the prices are used.
        capacities: the capacity types whose prices are used.
    """
    # A whole card comes last among those of its name.
    in_order = sorted(types, key=lambda gpu: (not gpu.is_slice, gpu.name))
    cards = {(card_name(gpu.name) if gpu.mig is None else gpu.mig.card): gpu for gpu in in_order}
    found = [
        remark
        for name, gpu in cards.items()
        for capacity in CapacityType
        if capacity in capacities and (price := gpu.price_of(capacity)) is not None
        for remark in _on_figure(name, capacity, price, today)
    ]
    found += [
        remark for name, gpu in cards.items() if CapacityType.SPOT in capacities for remark in _on_spot(name, gpu)
    ]
    found += _upside_down([gpu for gpu in cards.values() if not gpu.is_slice])
    return tuple(sorted(found, key=lambda remark: (remark.doubt, remark.gpu_type, remark.capacity)))


def _on_figure(name: str, capacity: CapacityType, price: Price, today: date) -> Iterator[PriceRemark]:
    market = price.market
    if market is None:
        return
    if market.is_thin:
        thin = (("voters", market.voters or 0), ("clamped", int(market.is_clamped)))
        yield PriceRemark(PriceDoubt.THIN_PRICE, name, capacity, thin)
    if market.last is not None and (days := (today - market.last).days) > OLDEST_DAYS:
        old = (("days", days), ("limit_days", OLDEST_DAYS), ("newest", market.last.isoformat()))
        yield PriceRemark(PriceDoubt.OLD_PRICE, name, capacity, old)


def _on_spot(name: str, gpu: GpuType) -> Iterator[PriceRemark]:
    if gpu.price is not None and gpu.price.spot is not None and gpu.price.spot.usd_per_hour > gpu.price.usd_per_hour:
        numbers = (("usd", str(gpu.price.spot.usd_per_hour)), ("on_demand_usd", str(gpu.price.usd_per_hour)))
        yield PriceRemark(PriceDoubt.SPOT_COSTS_MORE, name, CapacityType.SPOT, numbers)


def _upside_down(cards: list[GpuType]) -> Iterator[PriceRemark]:
    """Yield each card that is cheaper than a lesser one of its family, with the dearest such card."""
    priced = [(gpu, gpu.price.usd_per_hour) for gpu in cards if gpu.price is not None]
    for gpu, usd in priced:
        dearer = [(price, card_name(other.name)) for other, price in priced if price > usd and is_better(gpu, other)]
        if dearer:
            price, other = max(dearer)
            numbers = (("usd", str(usd)), ("lesser", other), ("lesser_usd", str(price)))
            yield PriceRemark(PriceDoubt.PRICES_UPSIDE_DOWN, card_name(gpu.name), CapacityType.ON_DEMAND, numbers)
