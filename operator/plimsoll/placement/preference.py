"""The order of preference among options that fit: cheaper, fewer GPUs, fewer engines, fewer pipeline stages, name."""

from __future__ import annotations

from decimal import Decimal

from plimsoll.domain.gpus import GpuType
from plimsoll.domain.outcomes import Option, Split

NO_PRICE = Decimal("Infinity")
"""Types without a price rank behind all priced types, so that an unknown cost is never the first choice."""


Preference = tuple[Decimal, int, int, int, str]


def rank(choice: Option) -> Preference:
    """Return the sort key of preference: cheaper, fewer GPUs, fewer engines, fewer pipeline stages, name.

    Several engines on the same GPUs share their requests unevenly at times, so one engine comes first where it fits.
    """
    return preference(choice.gpu, choice.split, choice.weighed_price)


def preference(gpu: GpuType, split: Split, price: Decimal | None) -> Preference:
    """Return the same sort key for a candidate, given the price of one replica."""
    known = NO_PRICE if price is None else price
    return known, split.gpus, split.data_parallel, split.pipeline_parallel, gpu.name
