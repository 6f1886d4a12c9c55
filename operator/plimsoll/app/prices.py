"""Prices from the admin's ConfigMap, read again from time to time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from plimsoll.adapters.cluster import CONFIG_MAPS, Cluster
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.gpus import Price
from plimsoll.domain.keys import ObjectKey

PAUSE_SECONDS = 30.0
"""How long an edit may take to be noticed: prices change by the day."""

logger = logging.getLogger("plimsoll.prices")


@dataclass(slots=True)
class PriceList:
    """The latest prices; empty where there is no ConfigMap, so the catalogue's stand."""

    cluster: Cluster
    key: ObjectKey
    on_change: Callable[[], None]
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
        found = parse_prices((body or {}).get("data") or {}, str(self.key))
        if found != self.current:
            self.current = found
            self.on_change()


def parse_prices(data: Mapping[str, str], source: str) -> dict[str, Price]:
    """``GPU type: US dollars per GPU and hour``; an entry that is no price is left out and logged."""
    prices: dict[str, Price] = {}
    for name, text in sorted(data.items()):
        try:
            value = Decimal(text.strip())
        except InvalidOperation:
            value = Decimal(-1)
        if not value.is_finite() or value < 0:
            logger.warning(
                "ConfigMap %s: %s: %r is no price; write US dollars per GPU and hour, e.g. 2.50", source, name, text
            )
            continue
        prices[name] = Price(value, f"ConfigMap {source}")
    return prices
