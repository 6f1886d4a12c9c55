"""Prices from the admin's ConfigMap, read repeatedly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from plimsoll.adapters.cluster import CONFIG_MAPS, Cluster
from plimsoll.api.prices import parse_prices
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.keys import ObjectKey
from plimsoll.facts.prices.repricing import OwnPrices

PAUSE_SECONDS = 10.0
"""The longest time until an edit is noticed. Prices change by the day, so this is enough."""

logger = logging.getLogger("plimsoll.prices")


@dataclass(slots=True)
class PriceList:
    """The latest prices, and complaints about unusable entries; without a ConfigMap the catalogue's prices apply."""

    cluster: Cluster
    key: ObjectKey
    on_change: Callable[[], None]
    gpu_types: Sequence[GpuType]
    complaints: tuple[str, ...] = ()
    current: OwnPrices = field(default_factory=dict)

    async def run(self) -> None:
        """Read repeatedly until cancelled. If the ConfigMap cannot be read, the last prices stay in force."""
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
