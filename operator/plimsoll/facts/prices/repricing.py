"""GPU types with the prices that are in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plimsoll.domain.cluster.gpus import GpuType, Price

OwnPrices = Mapping[str, Price | None]
"""The prices of a cluster's admin by type. None means that the type has no price, whatever the catalogue says."""


def repriced(gpu: GpuType, prices: OwnPrices) -> GpuType:
    """Return the type with the admin's price; unchanged if there is none. A slice costs its share of its card."""
    if gpu.name in prices:
        return replace(gpu, price=prices[gpu.name])
    if gpu.mig is not None and gpu.mig.card in prices:
        card = prices[gpu.mig.card]
        return replace(gpu, price=None if card is None else gpu.mig.price(card))
    return gpu
