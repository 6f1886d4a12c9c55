"""Doubts about the prices of the fleet's GPUs: said in the log when they change, and shown as a metric."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, date, datetime

from plimsoll.domain.fleet import Fleet
from plimsoll.domain.gpus import CapacityType
from plimsoll.facts.prices.remarks import PriceRemark, remarks_on
from plimsoll.render.price_words import remark_summaries

logger = logging.getLogger("plimsoll.prices")


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
