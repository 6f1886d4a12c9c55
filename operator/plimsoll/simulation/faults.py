"""When a fault lasts."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.simulation.values import Fault, FaultKind


def lasts(fault: Fault, now: float) -> bool:
    """Say whether a fault has begun and has not ended."""
    return fault.begins_at <= now < fault.begins_at + fault.seconds


def is_active(faults: Iterable[Fault], kind: FaultKind, now: float) -> bool:
    """Say whether any fault of a kind lasts."""
    return any(fault.kind is kind and lasts(fault, now) for fault in faults)
