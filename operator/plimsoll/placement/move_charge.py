"""The cost of starting a replica anew: its GPUs are paid twice until the new one serves."""

from __future__ import annotations

from decimal import Decimal

LEAST_SECONDS = 180
"""The least time that a move is charged for, whatever the start-up: people and caches need time to settle, too. With
three minutes, a solver that may move what runs makes a fifth to a half of the moves at the same bill."""

_SECONDS_PER_HOUR = 3600


def move_charge(hourly_price: Decimal | None, startup_seconds: float | None = None) -> Decimal:
    """Return US dollars for one move of a replica. A start-up that nobody has seen counts nothing."""
    seconds = LEAST_SECONDS + round(startup_seconds or 0.0)
    return (hourly_price or Decimal(0)) * seconds / _SECONDS_PER_HOUR
