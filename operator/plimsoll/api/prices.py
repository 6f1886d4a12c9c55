"""Parse the prices that the admin writes in a ConfigMap."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal, InvalidOperation

from plimsoll.api.gpu_names import did_you_mean
from plimsoll.domain.errors import shortened
from plimsoll.domain.gpus import Price

DEAREST_USD = Decimal(1_000_000)
"""Highest accepted price: more than any card costs in an hour, with few enough digits for every sum of prices."""

_LONGEST_PRICE = 32
_LONGEST_NAME = 100


def parse_prices(
    data: Mapping[str, str], source: str, known: Collection[str]
) -> tuple[dict[str, Price], tuple[str, ...]]:
    """Parse ``GPU type: US dollars per GPU and hour``; return the prices and a message for every unusable entry.

    Args:
        data: the ConfigMap's data.
        source: its name, which the prices and the messages show.
        known: the names of all GPU types.
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
    """Return the price; None if the text is no number, too long, below 0, or above :data:`DEAREST_USD`."""
    if len(text) > _LONGEST_PRICE:
        return None
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    return value if value.is_finite() and 0 <= value <= DEAREST_USD else None
