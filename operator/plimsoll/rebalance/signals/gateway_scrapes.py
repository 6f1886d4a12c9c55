"""From the scrapes of a gateway's processes to the queue that they hold together, or to what is unknown of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from plimsoll.rebalance.signals.gateway import GatewayQueue
from plimsoll.rebalance.signals.load import (
    CLOCK_TOLERANCE_SECONDS,
    ERRORS_IN_A_ROW,
    OLDEST_SAMPLE_SECONDS,
)
from plimsoll.rebalance.signals.metrics import LARGEST_COUNT, SignalState, worst
from plimsoll.rebalance.signals.tracks import TimeSeries

Scrapes = Mapping[float, float]
"""The requests that one process of the gateway held, by the time of the scrape in POSIX seconds."""


def queue_of(processes: Sequence[Scrapes], now: float) -> GatewayQueue:
    """Return the queue that the processes of a gateway hold together.

    One impossible number (NaN, negative, larger than any count) costs its scrape. A process whose last scrapes are all
    impossible is unknown. A process that was not scraped lately has ended, and holds nothing.

    Args:
        processes: the scrapes of each process.
        now: POSIX seconds.
    """
    recent = [each for each in processes if any(_is_recent(at, now) for at in each)]
    if not recent:
        return GatewayQueue(SignalState.STALE if any(processes) else SignalState.MISSING)
    lines = [_line(each, now) for each in recent]
    states = tuple(SignalState.INVALID if line is None else SignalState.FRESH for line in lines)
    return GatewayQueue(worst(states), tuple(line for line in lines if line is not None))


def _is_recent(at: float, now: float) -> bool:
    return now - OLDEST_SAMPLE_SECONDS <= at <= now + CLOCK_TOLERANCE_SECONDS


def _line(scrapes: Scrapes, now: float) -> TimeSeries | None:
    ordered = sorted(at for at in scrapes if at <= now + CLOCK_TOLERANCE_SECONDS)
    if not any(_is_possible(scrapes[at]) for at in ordered[-ERRORS_IN_A_ROW:]):
        return None
    times = [at for at in ordered if _is_possible(scrapes[at])]
    return TimeSeries(times, [scrapes[at] for at in times])


def _is_possible(count: float) -> bool:
    return math.isfinite(count) and 0 <= count <= LARGEST_COUNT
