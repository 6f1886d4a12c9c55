"""Prices from the admin's ConfigMap, read again from time to time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from plimsoll.adapters.cluster import CONFIG_MAPS, Cluster
from plimsoll.api.gpu_names import did_you_mean
from plimsoll.domain.errors import PlimsollError, shortened
from plimsoll.domain.gpus import Price
from plimsoll.domain.keys import ObjectKey

DEAREST_USD = Decimal(1_000_000)
"""More than any card costs in an hour, and few enough digits for every sum that is made of it."""

_LONGEST_PRICE = 32
_LONGEST_NAME = 100

PAUSE_SECONDS = 10.0
"""How long an edit may take to be noticed: prices change by the day."""

logger = logging.getLogger("plimsoll.prices")


@dataclass(slots=True)
class PriceList:
    """The latest prices, and what could not be used of them; without a ConfigMap the catalogue's prices stand."""

    cluster: Cluster
    key: ObjectKey
    on_change: Callable[[], None]
    gpu_types: Collection[str]
    complaints: tuple[str, ...] = ()
    current: Mapping[str, Price] = field(default_factory=dict)

    async def run(self) -> None:
        """Read again and again until cancelled. An unreadable ConfigMap leaves the last prices in force."""
        while True:
            try:
                await self.refresh()
            except PlimsollError as error:
                logger.warning("prices stay as they are: %s", error)
            await asyncio.sleep(PAUSE_SECONDS)

    async def refresh(self) -> None:
        """Read once."""
        body = await self.cluster.get(CONFIG_MAPS, self.key)
        found, complaints = parse_prices((body or {}).get("data") or {}, str(self.key), self.gpu_types)
        for complaint in complaints:
            if complaint not in self.complaints:
                logger.warning("%s", complaint)
        self.complaints = complaints
        if found != self.current:
            self.current = found
            self.on_change()


def parse_prices(
    data: Mapping[str, str], source: str, known: Collection[str]
) -> tuple[dict[str, Price], tuple[str, ...]]:
    """``GPU type: US dollars per GPU and hour``, and a complaint for every entry that cannot be used.

    Args:
        data: the ConfigMap's data.
        source: its name, for the price's origin and the complaints.
        known: the names of GPU types that there are.
    """
    prices: dict[str, Price] = {}
    complaints: list[str] = []
    for name, text in sorted(data.items()):
        value = _dollars(text)
        if value is None:
            complaints.append(
                f"{source}: {name[:_LONGEST_NAME]}: {shortened(text)} is no price; "
                "write US dollars per GPU and hour, e.g. 2.50"
            )
        elif name not in known:
            complaints.append(f"{source}: {name[:_LONGEST_NAME]} is no GPU type{did_you_mean(name, known)}")
        else:
            prices[name] = Price(value, f"ConfigMap {source}")
    return prices, tuple(complaints)


def _dollars(text: str) -> Decimal | None:
    """The price, or None where it is none: no number, below 0, beyond any card's, or of absurd length."""
    if len(text) > _LONGEST_PRICE:
        return None
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() and 0 <= value <= DEAREST_USD else None
