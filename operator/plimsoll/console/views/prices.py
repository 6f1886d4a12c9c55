"""Prices of a status as numbers."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation


def dollars_of(text: str | None) -> Decimal | None:
    """Return US dollars; None for a price that is missing or no finite number."""
    try:
        price = Decimal(text or "NaN")
    except InvalidOperation:
        return None
    return price if price.is_finite() else None
