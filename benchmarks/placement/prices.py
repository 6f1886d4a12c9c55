"""Two price lists: the catalogue's, and a flat one by which no GPU type is everybody's first choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from plimsoll.domain.cluster.gpus import GpuType, Price
from plimsoll.domain.units import GIB

USD_PER_GIB = Decimal("0.03")
"""US dollars for a GiB of a card's memory and an hour, in the flat list."""


def market(gpu: GpuType) -> GpuType:
    """Return the type at the flat price of its memory."""
    price = (USD_PER_GIB * gpu.total_bytes / GIB).quantize(Decimal("0.01"))
    return replace(gpu, price=Price(price, f"flat list: ${USD_PER_GIB} a GiB"))


def catalogue(gpu: GpuType) -> GpuType:
    """Return the type at the catalogue's price. A card without one gets its flat price, so that every bill is known."""
    return market(gpu) if gpu.price is None else gpu


PRICE_LISTS: dict[str, Callable[[GpuType], GpuType]] = {"catalogue": catalogue, "market": market}
