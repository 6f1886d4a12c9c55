"""Figures of the GPUs themselves next to a diagnosis. They do not change it."""

from __future__ import annotations

from plimsoll.domain.reasons import Numbers
from plimsoll.rebalance.signals import GpuActivity

_PERCENT = 100


def gpu_numbers(gpus: GpuActivity | None) -> Numbers:
    """Return the activity in percent; empty where nothing is known."""
    if gpus is None:
        return ()
    pairs = (("memory_busy_percent", gpus.memory), ("tensor_busy_percent", gpus.tensor_cores))
    return tuple((name, round(_PERCENT * share)) for name, share in pairs if share is not None)
