"""The time of a message among the GPUs of one node, from measured curves."""

from __future__ import annotations

from bisect import bisect_left
from math import exp, log
from typing import NamedTuple

from plimsoll.domain.speed import Curve, Links

_PAIR = 2


class Channel(NamedTuple):
    """One kind of message among so many GPUs: its curve, and the rates of the measured link and of the card's own.

    The curve is empty where there is nobody to send to, or no link is known.
    """

    curve: Curve = ()
    measured_gb_per_second: float = 1.0
    own_gb_per_second: float = 1.0

    def seconds(self, size_bytes: float) -> float:
        """Return the seconds of a buffer; the part above the least time follows the link's rate."""
        if size_bytes <= 0 or not self.curve:
            return 0.0
        least, measured = self.curve[0][1], interpolated(self.curve, size_bytes)
        if measured <= least:
            return measured
        return least + (measured - least) * self.measured_gb_per_second / self.own_gb_per_second


def all_reduce(links: Links | None, gpus: int) -> Channel:
    """Return what an all-reduce takes."""
    return _channel(links, gpus, links.all_reduce) if links is not None else Channel()


def all_to_all(links: Links | None, gpus: int) -> Channel:
    """Return what an all-to-all takes."""
    return _channel(links, gpus, links.all_to_all) if links is not None else Channel()


def _channel(links: Links, gpus: int, curves: tuple[tuple[int, Curve], ...]) -> Channel:
    if gpus < _PAIR:
        return Channel()
    own = links.pair_gb_per_second if gpus == _PAIR else links.gb_per_second
    return Channel(_curve(curves, gpus), links.measured_gb_per_second, own)


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
