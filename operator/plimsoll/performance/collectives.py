"""The time of a message among the GPUs of one node, from measured curves."""

from __future__ import annotations

from bisect import bisect_left
from math import exp, log

from plimsoll.domain.speed import Curve, Links

_PAIR = 2


def all_reduce_seconds(links: Links | None, gpus: int, size_bytes: float) -> float:
    """Return the seconds of one all-reduce of a buffer; 0 for one GPU or none known."""
    return _seconds(links, gpus, size_bytes, links.all_reduce) if links is not None else 0.0


def all_to_all_seconds(links: Links | None, gpus: int, size_bytes: float) -> float:
    """Return the seconds of one all-to-all of a buffer; 0 for one GPU or none known."""
    return _seconds(links, gpus, size_bytes, links.all_to_all) if links is not None else 0.0


def _seconds(links: Links, gpus: int, size_bytes: float, curves: tuple[tuple[int, Curve], ...]) -> float:
    """Return the time on the curve of the number of GPUs; the part above the least time follows the link's rate."""
    if gpus < _PAIR or size_bytes <= 0:
        return 0.0
    curve = _curve(curves, gpus)
    own = links.pair_gb_per_second if gpus == _PAIR else links.gb_per_second
    least, measured = curve[0][1], interpolated(curve, size_bytes)
    return least + (measured - least) * links.measured_gb_per_second / own if measured > least else measured


def _curve(curves: tuple[tuple[int, Curve], ...], gpus: int) -> Curve:
    """Return the curve of the next measured number of GPUs, or of the largest."""
    return next((curve for degree, curve in curves if degree >= gpus), curves[-1][1])


def interpolated(curve: Curve, size_bytes: float) -> float:
    """Return seconds for a size: straight lines between logarithms, level below, proportional above the last point."""
    (smallest, least), (largest, most) = curve[0], curve[-1]
    if size_bytes <= smallest:
        return least
    if size_bytes >= largest:
        return most * size_bytes / largest
    right = bisect_left(curve, (size_bytes,))
    (low, fast), (high, slow) = curve[right - 1], curve[right]
    share = log(size_bytes / low) / log(high / low)
    return fast * exp(share * log(slow / fast))
