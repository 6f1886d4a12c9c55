"""The order of preference among options that fit: cheaper, fewer GPUs, fewer pipeline stages, name."""

from __future__ import annotations

from decimal import Decimal

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import Option, Split

NO_PRICE = Decimal("Infinity")
"""Types without a price rank behind all priced types, so that an unknown cost is never the first choice."""


def rank(choice: Option) -> tuple[Decimal, int, int, str]:
    """Return the sort key of preference: cheaper, fewer GPUs, fewer pipeline stages, name."""
    return preference(choice.gpu, choice.split, choice.weighed_price)


def preference(gpu: GpuType, split: Split, price: Decimal | None) -> tuple[Decimal, int, int, str]:
    """Return the same sort key for a candidate, given the price of one replica."""
    return NO_PRICE if price is None else price, split.gpus, split.pipeline_parallel, gpu.name
