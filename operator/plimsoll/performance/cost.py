"""The cost of serving: dollars per hour of a replica, and dollars per million tokens at a load."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from plimsoll.domain.gpus import Price
from plimsoll.domain.latency import Performance
from plimsoll.domain.outcomes import Split
from plimsoll.performance.model import Load

_MILLION = 1_000_000
_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars for one replica that always has its load.

    ``usd_per_million_tokens`` counts prompt and output tokens together. ``usd_per_million_output_tokens`` puts the
    whole price on the output.
    """

    usd_per_hour: Decimal
    usd_per_million_tokens: float
    usd_per_million_output_tokens: float


def hourly_usd(price: Price, split: Split) -> Decimal:
    """Return US dollars an hour for all GPUs of one replica."""
    return price.usd_per_hour * split.gpus


def cost(price: Price, split: Split, load: Load, found: Performance) -> Cost:
    """Return what serving the load costs, for the throughput that was found."""
    hourly = hourly_usd(price, split)
    output_per_hour = found.output_tokens_per_second * _SECONDS_PER_HOUR
    all_per_hour = output_per_hour * (load.prompt_tokens + load.output_tokens) / load.output_tokens
    return Cost(
        usd_per_hour=hourly,
        usd_per_million_tokens=float(hourly) * _MILLION / all_per_hour,
        usd_per_million_output_tokens=float(hourly) * _MILLION / output_per_hour,
    )
