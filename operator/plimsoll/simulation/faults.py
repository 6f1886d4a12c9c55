"""When a fault lasts."""

from __future__ import annotations

from plimsoll.simulation.values import Fault


def lasts(fault: Fault, now: float) -> bool:
    """Say whether a fault has begun and has not ended."""
    return fault.begins_at <= now < fault.begins_at + fault.seconds
