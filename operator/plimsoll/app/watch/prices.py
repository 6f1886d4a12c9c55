"""Prices from the admin's ConfigMap, read repeatedly, and the doubts about the prices of the fleet's GPUs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from plimsoll.adapters.cluster.client import CONFIG_MAPS, Cluster
from plimsoll.api.prices import parse_prices
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import CapacityType, GpuType
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.facts.prices.remarks import PriceRemark, remarks_on
from plimsoll.facts.prices.repricing import OwnPrices
from plimsoll.status.words.prices import remark_summaries

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


@dataclass(slots=True)
class PriceWatch:
    """The doubts that were found last, and what they were found from."""

    fleet: Fleet | None = None
    today: date | None = None
    said: frozenset[str] = frozenset()

    def look(self, fleet: Fleet, now: float) -> tuple[PriceRemark, ...] | None:
        """Return the doubts of today; None if fleet and day are those of the last look. New sentences are logged."""
        today = datetime.fromtimestamp(now, tz=UTC).date()
        if fleet is self.fleet and today == self.today:
            return None
        self.fleet, self.today = fleet, today
        used = {CapacityType.ON_DEMAND, *(node.capacity_type for node in fleet.nodes)}
        remarks = remarks_on(fleet.gpu_types(), today, used)
        summaries = remark_summaries(remarks)
        for summary in summaries:
            if summary not in self.said:
                logger.warning("%s", summary)
        self.said = frozenset(summaries)
        return remarks
