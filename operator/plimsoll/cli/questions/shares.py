"""Shares of a GPU that are no whole percentage, for a request that has whole ones."""

from __future__ import annotations

import math
from dataclasses import replace

from plimsoll.domain.gpus import GpuType

_ENOUGH = 1e-9
"""Shares of the GPU that differ by less than this are the same: 0.29 x 100 is a little more than 29."""


def whole_percent(share: float) -> int:
    """Return a share of the GPU in whole percent, rounded up (:func:`with_share` makes up for it)."""
    return max(1, math.ceil(100 * share - _ENOUGH))


def with_share(gpu: GpuType, share: float) -> GpuType:
    """Return a type of which :func:`whole_percent` is exactly this share; the same where that is a whole percentage."""
    percent = whole_percent(share)
    if abs(100 * share - percent) < _ENOUGH:
        return gpu
    return replace(gpu, usable_bytes=int(gpu.usable_bytes * share * 100 / percent))
